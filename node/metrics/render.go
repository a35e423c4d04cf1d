package metrics

import (
	"bytes"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync"
)

// known finds a family by the name of one of its series, and its place in the table.
var known = sync.OnceValue(func() map[string]int {
	all, place := map[string]int{}, 0
	for m := range All() {
		all[m.Name] = place
		for _, suffix := range suffixes(m.Type) {
			all[m.Name+suffix] = place
		}
		place++
	}
	return all
})

// heads are the comments of the families, in their order.
var heads = sync.OnceValue(func() (all []string) {
	for m := range All() {
		all = append(all, "# HELP "+m.Name+" "+helpText(m)+"\n# TYPE "+m.Name+" "+string(m.Type)+"\n")
	}
	return all
})

func suffixes(t Type) []string {
	switch t {
	case Histogram:
		return []string{"_bucket", "_sum", "_count"}
	case Summary:
		return []string{"_sum", "_count"}
	}
	return nil
}

// helpText is the meaning as the text format takes it.
func helpText(m *Metric) string {
	return strings.NewReplacer("`", "", `\`, `\\`, "\n", " ").Replace(m.Help)
}

// Write writes samples in the text format of Prometheus, family by family with what each is. raw
// holds them one a line in any order; comments in it are left out, and so are series of the process
// and the Go runtime that the table does not have. Others that it does not have stand at the end, bare.
func Write(w io.Writer, raw []byte) {
	places := known()
	families := make([][][]byte, len(heads()))
	var others [][]byte
	for line := range bytes.Lines(raw) {
		end := bytes.IndexAny(line, "{ ")
		if end <= 0 || line[0] == '#' {
			continue
		}
		name := line[:end]
		if place, ok := places[string(name)]; ok {
			families[place] = append(families[place], line)
		} else if !bytes.HasPrefix(name, []byte("go_")) && !bytes.HasPrefix(name, []byte("process_")) {
			others = append(others, line)
		}
	}
	out := make([]byte, 0, len(raw)+20<<10)
	for place, lines := range families {
		if len(lines) > 0 {
			out = append(out, heads()[place]...)
			for _, line := range lines {
				out = append(out, line...)
			}
		}
	}
	for _, line := range others {
		out = append(out, line...)
	}
	_, _ = w.Write(out) // a reader that has left
}

// Samples are the series of a text in that format, each as it is written, with its labels, and their values. A series is
// part of the text.
func Samples(text []byte) iter.Seq2[[]byte, float64] {
	return func(yield func(series []byte, value float64) bool) {
		for line := range bytes.Lines(text) {
			line = bytes.TrimSpace(line)
			at := bytes.LastIndexByte(line, ' ')
			if at < 0 || line[0] == '#' {
				continue
			}
			if value, err := strconv.ParseFloat(string(line[at+1:]), 64); err == nil && !yield(line[:at], value) {
				return
			}
		}
	}
}
