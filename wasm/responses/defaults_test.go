package responses

import (
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/wasm/abi"
)

// TestDefaults: the members of a request that said nothing are those of one that was not kept.
func TestDefaults(t *testing.T) {
	var e echoes
	if got := string(e.append(nil)); got != membersDefault {
		t.Errorf("echoes give\n%s\nmembersDefault is\n%s", got, membersDefault)
	}
}

// TestLongNames: a path of the client's names is cut at the end of a character.
func TestLongNames(t *testing.T) {
	name := strings.Repeat("ü", 300)
	_, err := New().Request(abi.RequestInput{Body: []byte(`{"model":"m","input":"hi","metadata":{"` + name + `":1}}`)})
	if err == nil || !utf8.ValidString(err.Param) || len(err.Param) > 300 || !strings.HasPrefix(err.Param, "metadata.ü") ||
		!strings.HasSuffix(err.Param, "...") {
		t.Errorf("refused with %+v, want a path that is cut", err)
	}
}
