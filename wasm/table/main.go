// Command table makes what everyone who speaks the ABI must have alike: the records and
// numbers of each kit, and their tables in AUTHORING.md. table.go and numbers.go say
// what there is; each of the other files writes it down in one language. Run it from
// the root of the repository, as make abi does.
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// part is a file, or the part of one between two lines that hold its mark.
type part struct {
	path string
	mark string // empty for a whole file
	text string
}

func parts() []part {
	return []part{
		{"wasm/abi/numbers.go", "", goNumbers()},
		{"wasm/abi/records.go", "", goTypes()},
		{"wasm/abi/encode.go", "", goEncode()},
		{"wasm/abi/decode.go", "", goDecode()},
		{"wasm/sdk/c/corenode.h", "records", cRecords()},
		{"wasm/sdk/c/corenode.h", "readers", cReaders()},
		{"wasm/sdk/c/testdata/dump.h", "", cDump()},
		{"wasm/sdk/rust/src/records.rs", "", rustRecords()},
		{"wasm/sdk/rust/testdata/src/dump.rs", "", rustDump()},
		{"wasm/sdk/assemblyscript/records.ts", "", assemblyRecords()},
		{"wasm/sdk/assemblyscript/testdata/dump.ts", "", assemblyDump()},
		{"wasm/AUTHORING.md", "operations", docOperations()},
		{"wasm/AUTHORING.md", "records", docRecords()},
		{"wasm/AUTHORING.md", "numbers", docNumbers()},
	}
}

// place gives what a file is with the part in it.
func (p *part) place(file []byte) ([]byte, error) {
	if p.mark == "" {
		return []byte(p.text), nil
	}
	lines := bytes.SplitAfter(file, []byte("\n"))
	begin := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte("table: "+p.mark+" ")) })
	end := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte("table: end of "+p.mark+" ")) })
	if begin < 0 || end < begin {
		return nil, fmt.Errorf("%s has no lines that begin and end the part %q", p.path, p.mark)
	}
	return slices.Concat(bytes.Join(lines[:begin+1], nil), []byte(p.text), bytes.Join(lines[end:], nil)), nil
}

func main() {
	for _, p := range parts() {
		file, err := os.ReadFile(p.path)
		if err != nil && (p.mark != "" || !os.IsNotExist(err)) {
			fail(err)
		}
		if file, err = p.place(file); err != nil {
			fail(err)
		}
		if err := os.WriteFile(p.path, file, 0o644); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// lines is a text that is written line by line.
type lines struct {
	strings.Builder
	within string // stands before each line: what is guarded lies deeper
}

func (l *lines) add(format string, of ...any) {
	text := fmt.Sprintf(format, of...)
	if l.within != "" {
		text = l.within + strings.ReplaceAll(text, "\n", "\n"+l.within)
	}
	l.WriteString(text + "\n")
}

// guarded writes the fields of a record, some of them within the line that guard gives of
// them and end.
func (l *lines) guarded(r *record, guard func(f *field) string, end, deeper string, write func(f *field)) {
	within := ""
	for i := range r.fields {
		if now := guard(&r.fields[i]); now != within {
			if l.within = ""; within != "" {
				l.add("%s", end)
			}
			if within = now; now != "" {
				l.add("%s", now)
				l.within = deeper
			}
		}
		write(&r.fields[i])
	}
	if l.within = ""; within != "" {
		l.add("%s", end)
	}
}

// find gives a record by its name.
func find(name string) *record {
	i := slices.IndexFunc(records, func(r record) bool { return r.name == name })
	return &records[i]
}

// flat gives the fields of a record as the kits have them.
func (r *record) flat() []field {
	var all []field
	for _, f := range r.fields {
		if f.flat {
			all = append(all, find(f.of).flat()...)
		} else {
			all = append(all, f)
		}
	}
	return all
}

// first is the version that brought the record.
func (r *record) first() int {
	if len(r.layouts) == 0 {
		return 1 // parts of records: who has them asks for the version
	}
	return r.layouts[0].since
}

// later says whether a field is missing in a form of its record.
func (r *record) later(f *field) bool { return f.since > r.first() }

// counts gives the name of what counts a list in C: of the first list, or of a later one.
func (r *record) counts(name string) string {
	for _, f := range r.fields {
		if f.wire == elements || f.wire == numbers {
			if f.name == name {
				break
			}
			return name + "_count"
		}
	}
	return "count"
}

// counted gives the list that says whether the module has counters.
func (r *record) counted() string { return r.fields[len(r.fields)-1].name }

// camel is a name of several words, as Go, Rust and AssemblyScript write types.
func camel(name string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String()
}

// hump is the same with a small letter first, as AssemblyScript writes fields.
func hump(name string) string {
	c := camel(name)
	return strings.ToLower(c[:1]) + c[1:]
}

// quoted is a tag as it stands in a string of Rust, of AssemblyScript or of the document.
func quoted(tag string) string { return strings.NewReplacer("\x00", `\0`, "\x02", `\x02`).Replace(tag) }
