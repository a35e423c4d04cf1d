package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decode reads a body strictly: a JSON object of known fields and nothing
// behind it. An empty body is an empty object, and a field that is null is one
// that was not sent. Errors name the field as it is in JSON and what it wants.
func decode(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return invalid(notJSON(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid(fmt.Errorf("the body has more than one JSON value: something is at byte %d, behind the first one", len(value)))
	}
	if err := repeated(json.NewDecoder(bytes.NewReader(value)), ""); err != nil {
		return invalid(err)
	}
	return invalid(decodeObject(value, "the body", "", reflect.ValueOf(into).Elem()))
}

// repeated reads one JSON value and refuses an object that has a member twice:
// which of the two counts is not the same for everyone who reads it. at is the
// path of the value, with a dot behind it.
func repeated(d *json.Decoder, at string) error {
	token, err := d.Token()
	if err != nil {
		return notJSON(err)
	}
	switch token {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			token, err := d.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return notJSON(err)
			}
			if seen[name] {
				return fmt.Errorf("%s is there twice", clip(at+name))
			}
			seen[name] = true
			if err := repeated(d, clip(at+name)+"."); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for d.More() {
			if err := repeated(d, at); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = d.Token() // the end of the object or list
	return err
}

// notJSON says where a body stops being JSON.
func notJSON(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the body is not JSON at byte %d: %s", syntax.Offset, syntax.Error())
	}
	return errors.New("the body is not JSON: it ends too early")
}

// decodeObject reads a JSON object into a struct. what names the object, prefix
// goes before the names of its fields. Fields are told in the order of their names.
func decodeObject(value json.RawMessage, what, prefix string, into reflect.Value) error {
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(value, &sent); err != nil {
		return wrongType(what, value, "an object")
	}
	fields := map[string]reflect.Value{}
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = into.Field(i)
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		field, known := fields[name]
		if !known {
			return fmt.Errorf(unknownField+"%q: want %s", clip(prefix+name), listed(fields, prefix))
		}
		if err := decodeField(sent[name], prefix+name, field); err != nil {
			return err
		}
	}
	return nil
}

func decodeField(value json.RawMessage, name string, into reflect.Value) error {
	wants, object := wantOf(into.Type())
	if object && string(value) != "null" {
		if into.Kind() == reflect.Pointer {
			into.Set(reflect.New(into.Type().Elem()))
			into = into.Elem()
		}
		err := decodeObject(value, name, name+".", into)
		if amount, ok := into.Interface().(Amount); ok && err == nil {
			err = amount.said(name)
		}
		return err
	}
	if err := json.Unmarshal(value, into.Addr().Interface()); err != nil {
		return wrongType(name, value, wants)
	}
	return nil
}

// wantOf says what JSON a field takes, and whether it is an object of fields.
func wantOf(t reflect.Type) (wants string, object bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "a time such as 2026-01-31T00:00:00Z", false
	case t == reflect.TypeFor[json.RawMessage]():
		return "JSON", false
	case t == reflect.TypeFor[[]byte]():
		return "base64", false
	}
	switch t.Kind() {
	case reflect.Struct:
		return "", true
	case reflect.String:
		return "a string", false
	case reflect.Bool:
		return "true or false", false
	case reflect.Int, reflect.Int64:
		return "an integer of at most 64 bits", false
	case reflect.Slice:
		return "a list of strings", false
	}
	panic(fmt.Sprintf("admin: no words for a field of type %s", t))
}

func wrongType(name string, value json.RawMessage, wants string) error {
	return fmt.Errorf("%s is %s, want %s", name, clip(string(value)), wants)
}

// clip bounds what an error repeats of a body.
func clip(text string) string {
	const bytesMax = 60
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax], "") + "..."
}

// listed names all fields of an object.
func listed(fields map[string]reflect.Value, prefix string) string {
	names := slices.Sorted(maps.Keys(fields))
	for i := range names {
		names[i] = prefix + names[i]
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}
