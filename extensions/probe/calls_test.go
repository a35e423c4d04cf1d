package probe

import (
	"encoding/json"
	"testing"
)

// TestGrown: a body of any protocol becomes as long as is asked, and stays one of it.
func TestGrown(t *testing.T) {
	for body, text := range map[string]string{
		`{"a long name of a member":"x","inputs":"caf\u00e9 \"q\"\\"}`: "inputs",
		`{"a":["b", "c d"], "inputs" : "the longest text"}`:            "inputs",
	} {
		for _, n := range []int{1 << 10, 100 << 10} {
			var was, is map[string]any
			got := grown([]byte(body), n)
			if err := json.Unmarshal(got, &is); err != nil || json.Unmarshal([]byte(body), &was) != nil {
				t.Fatalf("%s of %d bytes is no JSON: %v", body, n, err)
			}
			if len(got) < n || len(got) > n+len(body) || len(is) != len(was) || len(is[text].(string)) < n/2 {
				t.Errorf("%s of %d bytes has %d: %.99s", body, n, len(got), got)
			}
		}
	}
	for _, body := range []string{"", "{}", `{"a":""}`, `{"a`, `"`, `{"a":"b\`} {
		if got := grown([]byte(body), 1<<10); len(body) == 0 && len(got) != 0 || len(got) < len(body) {
			t.Errorf("%q becomes %q", body, got)
		}
	}
}
