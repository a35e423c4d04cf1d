package main

import (
	"fmt"
	"strconv"
	"strings"
)

var cTypes = map[wire]string{u8: "uint8_t", i8: "int8_t", u16: "uint16_t", u32: "uint32_t", i64: "int64_t",
	boolean: "int", flag: "int", text: "cn_text", section: "cn_text",
	rest: "cn_text", tail: "cn_text", pairs: "cn_list", elements: "cn_list"}

var cReads = map[wire]string{u8: "cn_u8(r)", i8: "(int8_t)cn_u8(r)", u16: "cn_u16(r)", u32: "cn_u32(r)", i64: "cn_i64(r)",
	boolean: "cn_u8(r) != 0", flag: "cn_i64(r) != 0", text: "cn_section(r)", section: "cn_section(r)",
	rest: "cn_rest(r)", tail: "cn_rest(r)"}

// cName is a record's type. Of what a function gives its own name is the function's.
func (r *record) cName() string {
	if r.name == "quote" || r.name == "charge" {
		return "cn_" + r.name + "_output"
	}
	return "cn_" + r.name
}

func comment(doc string) string {
	if doc == "" {
		return ""
	}
	return " /* " + doc + " */"
}

// cRecords is the numbers and types of corenode.h.
func cRecords() string {
	var l lines
	for _, e := range enumerations {
		l.add("/* %s */\nenum {", e.doc)
		for _, n := range e.entries {
			l.add("\tCN_%s%s = %d,%s", strings.ToUpper(e.prefix), strings.ToUpper(n.name), n.number, comment(n.doc))
		}
		l.add("};\n")
	}
	l.add("#define CN_LINES_MAX 16\n#define CN_UNIT_BYTES 16\n#define CN_COUNTERS_MAX 4\n")
	for i := range records {
		r := &records[i]
		if r.pieces || r.name == "detail" || r.name == "counters" { // the kit has their fields in others
			continue
		}
		l.add("/* %s */\ntypedef struct {", r.doc)
		for _, f := range r.flat() {
			l.add("\t%s%s", cField(r, &f), comment(cDoc(r, &f)))
		}
		l.add("} %s;\n", r.cName())
	}
	return l.String()
}

// cDoc is a field's comment, of a list that is read also how.
func cDoc(r *record, f *field) string {
	doc := f.doc
	if !r.output && (f.wire == pairs || f.wire == elements) {
		doc = strings.TrimPrefix(doc+"; take them with cn_next_"+f.of, "; ")
	}
	if f.since > 0 {
		doc = strings.TrimPrefix(fmt.Sprintf("%s; since ABI 1.%d", doc, f.since), "; ")
	}
	return doc
}

func cField(r *record, f *field) string {
	switch {
	case f.wire == unit:
		return "char " + f.name + "[CN_UNIT_BYTES];"
	case f.wire == nested:
		return "cn_" + f.of + " " + f.name + ";"
	case f.wire == elements && r.output:
		bound := map[string]string{"line": "CN_LINES_MAX", "counter": "CN_COUNTERS_MAX"}[f.of]
		return "uint32_t count;\n\tcn_" + f.of + " " + f.name + "[" + bound + "];"
	case f.wire == numbers:
		return "uint32_t " + r.counts(f.name) + ";\n\tint64_t " + f.name + "[CN_COUNTERS_MAX];"
	}
	return cTypes[f.wire] + " " + f.name + ";"
}

// cReaders is the functions of corenode.h that read inputs and write outputs.
func cReaders() string {
	var l lines
	for i := range records {
		r := &records[i]
		switch {
		case r.pieces || r.name == "detail" || r.name == "counters":
		case r.output:
			cWriter(&l, r)
		default:
			cReader(&l, r)
		}
	}
	return l.String()
}

func cReader(l *lines, r *record) {
	l.add("CN_UNUSED static void cn_read_%s(cn_reader *r, %s *v)\n{", r.name, r.cName())
	if len(r.layouts) > 0 {
		cLayout(l, r)
	}
	for _, f := range r.flat() {
		read := cReads[f.wire]
		switch {
		case f.wire == nested && r.later(&f):
			l.add("\t__builtin_memset(&v->%s, 0, sizeof v->%[1]s);", f.name)
			l.add("\tif (since >= %d)\n\t\tcn_read_%s(r, &v->%s);", f.since, f.of, f.name)
		case f.wire == nested:
			l.add("\tcn_read_%s(r, &v->%s);", f.of, f.name)
		case f.wire == pairs, f.wire == elements:
			width := map[wire]string{pairs: "u16", elements: "u32"}[f.wire]
			l.add("\tv->%s.count = cn_%s(r);\n\tv->%[1]s.at = *r;", f.name, width)
			l.add("\tfor (uint32_t i = 0; i < v->%s.count && !r->bad; i++) {", f.name)
			l.add("\t\tcn_%s one;\n\t\tcn_read_%[1]s(r, &one);\n\t}", f.of)
		case f.wire == numbers:
			l.add("\tv->count = since >= %d ? cn_u32(r) : 0;\n\tr->bad |= v->count > CN_COUNTERS_MAX;", f.since)
			l.add("\tfor (uint32_t i = 0; i < CN_COUNTERS_MAX; i++)\n\t\tv->%s[i] = i < v->count && !r->bad ? cn_i64(r) : 0;", f.name)
		case r.later(&f) && len(r.layouts) > 1:
			l.add("\tv->%s = since >= %d ? %s : 0;", f.name, f.since, read)
		default:
			l.add("\tv->%s = %s;", f.name, read)
		}
	}
	l.add("}\n")
	if isListed(r.name) {
		l.add("CN_UNUSED static int cn_next_%s(cn_list *all, %s *v)\n{", r.name, r.cName())
		l.add("\tif (all->count == 0)\n\t\treturn 0;\n\tall->count--;\n\tcn_read_%s(&all->at, v);\n\treturn 1;\n}\n", r.name)
	}
}

