package modelfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A folder is a model as it is published: config.json says what it is, one or several
// safetensors files hold its tensors, and texts beside them its tokenizer and chat
// template. Opening one writes the config in the keys of GGUF (folderconfig.go) and
// gives each tensor the name, order and values that a GGUF file would have
// (foldertensors.go). Nothing is copied before Tensor.Bytes asks for it.

const (
	configName    = "config.json"
	indexName     = "model.safetensors.index.json"
	tokenizerName = "tokenizer.json"
)

// textsMax are the texts of a folder that count, by the most bytes that they may have.
var textsMax = map[string]int64{
	configName: 4 << 20, indexName: 64 << 20, tokenizerName: 256 << 20, "tiktoken.model": 64 << 20,
	"generation_config.json": 1 << 20, "tokenizer_config.json": 16 << 20,
	"chat_template.jinja": 4 << 20, "chat_template.json": 4 << 20,
}

// foldersVersion is part of a folder's digest: raise it when the order or the values of
// tensors that are made from the same files change.
const foldersVersion = "folder 1\n"

func openFolder(path string) (*File, error) {
	f := &File{name: path, keyAt: map[string]int{}, byName: map[string]*Tensor{}, beside: map[string][]byte{}}
	if err := f.readFolder(path); err != nil {
		_ = f.Close() // the first error is what the caller can act on
		return nil, err
	}
	return newFile(f), nil
}

func (f *File) readFolder(path string) error {
	if err := f.readTexts(path); err != nil {
		return err
	}
	if f.beside[configName] == nil {
		return fmt.Errorf("the folder has no %s", configName)
	}
	raw, err := f.readShards(path)
	if err != nil {
		return err
	}
	text := append([]byte(foldersVersion), f.beside[configName]...)
	f.parts = append(f.parts, &part{mapping: mapping{data: text}, body: len(text)})
	for _, p := range f.parts {
		if p.release != nil { // translate reads some vectors, far from each other
			adviseRandom(p.data, true)
			defer adviseRandom(p.data, false)
		}
	}
	return f.translate(raw)
}

// translate makes keys and tensors of what the folder holds.
func (f *File) translate(raw []*rawTensor) error {
	c, err := readFolderConfig(f.beside[configName], raw)
	if err != nil {
		return fmt.Errorf("%s: %w", configName, err)
	}
	b := &builder{config: c, raw: map[string]*rawTensor{}, byName: f.byName, stacks: map[string]*stack{}}
	if err := b.build(raw); err != nil {
		return err
	}
	f.tensors = b.tensors
	meta := c.meta
	template, err := ChatTemplate(f.Beside)
	if err != nil {
		return err
	}
	if template != "" {
		meta = append(meta, KV{"tokenizer.chat_template", template})
	}
	sampling, err := folderSampling(f.beside["generation_config.json"])
	if err != nil {
		return fmt.Errorf("generation_config.json: %w", err)
	}
	for _, kv := range append(meta, sampling...) {
		v, err := newValue(kv.Key, kv.Value)
		if err != nil {
			return err
		}
		f.keyAt[kv.Key] = len(f.keys)
		f.keys = append(f.keys, v)
	}
	return nil
}

// folderSampling are the keys of what a generation_config.json says about sampling.
func folderSampling(text []byte) (meta []KV, err error) {
	var says struct {
		Temperature *float32 `json:"temperature"`
		TopP        *float32 `json:"top_p"`
		MinP        *float32 `json:"min_p"`
		Repetition  *float32 `json:"repetition_penalty"`
		TopK        *int32   `json:"top_k"`
	}
	if text == nil {
		return nil, nil
	}
	if err := json.Unmarshal(text, &says); err != nil {
		return nil, err
	}
	put := func(key string, x *float32) {
		if x != nil {
			meta = append(meta, KV{"general.sampling." + key, *x})
		}
	}
	put("temp", says.Temperature)
	put("top_p", says.TopP)
	put("min_p", says.MinP)
	put("penalty_repeat", says.Repetition)
	if says.TopK != nil {
		meta = append(meta, KV{"general.sampling.top_k", *says.TopK})
	}
	return meta, nil
}

