package extensions

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/guest"
)

// TestStagesAsWritten: authors and operators find a row for each stage at which
// a module can be refused, and operators one for each cause of a fault.
func TestStagesAsWritten(t *testing.T) {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	guests, err := filepath.Glob("guest/*.go")
	if err != nil {
		t.Fatal(err)
	}
	stage := regexp.MustCompile(`(?:Refused|refusedByMeter)\("([a-z]+)"|Stage: +"([a-z]+)"`)
	found := map[string]bool{}
	for _, source := range append(sources, guests...) {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range stage.FindAllStringSubmatch(string(text), -1) {
			found[m[1]+m[2]] = true
		}
	}
	if len(found) < 15 || !found["effort"] || !found["digest"] {
		t.Fatalf("found the stages %v", found)
	}
	rows := func(path, heading string) map[string]bool {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, behind, ok := strings.Cut(string(page), "| "+heading+" |")
		if !ok {
			t.Fatalf("%s has no table of %s", path, heading)
		}
		table, _, _ := strings.Cut(behind, "\n\n")
		names := map[string]bool{}
		for _, line := range strings.Split(table, "\n") {
			if first, ok := strings.CutPrefix(line, "| "); ok {
				first, _, _ = strings.Cut(first, " |")
				for _, name := range strings.Split(first, ", ") {
					names[name] = true
				}
			}
		}
		return names
	}
	for _, path := range []string{"../wasm/AUTHORING.md", "../node/OPERATING.md"} {
		if names := rows(path, "stage"); !maps.Equal(names, found) {
			t.Errorf("%s has rows for %v, stages are %v", path, slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(found)))
		}
	}
	if names := rows("../node/OPERATING.md", "cause of a fault"); !slices.Equal(slices.Sorted(maps.Keys(names)),
		slices.Sorted(slices.Values(guest.Causes()))) {
		t.Errorf("OPERATING.md has rows for %v, causes are %v", slices.Sorted(maps.Keys(names)), guest.Causes())
	}
}
