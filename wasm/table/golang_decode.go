package main

import (
	"fmt"
	"strings"
)

// goDecoder writes the body of a function that reads a record from b, from at on. Numbers
// in a row are read behind one check that they are there.
type goDecoder struct {
	lines
	fail   string   // what a malformed record returns
	output bool     // texts of a guest are copied, those of the node alias what they are read from
	reads  []string // of the numbers that wait
	size   int      // of those
	texts  bool     // some text was read
	sure   bool     // at is a place: what was read before it was whole
}

// flush reads the numbers that wait.
func (d *goDecoder) flush() {
	if d.size == 0 {
		return
	}
	d.add("if !room(b, at, %d) {\n%s\n}", d.size, d.fail)
	for _, read := range d.reads {
		d.add("%s", read)
	}
	d.add("at += %d", d.size)
	d.reads, d.size, d.sure = nil, 0, true
}

// number reads one number, later.
func (d *goDecoder) number(r *record, f *field, name string) {
	at, as, read, base := "at", r.goType(f), "", goWires[f.wire]
	if d.size > 0 {
		at = fmt.Sprint("at+", d.size)
	}
	switch f.wire {
	case u8:
		read = "b[" + at + "]"
	case i8:
		read, base = "b["+at+"]", "uint8"
	case u16:
		read = "uint16At(b, " + at + ")"
	case u32:
		read = "Uint32(b, " + at + ")"
		if as == "int" {
			read, base = "int32("+read+")", "int32"
		}
	case i64:
		read, base = "Uint64(b, "+at+")", "uint64"
	case boolean:
		read = "b[" + at + "] != 0"
	case flag:
		read = "Uint64(b, " + at + ") != 0"
	case unit:
		read = "unitAt(b, " + at + ")"
	}
	if as != base {
		read = as + "(" + read + ")"
	}
	d.reads = append(d.reads, name+" = "+read)
	d.size += goSizes[f.wire]
	if f.of != "" && d.output && f.wire == u8 {
		d.reads = append(d.reads, fmt.Sprintf("if %s > %s {\n%s\n}", name, goLast(f.of), d.fail))
	}
}

// goLast is the last number of an enumeration.
func goLast(name string) string {
	for _, e := range enumerations {
		if e.name == name {
			return goEnums[name].prefix + camel(e.entries[len(e.entries)-1].name)
		}
	}
	panic("no enumeration " + name)
}

// fields reads the fields of a record; forms says that since is which form it has.
func (d *goDecoder) fields(r *record, of string, forms bool) {
	for i := 0; i < len(r.fields); i++ {
		f := &r.fields[i]
		switch {
		case f.counted:
		case f.when != "":
			d.flush()
			d.add("if %s {", r.goWhen(f, of))
			d.field(r, f, of, false)
			d.flush()
			d.add("}")
		case !forms || f.since == 0:
			d.field(r, f, of, forms)
		default:
			d.flush()
			d.add("if since >= %d {", f.since)
			for ; i < len(r.fields) && r.fields[i].since == f.since; i++ {
				d.field(r, &r.fields[i], of, false)
			}
			i--
			d.flush()
			d.add("}")
			d.sure = false
		}
	}
}

func (d *goDecoder) field(r *record, f *field, of string, forms bool) {
	name, bound := of+r.goField(f), goBounds[r.name+"."+f.name]
	if f.flat && f.of == "detail" {
		name = strings.TrimSuffix(of, ".")
	}
	switch {
	case goSizes[f.wire] > 0:
		d.number(r, f, name)
		return
	case f.wire == nested && plain(find(f.of)):
		d.fields(find(f.of), name+".", forms)
		return
	}
	d.flush()
	switch f.wire {
	case text:
		d.texts, d.sure = true, false
		d.add("text, at = sectionAt(b, at)\n%s = %s(text)", name, d.text())
	case section:
		d.sure = false
		d.add("%s, at = sectionAt(b, at)", name)
	case rest, tail:
		if !d.sure {
			d.add("if at < 0 {\n%s\n}", d.fail)
		}
		if f.wire == tail {
			d.add("%s = b[at:len(b):len(b)]", name)
		} else {
			d.add("%s = %s(b[at:])", name, d.text())
		}
	case nested:
		if r.optional(f) {
			d.add("%s = new(%s)", name, goName(f.of))
		}
		d.add("if at = %s.parse(b, at); at < 0 {\n%s\n}", name, d.fail)
		d.sure = true
	case pairs:
		d.sure = false
		d.add("%s, at = pairsAt(b, at)", name)
	case elements:
		d.sure = true
		d.elements(f, name, bound)
		return
	case numbers:
		d.sure = false
		d.add("%s, at = countsAt(b, at)", name)
	}
	if bound != "" {
		d.add("if len(%s) > %s {\n%s\n}", name, bound, d.fail)
	}
}