func (f *File) readTexts(path string) error {
	for _, name := range slices.Sorted(maps.Keys(textsMax)) {
		text, err := readText(filepath.Join(path, name), textsMax[name])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if filepath.Ext(name) == ".json" && name != "tokenizer.json" {
			text = ReadPython(text)
		}
		f.beside[name] = text
	}
	return nil
}

func readText(path string, most int64) ([]byte, error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", path, info.Size(), most)
	}
	text := make([]byte, info.Size())
	if _, err := io.ReadFull(file, text); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}

// readShards maps the safetensors files and lists their tensors.
func (f *File) readShards(path string) (all []*rawTensor, err error) {
	names, where, err := shardNames(path, f.beside[indexName])
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range names {
		list, err := f.readShard(filepath.Join(path, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, t := range list {
			if seen[t.name] {
				return nil, fmt.Errorf("%s: tensor %q appears in two files", name, t.name)
			}
			seen[t.name] = true
			if where != nil && where[t.name] != name {
				return nil, fmt.Errorf("%s: tensor %q is not in this file by %s", name, t.name, indexName)
			}
		}
		all = append(all, list...)
	}
	if where != nil && len(where) != len(all) {
		return nil, fmt.Errorf("%s names %d tensors, the files have %d", indexName, len(where), len(all))
	}
	return all, nil
}

func (f *File) readShard(path string) ([]*rawTensor, error) {
	m, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	p, data := &part{mapping: m}, m.data
	f.parts = append(f.parts, p)
	list, body, err := parseSafetensors(data)
	if err != nil {
		return nil, err
	}
	p.body = body
	const pieces = 256 // a folder may have a hundred thousand small tensors
	for i := range pieces {
		n := len(data) - body
		p.stored = append(p.stored, data[body+n/pieces*i:body+n/pieces*(i+1)])
	}
	p.stored = append(p.stored, data[body+(len(data)-body)/pieces*pieces:])
	return list, nil
}

// shardNames lists the files of a folder; where is nil without an index.
func shardNames(path string, index []byte) (names []string, where map[string]string, err error) {
	if index == nil {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ".safetensors" {
				names = append(names, e.Name())
			}
		}
		if len(names) != 1 {
			return nil, nil, fmt.Errorf("the folder has %d safetensors files and no %s", len(names), indexName)
		}
		return names, nil, nil
	}
	var parsed struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &parsed); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", indexName, err)
	}
	files := map[string]bool{}
	for tensor, name := range parsed.Files {
		if name != filepath.Base(name) || filepath.Ext(name) != ".safetensors" {
			return nil, nil, fmt.Errorf("%s: tensor %q is in %q, want a safetensors file of the folder", indexName, tensor, name)
		}
		files[name] = true
	}
	if len(files) == 0 || len(files) > partsMax {
		return nil, nil, fmt.Errorf("%s names %d files, want 1 to %d", indexName, len(files), partsMax)
	}
	return slices.Sorted(maps.Keys(files)), parsed.Files, nil
}

// ChatTemplate finds the template in the places that publishers put it in, the newest
// first; "" without one. beside gives a file of the folder, nil for one that is not there.
func ChatTemplate(beside func(name string) []byte) (string, error) {
	if text := beside("chat_template.jinja"); text != nil {
		return string(text), nil
	}
	for _, name := range []string{"chat_template.json", "tokenizer_config.json"} {
		text := beside(name)
		if text == nil {
			continue
		}
		var parsed struct {
			Template json.RawMessage `json:"chat_template"`
		}
		if err := json.Unmarshal(ReadPython(text), &parsed); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if len(parsed.Template) == 0 || string(parsed.Template) == "null" {
			continue
		}
		template, err := oneTemplate(parsed.Template)
		if err != nil {
			return "", fmt.Errorf("%s: chat_template: %w", name, err)
		}
		return template, nil
	}
	return "", nil
}

// oneTemplate reads a template, or the one named default of a list.
func oneTemplate(text json.RawMessage) (string, error) {
	if text[0] != '[' {
		var one string
		err := json.Unmarshal(text, &one)
		return one, err
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(text, &list); err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", fmt.Errorf("none of %d templates is the default", len(list))
}
