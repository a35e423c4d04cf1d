package vector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// File is one vector file.
type File struct {
	Path    string
	Vectors []Vector

	text []byte // as it was read
}

// Write writes the vectors as Format lays them out, whole or not at all. It refuses where the
// file is not what ReadDir read: what somebody saved meanwhile would be lost.
func (f File) Write() error {
	path, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // it is there after an error only
	_, err = part.Write(Format(f.Vectors))
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil {
		err = os.Chmod(part.Name(), info.Mode().Perm())
	}
	now, readErr := os.ReadFile(path)
	switch err = errors.Join(err, readErr); {
	case err != nil:
		return err
	case !bytes.Equal(now, f.text):
		return fmt.Errorf("%s was saved meanwhile and is left as it is: run it again", f.Path)
	}
	return os.Rename(part.Name(), path)
}

// ReadDir reads the *.json files of a folder in the order of their names. A
// name is used once in all of them.
func ReadDir(dir string) ([]File, error) {
	names, _ := fs.Glob(os.DirFS(filepath.Clean(dir)), "*.json") // the pattern is well formed
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no .json files", dir)
	}
	named := make(map[string]string)
	files := make([]File, len(names))
	for i, name := range names {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, v := range all {
			if first, taken := named[v.Name]; taken {
				return nil, fmt.Errorf("%s: the name %q is used in %s already", path, v.Name, first)
			}
			named[v.Name] = path
		}
		files[i] = File{Path: path, Vectors: all, text: text}
	}
	return files, nil
}

// Pack reads the *.json files of a folder into one section for a module.
func Pack(dir string) ([]byte, error) {
	files, err := ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Vector
	for _, f := range files {
		all = append(all, f.Vectors...)
	}
	if len(all) > VectorsMax {
		return nil, fmt.Errorf("%d vectors, at most %d", len(all), VectorsMax)
	}
	var section bytes.Buffer
	err = json.Compact(&section, Format(all))
	return section.Bytes(), err
}

// Format writes vectors the way people read them: as they were written, with
// the present wants, everything that fits a line on one.
func Format(all []Vector) []byte {
	out := []byte("[")
	for i := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(all[i].layout(append(out, "\n  "...)), '\n')
		out = bytes.TrimSuffix(out, []byte("\n"))
	}
	if len(all) > 0 {
		out = append(out, '\n')
	}
	return append(out, "]\n"...)
}

const wantKey = `"want"`

// Equal tells whether two vectors say the same, however they are laid out.
func (v *Vector) Equal(other *Vector) bool { return bytes.Equal(v.layout(nil), other.layout(nil)) }

// layout appends the vector with its present want in place of the old one.
func (v *Vector) layout(out []byte) []byte {
	members, err := membersOf(v.raw)
	if err != nil {
		panic(fmt.Sprintf("vector %q was parsed and now is not: %v", v.Name, err))
	}
	out = append(out, '{')
	count := 0
	add := func(key, value []byte) {
		if count > 0 {
			out = append(out, ',')
		}
		count++
		out = append(append(append(out, "\n    "...), key...), ": "...)
		out = appendValue(out, value, 4)
	}
	for _, m := range members {
		if string(m.key) != wantKey {
			add(m.key, m.value)
		}
	}
	if v.spec.Want != nil {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		if err := e.Encode(v.spec.Want); err != nil {
			panic(fmt.Sprintf("vector %q: a want that cannot be written: %v", v.Name, err))
		}
		add([]byte(wantKey), text.Bytes())
	}
	return append(out, "\n  }"...)
}

// member is a member of an object, or an element of an array. Both parts are
// as written: a key that was escaped stays so.
type member struct {
	key   json.RawMessage
	value json.RawMessage
}

// membersOf lists an object's members, or an array's elements without keys, in
// the order they are written.
func membersOf(raw []byte) (all []member, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil {
		return nil, err
	}
	for d.More() {
		var m member
		if open == json.Delim('{') {
			before := d.InputOffset()
			if _, err := d.Token(); err != nil {
				return nil, err
			}
			between := raw[before:d.InputOffset()] // a comma or spaces, and the key
			m.key = between[bytes.IndexByte(between, '"'):]
		}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// lineWidth is what a value may take to stand on one line.
const lineWidth = 116

// appendValue appends a JSON value; one that is too wide has its members on
// lines of their own.
func appendValue(out, raw []byte, indent int) []byte {
	raw = bytes.TrimSpace(raw)
	line := jsontext.Value(raw).Clone()
	if line.Compact(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) != nil {
		return append(out, raw...)
	}
	if len(line)+indent <= lineWidth || raw[0] != '{' && raw[0] != '[' {
		return append(out, line...)
	}
	members, err := membersOf(raw)
	if err != nil || len(members) == 0 {
		return append(out, line...)
	}
	pad := "\n" + strings.Repeat(" ", indent+2)
	closer := byte(']')
	if raw[0] == '{' {
		closer = '}'
	}
	out = append(out, raw[0])
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, pad...)
		if raw[0] == '{' {
			out = append(append(out, m.key...), ": "...)
		}
		out = appendValue(out, m.value, indent+2)
	}
	return append(append(out, pad[:len(pad)-2]...), closer)
}
