package responses

import (
	"testing"

	"corenode/wasm/abi"
)

// TestDefaults: the members of a request that said nothing are those of one that was not kept.
func TestDefaults(t *testing.T) {
	var e echoes
	if got := string(e.append(nil)); got != membersDefault {
		t.Errorf("echoes give\n%s\nmembersDefault is\n%s", got, membersDefault)
	}
}

// TestEveryKindHasAName: no kind of error is told as another by accident.
func TestEveryKindHasAName(t *testing.T) {
	for _, k := range abi.Kinds() {
		if _, known := wireErrors[k]; !known {
			t.Errorf("the kind %s has no row in wireErrors", k)
		}
	}
}
