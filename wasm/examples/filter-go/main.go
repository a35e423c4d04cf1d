// Command redact is a filter: one word of the operator's configuration never reaches a
// client, however the model's answer is cut into pieces.
//
//	{"word": "Zebulon"}
//
// What may be the beginning of the word is held back until the next piece shows whether it is.
package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

func init() {
	r := &redact{}
	sdk.ServeConfigurable(sdk.FilterHandler(r), r)
}

func main() {}

type redact struct{ word string }

// wordMax bounds the word: what is held back of it fits the state.
const wordMax = 64

// Configure may use encoding/json: it runs once, not for every piece.
func (r *redact) Configure(config []byte) error {
	var c struct {
		Word string `json:"word"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return err
	}
	if len(c.Word) > wordMax {
		return fmt.Errorf("word has %d bytes, want at most %d", len(c.Word), wordMax)
	}
	r.word = c.Word
	return nil
}

// Filter implements sdk.Filter.
func (r *redact) Filter(in abi.FilterInput) (out abi.Filtered, err error) {
	text := string(in.State) + in.Text
	for r.word != "" && text != "" {
		at := strings.IndexByte(text, r.word[0])
		if at < 0 {
			break
		}
		out.Text, text = append(out.Text, text[:at]...), text[at:]
		switch {
		case strings.HasPrefix(text, r.word):
			out.Text, text = append(out.Text, "[redacted]"...), text[len(r.word):]
		case !in.Last && strings.HasPrefix(r.word, text):
			out.State = []byte(text)
			return out, nil
		default:
			out.Text, text = append(out.Text, text[0]), text[1:]
		}
	}
	out.Text = append(out.Text, text...)
	return out, nil
}
