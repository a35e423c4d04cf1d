package probe

import (
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// TestTierAsWritten: a tier beyond its bound is told as its author wrote it, with a sign or without.
func TestTierAsWritten(t *testing.T) {
	record := abi.Charge{}.Append(nil)
	copy(record[8:], "\x00\x28\x6b\xee") // 4000000000, which the record has as u32
	c, err := abi.ParseCharge(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4000000000", "-294967296"} {
		if p := CheckSums(c); p == nil || !strings.Contains(p.What, want) || !strings.Contains(p.Fix, "0 to 2147483647") {
			t.Errorf("%+v, want %s", p, want)
		}
	}
	c.Tier = 1<<31 - 1
	if p := CheckSums(c); p != nil {
		t.Errorf("the largest tier: %+v", p)
	}
}
