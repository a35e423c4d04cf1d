package generatecontent

import (
	"bytes"
	"slices"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// ordering is what a schema says about the order of its properties. Clients whose
// maps have no order have no other way to say one.
type ordering struct {
	properties []property
	names      []byte // the text of propertyOrdering, an array; nil for none
}

// property is where a property stands in a text: its name as appendName writes it,
// and its value. Who writes them notes that. A schema is in the properties of all
// schemas around it: to look there for their ends would read it once for each.
type property struct{ from, value, to int }

// put brings the properties in the text, with no space between them, into their
// order: first those that are named. Names of no property, and names for a second
// time, say nothing.
func (o *ordering) put(text []byte) {
	if o.names == nil || len(o.properties) < 2 {
		return
	}
	texts := namesOf(o.names)
	named := len(texts)
	for _, p := range o.properties {
		texts = append(texts, text[p.from:p.value])
	}
	order := make([]uint64, len(o.properties)) // the place among the names, then the one in the text
	first := 0                                 // of those that are the same
	for _, at := range scan.Grouped(texts) {
		if !bytes.Equal(texts[at], texts[first]) {
			first = at
		}
		if at >= named {
			order[at-named] = uint64(first)<<32 | uint64(at-named)
		}
	}
	if slices.IsSorted(order) {
		return
	}
	slices.Sort(order)
	from, to := o.properties[0].from, o.properties[len(order)-1].to
	out := make([]byte, 0, 1+to-from)
	for _, word := range order {
		p := o.properties[uint32(word)]
		out = append(append(out, ','), text[p.from:p.to]...)
	}
	copy(text[from:to], out[1:])
}

// namesOf is the names of a propertyOrdering as appendName writes them.
func namesOf(array []byte) [][]byte {
	var s scan.Scanner
	var list [][]byte
	var texts []byte
	s.Reset(array)
	for s.Open(); s.Next(); {
		if name, ok := s.Text(); ok {
			from := len(texts)
			texts = appendName(texts, name)
			list = append(list, texts[from:])
		}
	}
	return list
}

// ordered is a JSON schema whose properties come in the order of their
// propertyOrdering, which the protocol knows in JSON schemas too.
func ordered(schema []byte) []byte {
	if !bytes.Contains(schema, []byte(`"propertyOrdering"`)) {
		return schema
	}
	var s scan.Scanner
	s.Reset(schema)
	return appendOrdered(make([]byte, 0, len(schema)), &s, nil)
}

// appendOrdered appends the value that the scanner stands before, and is for each
// object in it what put is for one. It notes the members of the value, if asked to.
func appendOrdered(dst []byte, s *scan.Scanner, members *[]property) []byte {
	kind := s.Kind()
	if kind != scan.Array && kind != scan.Object {
		return append(dst, s.Raw()...)
	}
	brackets := "[]"
	if kind == scan.Object {
		brackets = "{}"
	}
	var o ordering
	dst = append(dst, brackets[0])
	for s.Open(); s.Next(); {
		if s.Index() > 0 {
			dst = append(dst, ',')
		}
		if kind == scan.Array {
			dst = appendOrdered(dst, s, nil)
			continue
		}
		from := len(dst)
		dst = appendName(dst, s.Key())
		value := len(dst)
		switch name, kind := dst[from:value], s.Kind(); {
		case kind == scan.Object && string(name) == `"properties":`:
			o.properties = nil
			dst = appendOrdered(dst, s, &o.properties)
		case kind == scan.Array && string(name) == `"propertyOrdering":`: // there are no schemas in it
			dst = append(dst, s.Raw()...)
			o.names = dst[value:]
		default:
			dst = appendOrdered(dst, s, nil)
		}
		if members != nil {
			*members = append(*members, property{from, value, len(dst)})
		}
	}
	o.put(dst)
	return append(dst, brackets[1])
}

func appendName(dst, name []byte) []byte {
	return append(abi.AppendEscaped(append(dst, '"'), string(name)), `":`...)
}
