package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMade: what is checked in is what the table makes.
func TestMade(t *testing.T) {
	for _, p := range parts() {
		file, err := os.ReadFile(filepath.Join("..", "..", p.path))
		if err != nil {
			t.Fatal(err)
		}
		made, err := p.place(file)
		if err != nil || !bytes.Equal(made, file) {
			t.Errorf("%s is not what the table makes of %q, %v: run make abi", p.path, p.mark, err)
		}
		if len(p.text) < 500 {
			t.Errorf("%s: the part %q has %d bytes", p.path, p.mark, len(p.text))
		}
	}
}

// TestTable: numbers are not used twice, tags are eight bytes and differ, and what a
// field refers to is there.
func TestTable(t *testing.T) {
	var tags, names []string
	var ops []int
	for i := range records {
		r := &records[i]
		names = append(names, r.name)
		for _, form := range r.layouts {
			if len(form.tag) != 0 && len(form.tag) != 8 || slices.Contains(tags, form.tag) && form.tag != "" {
				t.Errorf("%s: tag %q", r.name, form.tag)
			}
			tags = append(tags, form.tag)
		}
	}
	for i := range records {
		for _, f := range records[i].fields {
			of := slices.Contains(names, f.of) ||
				slices.ContainsFunc(enumerations, func(e enumeration) bool { return e.name == f.of && e.wire == f.wire })
			if f.of != "" && !of || f.of == "" && f.wire >= nested && f.wire != numbers {
				t.Errorf("%s.%s is of %q", records[i].name, f.name, f.of)
			}
		}
	}
	for _, e := range enumerations {
		for i, n := range e.entries {
			if i > 0 && n.number <= e.entries[i-1].number {
				t.Errorf("%s: %s is %d", e.name, n.name, n.number)
			}
		}
	}
	for _, o := range operations {
		if slices.Contains(ops, o.number) || !slices.Contains(names, o.input) {
			t.Errorf("operation %s", o.name)
		}
		ops = append(ops, o.number)
	}
}
