package main

import (
	"fmt"
	"strings"
)

// goEncoder writes the body of a function that appends a record to dst.
type goEncoder struct {
	lines
	ints []string // numbers of eight bytes in a row, which one call appends
}

// flush appends the numbers that wait.
func (e *goEncoder) flush() {
	for len(e.ints) > 0 {
		n := min(len(e.ints), 6)
		e.add("dst = appendInts(dst, %s)", strings.Join(e.ints[:n], ", "))
		e.ints = e.ints[n:]
	}
}

// put appends with an expression of dst.
func (e *goEncoder) put(format string, of ...any) {
	e.flush()
	e.add("dst = "+format, of...)
}

// fields appends the fields that a record has in a version; of is where they are: "in.".
func (e *goEncoder) fields(r *record, of string, version int) {
	for i := range r.fields {
		f := &r.fields[i]
		if f.since > version || f.counted {
			continue
		}
		if f.when == "" {
			e.field(r, f, of, version)
			continue
		}
		e.flush()
		e.add("if %s {", r.goWhen(f, of))
		e.field(r, f, of, version)
		e.flush()
		e.add("}")
	}
}

// goWhen asks whether a record has a field that not every one has.
func (r *record) goWhen(f *field, of string) string {
	first := &r.fields[0]
	return of + r.goField(first) + " == " + goEnums[first.of].prefix + camel(f.when)
}

func (e *goEncoder) field(r *record, f *field, of string, version int) {
	name := of + r.goField(f)
	if f.flat && f.of == "detail" {
		name = strings.TrimSuffix(of, ".")
	}
	switch f.wire {
	case u8, i8:
		e.put("append(dst, byte(%s))", name)
	case boolean:
		e.put("append(dst, byte(flag(%s)))", name)
	case u16:
		e.put("append(dst, byte(%s), byte(%[1]s>>8))", name)
	case u32:
		e.put("appendU32(dst, uint32(%s))", name)
	case i64:
		if r.goType(f) != "int64" {
			name = "int64(" + name + ")"
		}
		e.ints = append(e.ints, name)
	case flag:
		e.ints = append(e.ints, "flag("+name+")")
	case text:
		e.put("appendText(dst, %s)", name)
	case section:
		e.put("appendSection(dst, %s)", name)
	case rest, tail:
		e.put("append(dst, %s...)", name)
	case unit:
		e.put("appendUnit(dst, %s)", name)
	case nested:
		if plain(find(f.of)) {
			e.fields(find(f.of), name+".", version)
			return
		}
		e.put("%s.append(dst)", name)
	case pairs:
		e.put("appendPairs(dst, %s)", name)
	case elements:
		e.put("appendU32(dst, uint32(len(%s)))", name)
		e.add("for i := range %s {\ndst = %[1]s[i].append(dst)\n}", name)
	case numbers:
		e.put("appendCounts(dst, %s)", name)
	}
}

// goEncode is encode.go: how records are written.
func goEncode() string {
	var l lines
	for i := range records {
		r := &records[i]
		switch {
		case r.ownMethods():
			var e goEncoder
			e.fields(r, string(r.name[0])+".", 1)
			e.flush()
			l.add("\nfunc (%c *%s) append(dst []byte) []byte {\n%sreturn dst\n}", r.name[0], goName(r.name), e.String())
		case r.isPart():
		default:
			goAppend(&l, r)
		}
	}
	return goFile(l.String())
}

// goAppend writes a record's Append, and Append10 where ABI 1.0 had another form.
func goAppend(l *lines, r *record) {
	of := "out"
	if !r.output {
		of = "in"
	}
	head := func(name, doc string) {
		l.add("\n// %s encodes %s%s.\nfunc (%s %s) %s(dst []byte) []byte {", name, of, doc, of, goName(r.name), name)
	}
	body := func(form *layout) string {
		var e goEncoder
		version := 1
		if form != nil {
			version = form.since
			if form.tag != "" {
				e.add("dst = append(dst, %s...)", r.tagName(form))
			}
		}
		e.fields(r, of+".", version)
		goConditional(&e, r, of+".")
		e.flush()
		return e.String()
	}
	switch {
	case len(r.layouts) == 0:
		head("Append", "")
		l.add("%sreturn dst\n}", body(nil))
	case len(r.layouts) == 1:
		head("Append", "")
		l.add("%sreturn dst\n}", body(&r.layouts[0]))
	case r.whose() != "":
		head("Append", "")
		l.add("if %s {\n%sreturn dst\n}", r.goGiven(of+"."), body(&r.layouts[1]))
		l.add("%sreturn dst\n}", body(&r.layouts[0]))
	default:
		head("Append", ", as modules of ABI 1.1 read it")
		l.add("%sreturn dst\n}", body(&r.layouts[1]))
		old := "Append10"
		if r.name == "error_input" { // what it says is another sentence there
			old = "append10"
		}
		head(old, " as modules of ABI 1.0 read it")
		l.add("%sreturn dst\n}", body(&r.layouts[0]))
	}
}

// goGiven asks whether a record has what its later form brought.
func (r *record) goGiven(of string) string {
	for i := range r.fields {
		f := &r.fields[i]
		if f.since > r.first() && f.wire == numbers {
			return "len(" + of + r.goField(f) + ") > 0"
		}
		if r.optional(f) {
			return of + r.goField(f) + " != nil"
		}
	}
	panic(r.name + " has no field that says which form it has")
}

// goConditional appends the fields that only modules with counters write.
func goConditional(e *goEncoder, r *record, of string) {
	var counted []*field
	for i := range r.fields {
		if r.fields[i].counted {
			counted = append(counted, &r.fields[i])
		}
	}
	if counted == nil {
		return
	}
	e.flush()
	e.add("if len(%s%s) == 0 {\nreturn dst\n}", of, r.goField(counted[len(counted)-1]))
	for _, f := range counted {
		e.field(r, f, of, 1)
	}
}

// tagName is the constant of a form's tag.
func (r *record) tagName(form *layout) string {
	name := hump(strings.TrimSuffix(r.name, "_input")) + "Tag"
	if len(r.layouts) > 1 && form.since == 0 {
		name += "10"
	}
	return name
}

// goTags is the tags as constants.
func goTags() string {
	var l lines
	l.add("\n// What records begin with. One of two forms without a tag begins with when the request")
	l.add("// came: no time is so late.\nconst (")
	for i := range records {
		r := &records[i]
		for j := range r.layouts {
			if form := &r.layouts[j]; form.tag != "" {
				l.add("%s = %s", r.tagName(form), fmt.Sprintf("%q", form.tag))
			}
		}
	}
	l.add(")")
	return l.String()
}
