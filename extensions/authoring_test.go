package extensions

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"corenode/extensions/meter"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// TestLimitsAsWritten: what the page for authors says of limits is what holds.
func TestLimitsAsWritten(t *testing.T) {
	page, err := os.ReadFile("../wasm/AUTHORING.md")
	if err != nil {
		t.Fatal(err)
	}
	count := func(n int64) string { // 20 000, 3 million
		switch {
		case n%1_000_000 == 0:
			return strconv.FormatInt(n/1_000_000, 10) + " million"
		case n%1_000 == 0:
			return strconv.FormatInt(n/1_000, 10) + " 000"
		}
		return strconv.FormatInt(n, 10)
	}
	kib := func(n int) string { return strconv.Itoa(n>>10) + " KiB" }
	mib := func(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }
	for _, says := range []string{
		count(ticksRequest) + " for request and response, " + count(ticksEvents) + " for other calls, " + count(ticksGo) + " for every call of a Go guest",
		"plus " + count(ticksPerKB) + " for each KB of input; the manifest may ask for up to " + count(ticksCallMost) + " and " + count(ticksPerKBMost),
		"a call of an import at least " + count(ticksHost),
		strconv.Itoa(vector.VectorsMax) + ", each of at most " + strconv.Itoa(vector.EventsMax) + " events; " + count(VectorTicksMax) + " ticks together",
		strconv.Itoa(int(trialTimeMax/time.Second)) + " s of processor time",
		kib(meter.FunctionMost.Bytes) + ", " + count(int64(meter.FunctionMost.Edges)) + " branches and targets, " + strconv.Itoa(meter.FunctionMost.Loops) + " loops in each other, " +
			count(int64(meter.FunctionMost.Calls)) + " calls, " + count(int64(meter.FunctionMost.Slow)) + " slow instructions, or " + count(int64(meter.FunctionMost.Carried)) + " values",
		"over " + strconv.Itoa(int(meter.ModuleMost/time.Second)) + " s to compile",
		mib(memoryDefault) + "; the manifest may ask for up to " + mib(memoryMost),
		"the file is over " + mib(moduleBytesMax) + ", the configuration over " + strconv.Itoa(configBytesMax>>10) + " KiB",
		"at most " + mib(outputMost) + "; " + kib(outputMax(abi.OpCharge, 1)) + " for quote, charge and decide; " + kib(outputMax(abi.OpError, 0)) + " and 4 times the input for error",
		mib(abi.KeptBytesMax) + ", " + strconv.Itoa(abi.StateBytesMax>>10) + " KiB",
		"refusal | " + strconv.Itoa(abi.RefusalBytesMax) + " bytes",
		"a call waits " + strconv.Itoa(int(waitMax/time.Second)) + " s for one",
		"a body of over " + mib(bodyBytesFair),
		strconv.Itoa(logPerSecond) + " lines of " + strconv.Itoa(logLineMax>>10) + " KiB a second, bursts of " + strconv.Itoa(logBurst),
	} {
		if !strings.Contains(string(page), says) {
			t.Errorf("the page does not say %q", says)
		}
	}
}

// TestStagesAsWritten: authors and operators find a row for each stage at which
// a module can be refused, and operators one for each cause of a fault.
func TestStagesAsWritten(t *testing.T) {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	stage := regexp.MustCompile(`(?:refused|refusedByMeter)\("([a-z]+)"|Stage: +"([a-z]+)"`)
	found := map[string]bool{}
	for _, source := range sources {
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
	if names := rows("../node/OPERATING.md", "cause of a fault"); !slices.Equal(slices.Sorted(maps.Keys(names)), slices.Sorted(slices.Values(Causes()))) {
		t.Errorf("OPERATING.md has rows for %v, causes are %v", slices.Sorted(maps.Keys(names)), Causes())
	}
}
