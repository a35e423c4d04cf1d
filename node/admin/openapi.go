package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/token"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The document that describes the API is written from what the API is made of: the routes, and
// the types of what they take and give. A field's tags say the rest of it: json its name, and by
// omitempty or omitzero that it may be absent; doc what it is; enum, minimum and maximum what it
// may be.

// schemaTexts say what whole schemas are, and properties whose types cannot have tags.
var schemaTexts = map[string]string{
	"AccountCharges": "The charges of one account.",
	"Amount":         "Exact money: one of the two, and not empty: zero is 0.",
	"Answer":         "One side of a difference.",
	"Charges":        "The charges that both modules made.",
	// The bytes of modules must not change with what is said here.
	"Counter.amount": "What a hold has, a settlement took, or an adjustment gives back, which is negative.",
	"Difference":     "One call that differs, without its texts.",
	"Info": "A module as the node has it; or, with state missing and without digest, a slot whose module " +
		"is not known any more.",
	"KeyChange":   "What is absent stays.",
	"Line":        "One line of a charge.",
	"Number":      "A named number.",
	"Operation":   "The repeated calls of one operation.",
	"Ratio":       "One bar of the histogram.",
	"Report":      "How the answers of a shadow differ from those that clients got.",
	"TokenPrices": "What one token of each kind costs.",
}

// object is a JSON object of the document.
type object map[string]any

// Schemas of what has no fields.
var (
	anyText    = object{"type": "string"}
	anyTime    = object{"type": "string", "format": "date-time"}
	anyInteger = object{"type": "integer", "format": "int64"}
	anyBoolean = object{"type": "boolean"}
)

// document collects the schemas that others refer to, by their names, and their types.
type document struct {
	schemas object
	types   map[string]reflect.Type
}

// openAPI is the document, written once.
var openAPI = sync.OnceValue(func() json.RawMessage {
	d := document{object{}, map[string]reflect.Type{}}
	paths := map[string]object{}
	for _, r := range routes {
		if paths[r.path] == nil {
			paths[r.path] = segmentOf(r.path)
		}
		paths[r.path][strings.ToLower(r.method)] = d.operation(r)
	}
	written, err := json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{"title": "corenode admin API", "version": "1",
			"description": "Accounts, keys, money, modules and drain. Money is integers of nano-dollars (1e-9 US dollar). " +
				"Every call takes the bearer token from admin.token in the data folder. A listener with too many connections answers " +
				"503 in another form, before it reads a call."},
		"security": []object{{"token": []string{}}},
		"paths":    paths,
		"components": object{
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"schemas":         d.schemas,
		},
	})
	if err != nil {
		panic(fmt.Sprintf("admin: write the document: %v", err))
	}
	return written
})

// describe answers with the document.
func (a *API) describe(call) (json.RawMessage, error) { return a.document(), nil }

// segmentOf describes the segment in braces of a path.
func segmentOf(path string) object {
	_, rest, braces := strings.Cut(path, "{")
	if !braces {
		return object{}
	}
	name, _, _ := strings.Cut(rest, "}")
	return object{"parameters": []object{{"name": name, "in": "path", "required": true,
		"description": cmp.Or(segments[strings.TrimPrefix(path, Root)], segments[name]), "schema": anyText}}}
}

// operation describes a verb.
func (d document) operation(r route) object {
	summary, more, _ := strings.Cut(r.text, ". ")
	o := object{"summary": summary, "responses": object{
		strconv.Itoa(r.status): d.body("Done.", r.gives),
		"default":              d.body("The error says what is wrong.", reflect.TypeFor[ErrorBody]()),
	}}
	if more != "" {
		o["description"] = more
	}
	if r.takes != nil { // an empty body is an empty object
		o["requestBody"] = object{"required": d.fields(r.takes)["required"] != nil, "content": d.content(r.takes)}
	}
	var query []object
	for _, p := range r.parameters() {
		query = append(query, object{"name": p.name, "in": "query", "description": p.text, "schema": p.schema})
	}
	if len(query) > 0 {
		o["parameters"] = query
	}
	return o
}

func (d document) body(text string, t reflect.Type) object {
	return object{"description": text, "content": d.content(t)}
}

func (d document) content(t reflect.Type) object {
	return object{"application/json": object{"schema": d.schemaOf(t)}}
}

// schemaOf describes the JSON of a type.
func (d document) schemaOf(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return anyTime
	case reflect.TypeFor[json.RawMessage]():
		return object{"type": "object"}
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schemaOf(t.Elem())
	case reflect.String:
		return anyText
	case reflect.Bool:
		return anyBoolean
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return anyInteger
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": d.schemaOf(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schemaOf(t.Elem())}
	case reflect.Struct:
		if !token.IsExported(t.Name()) {
			return d.fields(t)
		}
		return d.refer(t)
	}
	panic(fmt.Sprintf("admin: no schema for %v", t))
}

// refer gives a reference to the schema of a struct, which it describes the first time.
func (d document) refer(t reflect.Type) object {
	name := schemaName(t)
	if known := d.types[name]; known == nil {
		d.types[name] = t
		schema := d.fields(t)
		if t == reflect.TypeFor[Amount]() {
			schema = oneOf(schema)
		}
		if says := schemaTexts[name]; says != "" {
			schema["description"] = says
		}
		d.schemas[name] = schema
	} else if known != t {
		panic(fmt.Sprintf("admin: the schemas of %v and %v have one name", known, t))
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// schemaName is a type's own name. Those of captures are also names of others.
func schemaName(t reflect.Type) string {
	if path.Base(t.PkgPath()) == "capture" {
		return "Capture" + t.Name()
	}
	return t.Name()
}

// fields describes a struct in place, with the fields of what is embedded in it.
func (d document) fields(t reflect.Type) object {
	properties, required := object{}, []string(nil)
	for _, f := range reflect.VisibleFields(t) {
		name, absent, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" {
			continue
		}
		property := maps.Clone(d.schemaOf(f.Type))
		if says := cmp.Or(f.Tag.Get("doc"), schemaTexts[schemaName(t)+"."+name]); says != "" {
			property["description"] = says
		}
		if values := f.Tag.Get("enum"); values != "" {
			property["enum"] = strings.Split(values, ",")
		}
		for _, bound := range []string{"minimum", "maximum"} {
			if number := f.Tag.Get(bound); number != "" {
				property[bound] = json.Number(number)
			}
		}
		properties[name] = property
		if absent == "" {
			required = append(required, name)
		}
	}
	schema := object{"type": "object"}
	if len(properties) > 0 {
		schema["properties"] = properties
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// oneOf makes of a struct's schema that of one which has exactly one of the fields.
func oneOf(whole object) object {
	properties := whole["properties"].(object)
	var each []object
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		each = append(each, object{"type": "object", "properties": object{name: properties[name]}, "required": []string{name}})
	}
	return object{"oneOf": each}
}