// text is what makes a string of bytes.
func (d *goDecoder) text() string {
	if d.output {
		return "string"
	}
	return "aliased"
}

// elements reads a list. Each element takes bytes, so there are no more than those.
func (d *goDecoder) elements(f *field, name, bound string) {
	d.add("if !room(b, at, 4) {\n%s\n}\nn := Uint32(b, at)\nat += 4", d.fail)
	if bound != "" && f.counted {
		d.add("if n == 0 || n > %s {\n%s\n}", bound, d.fail)
	} else if bound != "" {
		d.add("if n > %s {\n%s\n}", bound, d.fail)
	}
	if bound != "" && !f.counted {
		d.add("if n > 0 {\n%s = make([]%s, 0, n)\n}", name, goName(f.of))
	} else if bound != "" {
		d.add("%s = make([]%s, 0, n)", name, goName(f.of))
	}
	d.add("for ; n > 0; n-- {\nvar one %s", goName(f.of))
	d.add("if at = one.parse(b, at); at < 0 {\n%s\n}\n%s = append(%[2]s, one)\n}", d.fail, name)
}

// goDecode is decode.go: how records are read.
func goDecode() string {
	var l lines
	l.WriteString(goTags())
	for i := range records {
		r := &records[i]
		switch {
		case r.ownMethods():
			d := goDecoder{fail: "return -1", output: r.output}
			d.fields(r, string(r.name[0])+".", false)
			d.flush()
			l.add("\n// parse reads it at b[at:] and gives where it ends; -1 where it is not whole.")
			l.add("func (%c *%s) parse(b []byte, at int) int {\n%s%sreturn at\n}", r.name[0], goName(r.name), d.vars(), d.String())
		case r.isPart():
		default:
			goParse(&l, r)
		}
	}
	return goFile(l.String())
}

func (d *goDecoder) vars() string {
	if d.texts {
		return "var text []byte\n"
	}
	return ""
}

func goParse(l *lines, r *record) {
	of := "in"
	if r.output {
		of = "out"
	}
	d := goDecoder{fail: "return " + of + ", ErrMalformed", output: r.output}
	d.fields(r, of+".", len(r.layouts) > 1)
	d.flush()
	last := r.fields[len(r.fields)-1].wire
	if last != rest && last != tail {
		d.counted(r, of)
		d.add("if at != len(b) {\n%s\n}", d.fail)
	}
	alias := ""
	if !r.output || r.pieces && last == tail {
		alias = ", which aliases b"
	}
	article := "a"
	if strings.Contains("AE", goName(r.name)[:1]) {
		article = "an"
	}
	l.add("\n// Parse%[1]s decodes %[2]s %[1]s%[3]s.", goName(r.name), article, alias)
	l.add("func Parse%[1]s(b []byte) (%[2]s %[1]s, err error) {", goName(r.name), of)
	l.add("%s%s%sreturn %s, nil\n}", d.form(r), d.vars(), d.String(), of)
}

// form reads which form a record has.
func (d *goDecoder) form(r *record) string {
	if len(r.layouts) == 0 || len(r.layouts) == 1 && r.layouts[0].tag == "" {
		return "at := 0\n"
	}
	first := r.tagName(&r.layouts[0])
	if len(r.layouts) == 1 {
		return "if !tagged(b, " + first + ") {\n" + d.fail + "\n}\nat := len(" + first + ")\n"
	}
	later := r.tagName(&r.layouts[1])
	if r.layouts[0].tag == "" {
		return "at, since := 0, 0\nif tagged(b, " + later + ") {\nat, since = len(" + later + "), 1\n}\n"
	}
	return "at, since := len(" + later + "), 1\nif tagged(b, " + first + ") {\nsince = 0\n} else if !tagged(b, " + later + ") {\n" +
		d.fail + "\n}\n"
}

// counted reads what only modules with counters write.
func (d *goDecoder) counted(r *record, of string) {
	begun := false
	for i := range r.fields {
		f := &r.fields[i]
		if !f.counted {
			continue
		}
		if !begun {
			d.add("if at == len(b) {\nreturn %s, nil\n}", of)
			begun = true
		}
		d.field(r, f, of+".", false)
	}
	d.flush()
}
