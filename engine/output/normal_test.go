package output

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

var normals = []struct{ in, want string }{
	{`{}`, `{}`},
	{` [ 1 , -0.0 , 1E+2 , "a\/b" , { } ] `, `[1,-0.0,1E+2,"a\/b",{}]`},
	{`{"a":1,"b":2,"a":3}`, `{"b":2,"a":3}`},
	{`{"a":1,"a":2,"a":3}`, `{"a":3}`},
	{`{"a":"a","b":["a","a"],"c":{"a":"b"}}`, `{"a":"a","b":["a","a"],"c":{"a":"b"}}`},
	{`{"a":{"b":1,"b":2},"c":[{"a":1,"a":[]}],"a":0}`, `{"c":[{"a":[]}],"a":0}`},
	{`{"a":["x","x"],"a":["y","y",{"x":1}],"b":["y"]}`, `{"a":["y","y",{"x":1}],"b":["y"]}`},
	{`[{"a":1},{"a":2},{"a":{"a":1,"a":{"a":1}}}]`, `[{"a":1},{"a":2},{"a":{"a":{"a":1}}}]`},
	{`{"a":1,"\u0061":2,"\"\\":3,"\u0022\u005C":4}`, `{"\u0061":2,"\u0022\u005C":4}`},
	{`{"":1,"":",{\"\":"}`, `{"":",{\"\":"}`},
	{`["\ud83d","\ude00 \uD83D","\ud83d\ude00","\ude00\ud83d","\\ud83d","\ud83d\\ude00","\u00e9\n"]`,
		`["\ufffd","\ufffd \ufffd","\ud83d\ude00","\ufffd\ufffd","\\ud83d","\ufffd\\ude00","\u00e9\n"]`},
	{`["\ud83d\ud83d\ude00\ud83d"]`, `["\ufffd\ud83d\ude00\ufffd"]`},
	{`{"\ud83d":1,"é":2,"\udfff":3,"�":4}`, `{"é":2,"�":4}`},
	{`"\ud83d"`, `"\ufffd"`},
}

func TestNormal(t *testing.T) {
	for _, c := range normals {
		if got, ok := Normal([]byte(c.in)); !ok || got != c.want {
			t.Errorf("%s\n got %s, %v\nwant %s", c.in, got, ok, c.want)
		}
	}
	for _, broken := range []string{``, `{`, `{"a":1,}`, `{"a":1} x`, `{"\ud83":1}`, `"\`} {
		if got, ok := Normal([]byte(broken)); ok {
			t.Errorf("%s is taken for %s", broken, got)
		}
	}
}

// TestNormalDeep has a name twice on each of many levels, its last value on the next, and
// many members on one level.
func TestNormalDeep(t *testing.T) {
	const levels, members = 9000, 100_000
	long := strings.Repeat("x", 100)
	deep := strings.Repeat(`{"a":"`+long+`","a":`, levels) + "1" + strings.Repeat("}", levels)
	want := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
	if got, ok := Normal([]byte(deep)); !ok || got != want {
		t.Errorf("deep: %d bytes, %v, want %d", len(got), ok, len(want))
	}
	wide := "{" + strings.Repeat(`"a":1,`, members) + `"b":2}`
	if got, ok := Normal([]byte(wide)); !ok || got != `{"a":1,"b":2}` {
		t.Errorf("wide: %.100s, %v", got, ok)
	}
}

// FuzzNormal wants what a strict reader takes, and the same value as before to one that
// lets the last member of a name count.
func FuzzNormal(f *testing.F) {
	for _, c := range normals {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		in = strings.ToValidUTF8(in, "?")
		got, ok := Normal([]byte(in))
		if ok != json.Valid([]byte(in)) {
			t.Fatalf("%q: %v", in, ok)
		}
		if !ok {
			return
		}
		if again, _ := Normal([]byte(got)); !jsontext.Value(got).IsValid() || again != got {
			t.Fatalf("%q became %q", in, got)
		}
		before, after := decode(t, in), decode(t, got)
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q: %v, %v", in, got, before, after)
		}
	})
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
