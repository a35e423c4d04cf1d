package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"corenode/engine/messages"
	"corenode/engine/modelfile"
	"corenode/engine/template"
	"corenode/engine/tokenizer"
	"corenode/wasm/abi"
)

// Counter counts the prompt tokens of a model whose weights are elsewhere: it has its
// tokenizer and its chat template, and nothing else. It is safe for concurrent use.
type Counter struct {
	engine *Engine
	// own counts what the template refuses as it is; nil where nothing is left to try.
	own *Engine
}

// OpenCounter reads the tokenizer from a GGUF file, or from a tokenizer.json and what is beside it. The chat template is
// that of the file templatePath, or of the GGUF file, or of chat_template.jinja beside the
// tokenizer.json. Of o only Info, Path, TemplateDate and TemplateSchema count. nodes says that
// the servers are nodes: they render what this one would. Others give the template a
// conversation as it is sent to them.
func OpenCounter(o Options, templatePath string, nodes bool) (*Counter, error) {
	if templatePath != "" {
		text, err := os.ReadFile(templatePath)
		if err != nil {
			return nil, fmt.Errorf("read chat template: %w", err)
		}
		o.Template = string(text)
	}
	e := &Engine{info: o.Info, options: o}
	open := e.countWithFile
	if filepath.Ext(o.Path) == ".json" {
		open = e.countWithJSON
	}
	err := open()
	if err == nil {
		err = e.checkTurns()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	if nodes {
		return &Counter{engine: e}, nil
	}
	plain := &Engine{info: e.info, options: o, tokenizer: e.tokenizer, template: e.template, bos: e.bos, eos: e.eos}
	plain.format = e.format.asSent()
	return &Counter{engine: plain, own: e}, nil
}

// countWithFile keeps nothing of the file: tokenizer and template own what they need.
func (e *Engine) countWithFile() (err error) {
	if e.file, err = modelfile.Open(e.options.Path); err != nil {
		return err
	}
	defer func() {
		e.file.Close()
		e.file = nil
	}()
	return e.loadText(e.options)
}

// countWithJSON reads a tokenizer.json, and the files beside it.
func (e *Engine) countWithJSON() error {
	text, err := os.ReadFile(e.options.Path)
	if err != nil {
		return err
	}
	var unread error
	beside := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(e.options.Path), name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			unread = err
		}
		return text // nil with an error
	}
	if e.tokenizer, err = tokenizer.FromJSON(text, beside); err != nil {
		return fmt.Errorf("load tokenizer: %w", err)
	}
	source := e.options.Template
	if source == "" {
		if source, err = modelfile.ChatTemplate(beside); err != nil {
			return err
		}
		if source == "" && unread == nil {
			return errors.New("there is no chat template: name one in the config, or put chat_template.jinja beside the tokenizer")
		}
	}
	if unread != nil {
		return unread
	}
	return e.useTemplate(source)
}

// checkTurns says why a second question would not be rendered: the template needs a token, say, that the files do not name.
// What the template itself refuses is no reason.
func (e *Engine) checkTurns() error {
	_, err := e.template.Render(template.Input{GenerationPrompt: true, BOS: e.bos, EOS: e.eos, Now: e.templateTime(),
		Messages: []template.Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}, {Role: "user", Content: "c"}}})
	if _, raised := errors.AsType[*template.Raised](err); err == nil || raised {
		return nil
	}
	return fmt.Errorf("render a second question: %w", err)
}

// Count returns the number of prompt tokens of a body. What the template refuses as it is sent, its servers have
// another way to render, or they refuse it too: then it is counted as this node would render it.
func (c *Counter) Count(q *messages.Request) (int, error) {
	n, err := c.engine.Count(q)
	if refused, ok := errors.AsType[*abi.Error](err); ok && refused.Err != nil && c.own != nil { // other errors have no cause
		return c.own.Count(q)
	}
	return n, err
}
