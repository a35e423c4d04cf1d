package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"corenode/wasm/builtin"
)

// place is where a value came from.
type place struct {
	source string
	line   int
}

// decoder reads values into a Config and collects what is wrong. It walks the
// syntax tree itself because a library's decoder stops at the first problem.
type decoder struct {
	source   string
	problems []Problem
	places   map[string]place // by key
}

// placeOf finds where a key was given, or else the section around it.
func (d *decoder) placeOf(key string) place {
	for {
		at, ok := d.places[key]
		end := strings.LastIndexByte(key, '.')
		if ok || end < 0 {
			return at
		}
		key = key[:end]
	}
}

// leaf is one settable value of a Config.
type leaf struct {
	key   string
	value reflect.Value // settable
}

// leavesOf lists every value outside models.
func leavesOf(c *Config) []leaf { return leavesUnder("", reflect.ValueOf(c).Elem()) }

func leavesUnder(prefix string, v reflect.Value) (all []leaf) {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("key")
		switch field := v.Field(i); field.Kind() {
		case reflect.Struct:
			all = append(all, leavesUnder(key+".", field)...)
		case reflect.Map: // models have no fixed keys
		default:
			all = append(all, leaf{key, field})
		}
	}
	return all
}

// byteOrderMark is what some editors write before a file.
const byteOrderMark = "\ufeff"

// file decodes a YAML document over c.
func (d *decoder) file(c *Config, text []byte) {
	tokens := lexer.Tokenize(strings.TrimPrefix(string(text), byteOrderMark))
	headers := 0
	for _, t := range tokens {
		if t.Type != token.DocumentHeaderType {
			continue
		}
		if headers++; headers == 2 { // the parser drops what follows an empty one
			d.problems = append(d.problems, Problem{Source: d.source, Line: t.Position.Line, Text: "a second document: want one"})
			return
		}
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		d.syntax(err)
		return
	}
	documents := slices.DeleteFunc(tree.Docs, isDirective)
	if len(documents) > 1 {
		d.refuse(documents[1].Body, "", "a second document: want one")
		return
	}
	for _, document := range documents {
		if body := document.Body; body != nil {
			d.section(body, "", reflect.ValueOf(c).Elem())
		}
	}
}

// isDirective says whether what the parser takes for a document is a line such as %YAML 1.2 before one.
func isDirective(document *ast.DocumentNode) bool {
	_, is := document.Body.(*ast.DirectiveNode)
	return is
}

// syntax reports YAML that cannot be parsed, with the line that the parser blames.
func (d *decoder) syntax(err error) {
	p := Problem{Source: d.source, Text: "not valid YAML: " + firstLine(err.Error())}
	if detailed, ok := errors.AsType[yaml.Error](err); ok {
		p.Text = "not valid YAML: " + detailed.GetMessage()
		if token := detailed.GetToken(); token != nil && token.Position != nil {
			p.Line = token.Position.Line
		}
	}
	d.problems = append(d.problems, p)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (d *decoder) refuse(at ast.Node, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{Source: d.source, Line: lineOf(at), Key: key, Text: fmt.Sprintf(format, args...)})
}

func lineOf(node ast.Node) int {
	if node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return 0
	}
	return node.GetToken().Position.Line
}

// pairsOf returns the pairs of a mapping; nothing at all (null) is an empty one.
func (d *decoder) pairsOf(node ast.Node, key string) []*ast.MappingValueNode {
	switch node := node.(type) {
	case *ast.MappingNode:
		return node.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}
	case *ast.NullNode, *ast.CommentGroupNode:
		return nil
	}
	d.refuse(node, strings.TrimSuffix(key, "."), "is of type %s, want keys and values", describe(node))
	return nil
}

func describe(node ast.Node) string { return strings.ToLower(node.Type().String()) }

// section decodes a mapping into a struct. key is its path with a final dot.
func (d *decoder) section(node ast.Node, key string, into reflect.Value) {
	for _, pair := range d.pairsOf(node, key) {
		name := pair.Key.GetToken().Value
		at := key + name
		d.places[at] = place{d.source, lineOf(pair.Key)}
		field, known := fieldOf(into, name)
		switch {
		case !known:
			d.refuse(pair.Key, at, "is not a known key; %s has %s", sectionName(key), strings.Join(keysOf(into.Type()), ", "))
		case field.Kind() == reflect.Struct:
			d.section(pair.Value, at+".", field)
		case field.Kind() == reflect.Map:
			d.modelMap(pair.Value, at+".", field)
		case field.Kind() == reflect.Slice:
			d.list(pair.Value, leaf{at, field})
		default:
			d.scalar(pair.Value, leaf{at, field})
		}
	}
}

func sectionName(key string) string {
	if key == "" {
		return "the top level"
	}
	return strings.TrimSuffix(key, ".")
}

func keysOf(t reflect.Type) (keys []string) {
	for i := range t.NumField() {
		keys = append(keys, t.Field(i).Tag.Get("key"))
	}
	return keys
}

