package guest

import (
	"os"
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
	page, err := os.ReadFile("../../wasm/AUTHORING.md")
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
		count(ticksRequest) + " for request, response, models and rewrite, " + count(ticksEvents) + " for other calls, " + count(ticksGo) + " for every call of a Go guest",
		"plus " + count(ticksPerKB) + " for each KB of input; the manifest may ask for up to " + count(ticksCallMax) + " and " + count(ticksPerKBMax),
		"a call of an import at least " + count(ticksHost),
		strconv.Itoa(vector.VectorsMax) + ", each of at most " + strconv.Itoa(vector.EventsMax) + " events; " + count(VectorTicksMax) + " ticks together",
		strconv.Itoa(int(trialTimeMax/time.Second)) + " s of processor time",
		kib(meter.FunctionMax.Bytes) + ", " + count(int64(meter.FunctionMax.Edges)) + " branches and targets, " + strconv.Itoa(meter.FunctionMax.Loops) + " loops in each other, " +
			count(int64(meter.FunctionMax.Calls)) + " calls, " + count(int64(meter.FunctionMax.Slow)) + " slow instructions, or " + count(int64(meter.FunctionMax.Carried)) + " values",
		"over " + strconv.Itoa(int(meter.ModuleMax/time.Second)) + " s to compile",
		mib(memoryDefault) + "; the manifest may ask for up to " + mib(memoryMax),
		"the file is over " + mib(BytesMax) + ", the configuration over " + strconv.Itoa(configBytesMax>>10) + " KiB",
		"at most " + mib(outputMax) + ", of a filter also for all pieces of an answer together; " + kib(outputBytesMax(abi.OpCharge,
			1)) + " for quote, charge and decide; " + kib(outputBytesMax(abi.OpError, 0)) + " and 4 times the input for error",
		mib(abi.KeptBytesMax) + ", " + strconv.Itoa(abi.StateBytesMax>>10) + " KiB",
		"refusal | " + strconv.Itoa(abi.RefusalBytesMax) + " bytes",
		"a call waits " + strconv.Itoa(int(WaitMax/time.Second)) + " s for one",
		"a body of over " + mib(BodyBytesFair),
		strconv.Itoa(logPerSecond) + " lines of " + strconv.Itoa(logLineMax>>10) + " KiB a second, bursts of " + strconv.Itoa(logBurst),
	} {
		if !strings.Contains(string(page), says) {
			t.Errorf("the page does not say %q", says)
		}
	}
}
