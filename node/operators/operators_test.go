package operators

import (
	"strings"
	"testing"
)

func TestOperators(t *testing.T) {
	made, token := New("alice", Manager)
	other, otherToken := New("bob@example.com", Viewer)
	all, err := ParseAll([]string{made.String(), other.String()})
	if err != nil || len(all) != 2 || all[0] != made || all[1] != other {
		t.Fatalf("%+v, %v", all, err)
	}
	for of, want := range map[string]Operator{token: made, otherToken: other, "": {}, token + "x": {}, token[:20]: {}} {
		if got, ok := Find(all, []byte(of)); got != want || ok != (want.Role > 0) {
			t.Errorf("the token %q is that of %+v, %v", of, got, ok)
		}
	}
	hash := strings.Repeat("ab", 32)
	for _, text := range []string{"", "alice", "alice:viewer", "alice:king:" + hash, "alice:viewer:" + hash[2:], "alice:viewer:zz" + hash[2:],
		"alice:viewer:" + hash + "a",
		"admin:viewer:" + hash, "local:owner:" + hash, "Alice:viewer:" + hash, "a b:viewer:" + hash, "alice:viewer:" + hash + ":x"} {
		if _, err := ParseAll([]string{text}); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	for _, twice := range [][]string{{"a:viewer:" + hash, "a:owner:" + hash[:62] + "cd"}, {"a:viewer:" + hash, "b:viewer:" + hash}} {
		if _, err := ParseAll(twice); err == nil {
			t.Errorf("%v was read", twice)
		}
	}
}
