package tune

import (
	"reflect"
	"testing"
)

func TestTablesAreSound(t *testing.T) {
	all, err := read()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d tables, %v", len(all), err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Device] {
			t.Errorf("two tables are of %q", s.Device)
		}
		seen[s.Device] = true
		if got := For(s.Device); !reflect.DeepEqual(got, s) {
			t.Errorf("%q gets %+v, want its own table %+v", s.Device, got, s)
		}
	}
	if s := For("a device that nobody has measured"); s.Device != "" || s.Validate() != nil {
		t.Errorf("a device without a table gets %+v, want that of all others", s)
	}
}

func TestWrongTablesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no blocks":         `{"device": "x", "attention_blocks": 0, "group_blocks": 1, "rows_at_once": [1]}`,
		"too many":          `{"device": "x", "attention_blocks": 1, "group_blocks": 100000, "rows_at_once": [1]}`,
		"no rows":           `{"device": "x", "attention_blocks": 1, "group_blocks": 1, "rows_at_once": []}`,
		"rows of no kernel": `{"device": "x", "attention_blocks": 1, "group_blocks": 1, "rows_at_once": [2]}`,
		"rows that fall":    `{"device": "x", "attention_blocks": 1, "group_blocks": 1, "rows_at_once": [8, 1]}`,
		"rows twice":        `{"device": "x", "attention_blocks": 1, "group_blocks": 1, "rows_at_once": [4, 4]}`,
		"an unknown key":    `{"device": "x", "attention_blocks": 1, "group_blocks": 1, "rows_at_once": [1], "tiles": 3}`,
	} {
		if s, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v was taken", name, s)
		}
	}
}
