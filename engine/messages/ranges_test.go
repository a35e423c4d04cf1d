package messages

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// writtenRange is a row of AUTHORING.md's table of ranges.
type writtenRange struct{ name, what, least, most string }

func writtenRanges(t *testing.T) (rows []writtenRange) {
	t.Helper()
	page, err := os.ReadFile("../../wasm/AUTHORING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, behind, ok := strings.Cut(string(page), "| field | what it is | least | most |\n|---|---|---|---|\n")
	if !ok {
		t.Fatal("AUTHORING.md has no table of ranges")
	}
	table, _, _ := strings.Cut(behind, "\n\n")
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		rows = append(rows, writtenRange{strings.Trim(cells[0], "`"), cells[1], cells[2], cells[3]})
	}
	return rows
}

// parsesWith says what a body with one more field is refused with, if it is refused.
func parsesWith(field, value string) error {
	_, err := ParseTranslated([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],"` + field + `":` + value + `}`))
	return err
}

// TestRangesAsWritten: what authors read of a field's range is what the parser holds bodies to.
func TestRangesAsWritten(t *testing.T) {
	first := regexp.MustCompile(`^[-0-9.e]+`)
	rows := writtenRanges(t)
	for _, row := range rows {
		least, most := row.least, first.FindString(row.most)
		switch {
		case strings.HasPrefix(row.what, "list"):
			continue // in TestListsAsWritten
		case strings.HasPrefix(row.what, "number"), strings.HasPrefix(row.what, "integer"):
		default:
			t.Fatalf("%s is %q, want a number, an integer or a list", row.name, row.what)
		}
		if err := parsesWith(row.name, least); err != nil {
			t.Errorf("%s of %s: %v", row.name, least, err)
		}
		if err := parsesWith(row.name, most); err != nil {
			t.Errorf("%s of %s: %v", row.name, most, err)
		}
		for _, beyond := range []string{beside(t, least, -1), beside(t, most, 1)} {
			if err := parsesWith(row.name, beyond); err == nil {
				t.Errorf("%s of %s is not refused", row.name, beyond)
			}
		}
	}
	source, err := os.ReadFile("sampling.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`case "([a-z_]+)":`).FindAllStringSubmatch(string(source), -1) {
		if m[1] != "ignore_eos" && !slices.ContainsFunc(rows, func(r writtenRange) bool { return r.name == m[1] }) {
			t.Errorf("%s has no row", m[1])
		}
	}
}

// beside is a number that is beyond another by little.
func beside(t *testing.T, number string, by int64) string {
	t.Helper()
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if wide := n + by; (wide > n) == (by > 0) && n < 1<<53 {
			return strconv.FormatInt(wide, 10)
		}
		return strconv.FormatFloat(float64(n)+float64(by)*4096, 'f', 0, 64)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatFloat(f+float64(by)*max(f*0.01, 0.001), 'g', -1, 64)
}

// TestListsAsWritten: so is what they read of lists, and of an answer without a stream.
func TestListsAsWritten(t *testing.T) {
	want := []writtenRange{
		{"stop_sequences", fmt.Sprintf("list of texts, each 1 to %d bytes", stopBytesMax), "0", strconv.Itoa(stopsMax)},
		{"tools", fmt.Sprintf("list of objects, each name 1 to %d bytes and its schema at most %d", toolNameBytesMax, schemaBytesMax),
			"0", strconv.Itoa(toolsMax)},
		{"max_tokens", fmt.Sprintf("integer; without it as much as fits, at most %d", abi.NonStreamingMax), "1",
			fmt.Sprintf("%d without `stream`; with it what model and window have", abi.NonStreamingMax)},
	}
	rows := writtenRanges(t)
	for _, row := range want {
		if !slices.Contains(rows, row) {
			t.Errorf("there is no row %+v", row)
		}
	}
	if len(rows) <= len(want) {
		t.Errorf("%d rows", len(rows))
	}
	if err := parsesWith("stop_sequences", `["a",""]`); err == nil || err.(*abi.Error).Param != "stop_sequences.1" {
		t.Errorf("the path of an element, as it is written: %v", err)
	}
}
