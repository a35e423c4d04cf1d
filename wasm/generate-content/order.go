package generatecontent

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// ordering is what a schema says about the order of its properties. Clients whose
// maps have no order have no other way to say one.
type ordering struct {
	from, to int    // where the properties stand in the text of the schema, with no space between members
	names    []byte // the text of propertyOrdering, an array; nil for none
}

// put brings the properties in the text into their order: first those that are
// named. Names of no property, and names for a second time, say nothing.
func (o *ordering) put(text []byte) {
	if o.names == nil || o.from == o.to {
		return
	}
	var s scan.Scanner
	places := map[string]int{}
	s.Reset(o.names)
	for s.Open(); s.Next(); {
		if name, ok := s.Text(); ok {
			if _, named := places[string(name)]; !named {
				places[string(name)] = s.Index()
			}
		}
	}
	type property struct {
		place       int
		name, value []byte
	}
	var properties []property
	s.Reset(text[o.from:o.to])
	for s.Open(); s.Next(); {
		p := property{place: math.MaxInt, name: s.Key()}
		if place, named := places[string(p.name)]; named {
			p.place = place
		}
		p.value = s.Raw()
		properties = append(properties, p)
	}
	slices.SortStableFunc(properties, func(a, b property) int { return cmp.Compare(a.place, b.place) })
	var out []byte
	for _, p := range properties {
		out = append(appendName(append(out, ','), p.name), p.value...)
	}
	copy(text[o.from:o.to], enclosed('{', out, '}'))
}

// ordered is a JSON schema whose properties come in the order of their
// propertyOrdering, which the protocol knows in JSON schemas too.
func ordered(schema []byte) []byte {
	if !bytes.Contains(schema, []byte(`"propertyOrdering"`)) {
		return schema
	}
	var s scan.Scanner
	s.Reset(schema)
	return appendOrdered(make([]byte, 0, len(schema)), &s)
}

// appendOrdered appends the value that the scanner stands before, and is for each
// object in it what put is for one.
func appendOrdered(dst []byte, s *scan.Scanner) []byte {
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
			dst = appendOrdered(dst, s)
			continue
		}
		name, value := string(s.Key()), s.Kind()
		dst = appendName(dst, []byte(name))
		from := len(dst)
		dst = appendOrdered(dst, s)
		switch {
		case name == "properties" && value == scan.Object:
			o.from, o.to = from, len(dst)
		case name == "propertyOrdering" && value == scan.Array:
			o.names = dst[from:]
		}
	}
	o.put(dst)
	return append(dst, brackets[1])
}

func appendName(dst, name []byte) []byte {
	return append(abi.AppendEscaped(append(dst, '"'), string(name)), `":`...)
}
