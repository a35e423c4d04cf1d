package config

import (
	"flag"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of OPERATING.md; read the diff before you commit it")

const document = "../OPERATING.md"

// TestDocument: OPERATING.md says of each key what reference.yaml says.
func TestDocument(t *testing.T) {
	const begin = "<!-- table: configuration (made by go test ./node/config -update) -->\n"
	const end = "<!-- table: end of configuration -->\n"
	old, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no marks of the table configuration", document)
	}
	now := before + begin + "\n" + markdown(t, string(old)) + "\n" + end + after
	if now == string(old) {
		return
	}
	if !*update {
		t.Fatalf("%s does not say what reference.yaml says: go test ./node/config -update", document)
	}
	if err := os.WriteFile(document, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReferenceSaysWhatAReloadTakes: its head names the keys that change while a node runs.
func TestReferenceSaysWhatAReloadTakes(t *testing.T) {
	head, _, _ := strings.Cut(string(reference), "\n\n")
	for _, key := range append([]string{"upstream.urls", "upstream.sampling", "sampling", "prices"}, reloadable...) {
		if !strings.Contains(head, "`"+key+"`") {
			t.Errorf("the head of reference.yaml does not name %s", key)
		}
	}
}

// documented is what one comment of reference.yaml is about: a section, or keys with their values.
type documented struct {
	section string
	keys    []string
	values  []string
	text    string
}

// unset is a key without a default, which stands in a comment: its name, its value, its meaning.
var unset = regexp.MustCompile(`^([a-z_]+): +\S+ +# (.*)$`)

// comments reads the entries below the head of the reference; models are those of core-1.1.
func comments(text string) (all []documented) {
	var above []string // the names of the sections that a line is in
	var comment []string
	_, text, _ = strings.Cut(text, "\n\n")
	text, _, _ = strings.Cut(text, "\n  core-1.1-mini:\n")
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		above = above[:min(len(above), (len(line)-len(strings.TrimLeft(line, " ")))/2)]
		prefix := strings.TrimPrefix(strings.Join(append(above, ""), "."), "models.core-1.1.")
		words, isComment := strings.CutPrefix(bare, "# ")
		key, value, _ := strings.Cut(bare, ":")
		value = strings.TrimSpace(value)
		switch found := unset.FindStringSubmatch(words); {
		case bare == "":
		case isComment && found != nil:
			all = append(all, documented{keys: []string{prefix + found[1]}, values: []string{"not set"}, text: found[2]})
		case isComment:
			comment = append(comment, words)
			continue
		case value == "":
			above = append(above, key)
			all = append(all, documented{section: prefix + key, text: strings.Join(comment, " ")})
		case comment == nil && len(all) > 0: // with the key, or the section, before it
			last := &all[len(all)-1]
			last.keys, last.values = append(last.keys, prefix+key), append(last.values, value)
		default:
			all = append(all, documented{keys: []string{prefix + key}, values: []string{value}, text: strings.Join(comment, " ")})
		}
		comment = nil
	}
	return all
}

// markdown is the head of the reference and its two tables.
func markdown(t *testing.T, document string) string {
	const heads = "| key | default | meaning |\n|---|---|---|\n"
	var b strings.Builder
	head, _, _ := strings.Cut(string(reference), "\n\n")
	for i, paragraph := range strings.Split(head, "\n#\n") {
		if i > 0 { // the first one says what file it is
			b.WriteString(linked(t, document, strings.ReplaceAll(strings.TrimPrefix(paragraph, "# "), "\n# ", " ")) + "\n\n")
		}
	}
	b.WriteString(heads)
	for _, d := range comments(string(reference)) {
		meaning := linked(t, document, d.text)
		switch {
		case strings.Contains(meaning, "|"):
			t.Errorf("%v: a bar ends a cell of the table: %s", d, meaning)
		case d.section == "models":
			b.WriteString("\n" + meaning + " Of an entry:\n\n" + heads)
		case d.text == "" && d.section == "models.core-1.1":
		case d.text == "":
			t.Errorf("reference.yaml says nothing about %s%v", d.section, d.keys)
		case len(d.keys) == 0:
			b.WriteString("| **" + d.section + "** | | " + meaning + " |\n")
		default:
			b.WriteString("| " + code(d.keys) + " | " + defaults(d) + " | " + meaning + " |\n")
		}
	}
	return b.String()
}

// code names keys, those behind the first without its section.
func code(keys []string) string {
	names := make([]string, len(keys))
	for i, key := range keys {
		if i > 0 {
			key = key[strings.LastIndex(key, "."):]
		}
		names[i] = "`" + key + "`"
	}
	return strings.Join(names, ", ")
}

// defaults are the values of keys, of each of the two models where they are not those of any model.
func defaults(d documented) string {
	of := func(id string) string {
		m := defaultModel(id)
		var texts []string
		for _, leaf := range leavesUnder("", reflect.ValueOf(&m).Elem()) {
			for _, key := range d.keys {
				if leaf.key == key {
					texts = append(texts, textOf(leaf.value))
				}
			}
		}
		return strings.Join(texts, ", ")
	}
	core, mini := of("core-1.1"), of("core-1.1-mini")
	if core != of("another") {
		return "core-1.1: " + core + "; core-1.1-mini: " + mini
	}
	return strings.Join(d.values, ", ")
}

var named = regexp.MustCompile(`"([^"]+)" in OPERATING\.md`)

// linked makes links of the sections of the document that a text names.
func linked(t *testing.T, document, text string) string {
	return named.ReplaceAllStringFunc(text, func(found string) string {
		title := named.FindStringSubmatch(found)[1]
		anchor := strings.ReplaceAll(strings.ToLower(title), " ", "-")
		if !strings.Contains(document, "# "+title+"\n") && !strings.Contains(document, `<a id="`+anchor+`">`) {
			t.Errorf("reference.yaml names %q, which is no section of OPERATING.md", title)
		}
		return "[" + title + "](#" + anchor + ")"
	})
}