func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// modelMap replaces the default models by those of the file.
func (d *decoder) modelMap(node ast.Node, key string, into reflect.Value) {
	models := map[string]Model{}
	for _, pair := range d.pairsOf(node, key) {
		id := pair.Key.GetToken().Value
		d.places[key+id] = place{d.source, lineOf(pair.Key)}
		m := defaultModel(id)
		d.section(pair.Value, key+id+".", reflect.ValueOf(&m).Elem())
		models[id] = m
	}
	into.Set(reflect.ValueOf(models))
}

// scalar decodes one value. It takes the text as written, so that a price
// never passes through a floating point number.
func (d *decoder) scalar(node ast.Node, to leaf) {
	at := place{d.source, lineOf(node)}
	switch node := node.(type) {
	case *ast.StringNode:
		d.set(to, node.Value, at)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		d.set(to, node.GetToken().Value, at)
	case *ast.LiteralNode:
		d.set(to, node.Value.Value, at)
	case *ast.NullNode:
		d.refuse(node, to.key, "has no value; give one, or remove the key for the default")
	default:
		d.refuse(node, to.key, "is of type %s, want a single value", describe(node))
	}
}

// shareModelsKey takes true for a list of all.
const shareModelsKey = "cluster.share_models"

// list decodes a sequence of texts.
func (d *decoder) list(node ast.Node, to leaf) {
	if all, is := node.(*ast.BoolNode); is && to.key == shareModelsKey {
		d.places[to.key] = place{d.source, lineOf(node)}
		to.value.Set(reflect.ValueOf([]string(nil)))
		if all.Value {
			to.value.Set(reflect.ValueOf([]string{allModels}))
		}
		return
	}
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.refuse(node, to.key, "is of type %s, want a list such as [a, b]", describe(node))
		return
	}
	d.places[to.key] = place{d.source, lineOf(node)}
	var values []string // none is nil, as in a Config that was told nothing
	for i, node := range sequence.Values {
		var value string
		d.scalar(node, leaf{fmt.Sprintf("%s.%d", to.key, i), reflect.ValueOf(&value).Elem()})
		values = append(values, value)
	}
	to.value.Set(reflect.ValueOf(values))
}

// set reads text as the type of a leaf.
func (d *decoder) set(to leaf, text string, at place) {
	if to.value.Kind() == reflect.Slice { // a list replaces that of the file, with all its entries
		maps.DeleteFunc(d.places, func(key string, _ place) bool { return strings.HasPrefix(key, to.key+".") })
	}
	d.places[to.key] = at
	if err := setText(to.value, text); err != nil {
		d.problems = append(d.problems, Problem{Source: at.source, Line: at.line, Key: to.key,
			Text: fmt.Sprintf("is %q, want %v", text, err)})
	}
}

// setText parses text by the type of v. Its error says what would be right.
func setText(v reflect.Value, text string) error {
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = text
		return nil
	case *[]string: // outside a file: separated by commas
		*p = nil
		for value := range strings.SplitSeq(text, ",") {
			if value = strings.TrimSpace(value); value != "" {
				*p = append(*p, value)
			}
		}
		return nil
	case *bool:
		return parseBool(p, text)
	case *int:
		return parseWith(p, text, "a whole number", strconv.Atoi)
	case *int64:
		return parseWith(p, text, "a whole number", func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case *time.Duration:
		return parseWith(p, text, "a duration such as 10s or 5m", time.ParseDuration)
	case *Size:
		return parseWith(p, text, "bytes such as 1048576, 32MiB or 8GiB", parseSize)
	case *Price:
		return parseWith(p, text, `dollars per million tokens, such as "0.24", with at most three decimals`, parsePrice)
	case *float64:
		return parseWith(p, text, "a number", parseFloat)
	case **float64:
		*p = new(float64)
		return parseWith(*p, text, "a number", parseFloat)
	case **int:
		*p = new(int)
		return parseWith(*p, text, "a whole number", strconv.Atoi)
	}
	panic(fmt.Sprintf("config: no parser for a %s", v.Type()))
}

func parseWith[T any](to *T, text, want string, parse func(string) (T, error)) error {
	value, err := parse(text)
	if err != nil {
		return errors.New(want)
	}
	*to = value
	return nil
}

// parseBool takes the two spellings of YAML 1.2 and no others.
func parseBool(to *bool, text string) error {
	if text != "true" && text != "false" {
		return errors.New("true or false")
	}
	*to = text == "true"
	return nil
}

func parseFloat(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
		err = strconv.ErrRange
	}
	return n, err
}

func parsePrice(text string) (Price, error) {
	n, err := builtin.ParsePrice(text)
	return Price(n), err
}

// sizeUnits are what a size may end in.
var sizeUnits = map[string]int64{
	"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

func parseSize(text string) (Size, error) {
	digits := strings.TrimRight(text, "kKMGTiB ")
	unit, known := sizeUnits[strings.TrimSpace(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > math.MaxInt64/unit {
		return 0, strconv.ErrSyntax
	}
	return Size(n * unit), nil
}