// cLayout reads which form a record has.
func cLayout(l *lines, r *record) {
	var tests []string
	plain := false
	for _, form := range r.layouts {
		if form.tag == "" {
			plain = true
			continue
		}
		tests = append(tests, fmt.Sprintf("cn_tagged(r, %s)", strconv.Quote(strings.TrimRight(form.tag, "\x00"))))
	}
	switch {
	case len(tests) == 0:
	case len(r.layouts) == 1:
		l.add("\tif (!%s)\n\t\tr->bad = 1;", tests[0])
	default:
		l.add("\tint since = %s;", tests[len(tests)-1])
		if !plain {
			l.add("\tif (!since && !%s)\n\t\tr->bad = 1;", tests[0])
		}
	}
}

func isListed(name string) bool { return name == "pair" || name == "model" }

func cWriter(l *lines, r *record) {
	l.add("CN_UNUSED static void cn_put_%s(const %s *v)\n{", r.name, r.cName())
	guard := func(f *field) string {
		switch {
		case f.counted:
			return "\tif (v->" + r.counts(r.counted()) + ") {"
		case f.when != "":
			return "\tif (v->" + r.fields[0].name + " == CN_" + strings.ToUpper(f.when) + ") {"
		}
		return ""
	}
	l.guarded(r, guard, "\t}", "\t", func(f *field) {
		switch f.wire {
		case u8, i8:
			l.add("\tcn_put_byte((char)v->%s);", f.name)
		case u16, u32, i64:
			l.add("\tcn_put_%s(v->%s);", map[wire]string{u16: "u16", u32: "u32", i64: "i64"}[f.wire], f.name)
		case unit:
			l.add("\tcn_put((cn_text){ v->%s, CN_UNIT_BYTES });", f.name)
		case numbers:
			l.add("\tcn_put_u32(v->%s);", r.counts(f.name))
			l.add("\tfor (uint32_t i = 0; i < v->%s; i++)\n\t\tcn_put_i64(v->%s[i]);", r.counts(f.name), f.name)
		case elements:
			l.add("\tcn_put_u32(v->%s);", r.counts(f.name))
			l.add("\tfor (uint32_t i = 0; i < v->%s; i++)\n\t\tcn_put_%s(&v->%s[i]);", r.counts(f.name), f.of, f.name)
		case rest:
			l.add("\tcn_put_clipped(v->%s);", f.name)
		}
	})
	l.add("}\n")
}

// cDump writes every field of every input, for the test that nothing is misread.
func cDump() string {
	var l lines
	l.add("/* Code generated by wasm/table. DO NOT EDIT. */")
	for i := range records {
		r := &records[i]
		if r.output || r.name == "detail" || r.name == "counters" {
			continue
		}
		l.add("CN_UNUSED static void dump_%s(const %s *v)\n{", r.name, r.cName())
		for _, f := range r.flat() {
			switch f.wire {
			case nested:
				l.add("\tdump_%s(&v->%s);", f.of, f.name)
			case pairs, elements:
				l.add("\tcn_list %s = v->%[1]s;\n\tcn_%s one_%[1]s;", f.name, f.of)
				l.add("\twhile (cn_next_%s(&%s, &one_%[2]s))\n\t\tdump_%[1]s(&one_%[2]s);", f.of, f.name)
			case numbers:
				l.add("\tfor (uint32_t i = 0; i < v->count; i++) {\n\t\tcn_put_decimal(v->%s[i]);\n\t\tcn_put_byte('|');\n\t}", f.name)
			case text, section, rest, tail:
				l.add("\tcn_put(v->%s);\n\tcn_put_byte('|');", f.name)
			default:
				l.add("\tcn_put_decimal(v->%s);\n\tcn_put_byte('|');", f.name)
			}
		}
		l.add("}\n")
	}
	return l.String()
}
