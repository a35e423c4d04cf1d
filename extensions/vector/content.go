package vector

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// content is bytes that are written readably; see the package comment.
type content []byte

const base64Mark = "base64:"

// UnmarshalJSON reads an object, an array or a string.
func (c *content) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '{', '[':
		var compact bytes.Buffer
		err := json.Compact(&compact, raw)
		*c = compact.Bytes()
		return err
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		encoded, is := strings.CutPrefix(text, base64Mark)
		if !is {
			*c = content(text)
			return nil
		}
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		*c = decoded
		return err
	}
	return errors.New("content is neither an object, an array nor a string")
}

// MarshalJSON writes what UnmarshalJSON reads as the same bytes, the most
// readable way there is.
func (c content) MarshalJSON() ([]byte, error) {
	if len(c) > 0 && (c[0] == '{' || c[0] == '[') && utf8.Valid(c) {
		var compact bytes.Buffer
		if json.Compact(&compact, c) == nil && bytes.Equal(compact.Bytes(), c) {
			return c, nil
		}
	}
	return textOf(c), nil
}

// textOf writes bytes as a string, marked when they are not its text.
func textOf(b []byte) []byte {
	text := string(b)
	if !utf8.Valid(b) || strings.HasPrefix(text, base64Mark) {
		text = base64Mark + base64.StdEncoding.EncodeToString(b)
	}
	return quoted(text)
}

// lines is the bytes of a stream, written as an array of lines.
type lines []byte

// UnmarshalJSON reads an array of lines, or a string of exact bytes.
func (l *lines) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return (*content)(l).UnmarshalJSON(raw)
	}
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil {
		return errors.New("a stream is an array of lines or a string")
	}
	*l = lines{}
	for _, line := range all {
		*l = append(append(*l, line...), '\n')
	}
	return nil
}

// MarshalJSON writes lines where every byte belongs to one, else a string.
func (l lines) MarshalJSON() ([]byte, error) {
	if !utf8.Valid(l) || len(l) > 0 && l[len(l)-1] != '\n' {
		return textOf(l), nil
	}
	out := []byte{'['}
	for line := range bytes.Lines(l) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, quoted(string(line[:len(line)-1]))...)
	}
	return append(out, ']'), nil
}

// quoted is a JSON string without the escapes that only HTML needs.
func quoted(text string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string in memory does not fail
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
