// Command guard-rail is a rewrite module: it refuses requests about what the operator's
// configuration names, lets a name of a model stand for another, and puts instructions before
// those of the client.
//
//	{"refuse": "project zebulon", "alias": "fast", "serves": "core-1.1-mini", "system": "Answer in English."}
//
// The phrase is looked for in all of messages and system, without regard to case, and however
// it or the name of the member is escaped. Each of the keys may be left out.
package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
	"corenode/wasm/sdk/scan"
)

func init() {
	g := &guard{}
	sdk.ServeConfigurable(sdk.RewriteHandler(g), g)
}

func main() {}

type guard struct{ refuse, alias, serves, system string }

// Configure may use encoding/json: it runs once, not for every request.
func (g *guard) Configure(config []byte) error {
	var c struct {
		Refuse string `json:"refuse"`
		Alias  string `json:"alias"`
		Serves string `json:"serves"`
		System string `json:"system"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return err
	}
	*g = guard{strings.ToLower(c.Refuse), c.Alias, c.Serves, c.System}
	return nil
}

// Rewrite implements sdk.Rewrite. What is no JSON object stays as it is: the node refuses it.
func (g *guard) Rewrite(in abi.RewriteInput) ([]byte, *abi.Error) {
	var s scan.Scanner
	s.Reset(in.Body)
	out, given := []byte{'{'}, false
	if s.Kind() != scan.Object || !s.Open() {
		return nil, nil
	}
	for s.Next() {
		name := string(s.Key()) // as the node reads it, whatever its client escaped of it
		value := s.Raw()
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, quoted(name)...), ':')
		switch {
		case (name == "messages" || name == "system") && g.names(value):
			return nil, &abi.Error{Kind: abi.InvalidRequest, Param: name, Msg: "this topic is not served here"}
		case name == "model" && g.isAlias(value):
			value = quoted(g.serves)
		case name == "system" && g.system != "":
			given = true
			value = before(abi.AppendEscaped(nil, g.system), value)
		}
		out = append(out, value...)
	}
	if !s.End() {
		return nil, nil
	}
	if g.system != "" && !given {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, `"system":`...), quoted(g.system)...)
	}
	return append(out, '}'), nil
}

// quoted is a text as JSON.
func quoted(text string) []byte { return append(abi.AppendEscaped([]byte{'"'}, text), '"') }

// isAlias says whether a value is the name that stands for another.
func (g *guard) isAlias(value []byte) bool {
	return g.alias != "" && len(value) > 2 && value[0] == '"' && string(scan.Unescape(nil, value[1:len(value)-1])) == g.alias
}

// names says whether the phrase is in a value.
func (g *guard) names(value []byte) bool {
	return g.refuse != "" && bytes.Contains(bytes.ToLower(scan.Unescape(nil, value)), []byte(g.refuse))
}

// before puts instructions before a system prompt, which is a text or a list of blocks.
func before(system, value []byte) []byte {
	blocks, isList := bytes.CutPrefix(value, []byte{'['})
	switch {
	case len(value) > 2 && value[0] == '"':
		return append(append(append([]byte{'"'}, system...), `\n\n`...), value[1:]...)
	case isList && !bytes.HasPrefix(bytes.TrimLeft(blocks, " \t\r\n"), []byte{']'}):
		return append(append(append([]byte(`[{"type":"text","text":"`), system...), `"},`...), blocks...)
	}
	return append(append([]byte{'"'}, system...), '"')
}
