package main

import (
	"fmt"
	"strings"
)

var docTypes = map[wire]string{u8: "u8", i8: "i8", u16: "u16", u32: "u32", i64: "i64", boolean: "u8", flag: "i64"}

// docField is a field in a layout of the document.
func docField(f *field) string {
	switch f.wire {
	case text, section:
		return "section " + f.name
	case rest, tail:
		return f.name
	case unit:
		return f.name + " 16 bytes padded with zeros"
	case nested:
		if f.flat {
			return docFields(find(f.of), f.since)
		}
		return f.name
	case pairs:
		return "count u16, " + f.name
	case elements:
		return "count u32, " + f.name
	case numbers:
		return "count u32, " + f.name + " i64 each"
	}
	return f.name + " " + docTypes[f.wire] + docVerdicts(f)
}

// docVerdicts is what the numbers of a verdict mean, which stands nowhere else.
func docVerdicts(f *field) string {
	var all []string
	for _, e := range enumerations {
		for _, n := range e.entries {
			if e.name == f.of && e.name == "verdict" {
				all = append(all, fmt.Sprint(n.number, " ", n.name))
			}
		}
	}
	if all == nil {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// docFields is the fields that a record has in a version.
func docFields(r *record, version int) string {
	var all, counted []string
	for _, f := range r.flat() {
		switch {
		case f.counted:
			counted = append(counted, docField(&f))
		case f.when != "":
			all = append(all, "of "+f.when+" "+docField(&f))
		case f.since <= version:
			all = append(all, docField(&f))
		}
	}
	out := strings.Join(all, ", ")
	if counted != nil {
		out += "; of a module with counters then " + strings.Join(counted, ", ")
	}
	return out
}

// docOperations is the table of what call does.
func docOperations() string {
	var l lines
	l.add("| op | | input | output |\n|---|---|---|---|")
	for _, o := range operations {
		output := o.output
		for i := range records {
			if records[i].name == output {
				output = docFields(&records[i], 1)
			}
		}
		l.add("| %d | %s | %s | %s |", o.number, o.name, docInput(find(o.input)), output)
	}
	return l.String()
}

// docInput is every form of an input: the first in full, of the others what is different.
func docInput(r *record) string {
	form := r.layouts[0]
	out := docTag(form.tag) + docFields(r, form.since)
	for _, later := range r.layouts[1:] {
		var added []string
		before := ""
		for _, f := range r.flat() {
			if f.since > form.since && f.since <= later.since {
				added = append(added, docField(&f))
			} else if len(added) == 0 {
				before = f.name
			}
		}
		which := fmt.Sprintf("With `\"abi\": \"1.%d\"`", later.since)
		if later.whose != "" {
			which = "To " + later.whose
		}
		out += fmt.Sprintf(". %s: %s%s behind %s", which, docTag(later.tag)+"the same with ", strings.Join(added, ", "), before)
	}
	return out
}

func docTag(tag string) string {
	if tag == "" {
		return ""
	}
	return "tag `" + quoted(tag) + "`, "
}

// docRecords is the layouts of what records are made of.
func docRecords() string {
	var l lines
	for i := range records {
		r := &records[i]
		written := r.output && r.name != "line" && r.name != "counter" // as what an operation gives
		if len(r.layouts) == 0 && !written && r.name != "detail" && r.name != "counters" {
			var all []string
			for _, f := range r.fields {
				one := docField(&f)
				if f.doc != "" {
					one += " (" + f.doc + ")"
				}
				all = append(all, one)
			}
			l.add("    %-8s %s", r.name, strings.Join(all, ",\n             "))
		}
	}
	return l.String()
}

// docNumbers is the kinds of error and the reasons.
func docNumbers() string {
	var l lines
	for _, e := range enumerations {
		switch e.name {
		case "kind":
			var all []string
			for _, n := range e.entries {
				all = append(all, fmt.Sprint(n.number, " ", n.name))
			}
			half := len(all) * 2 / 3
			l.add("Kinds of errors: %s,", strings.Join(all[:half], ", "))
			l.add("%s. Treat one you do not know as internal.\n", strings.Join(all[half:], ", "))
		case "reason":
			l.add("Reasons, which say what is wrong with a request:\n\n| reason | | numbers | message |\n|---|---|---|---|")
			for _, n := range e.entries {
				l.add("| %d %s | %s |%s| %s |", n.number, n.name, n.doc, cell(n.numbers), n.message)
			}
			l.add("\nTreat one you do not know as 1. A module of ABI 1.0 gets all of them as 0, with the sentence.")
		}
	}
	return l.String()
}

// cell is what stands between the bars of a table.
func cell(text string) string {
	if text == "" {
		return " "
	}
	return " " + text + " "
}
