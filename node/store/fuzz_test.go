package store

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// FuzzSpill: whatever overwrites a part of a journal behind its header, or cuts it off there, an open finds the rows that are
// whole, in their order, and no others; all else of it is damage or its end. A row that comes later is found behind them.
func FuzzSpill(f *testing.F) {
	f.Add(uint16(0), []byte{0xff, 0xff, 0xff, 0x7f}, false)
	f.Add(uint16(300), []byte("\x00\x00\x00\x00\x00\x00\x00\x00{}"), false)
	f.Add(uint16(700), []byte{}, true)
	f.Add(uint16(5), []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}\x02\x00\x00\x00"), true)
	const size = 8 << 10
	rows, dir := spilled(6), f.TempDir()
	s, err := OpenSpill(dir, size)
	if err != nil {
		f.Fatal(err)
	}
	ends := []int64{s.end}
	for i := range rows[:5] {
		if err := s.Append(rows[i : i+1]); err != nil {
			f.Fatal(err)
		}
		ends = append(ends, s.end)
	}
	s.Close()
	whole, err := os.ReadFile(filepath.Join(dir, SpillName))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, at uint16, with []byte, cut bool) {
		from := int64(spillHeader) + int64(at)%(ends[5]-ends[0])
		to := min(from+int64(len(with)), size)
		changed := slices.Concat(whole[:from], with[:to-from], whole[to:])
		if cut {
			to, changed = size, changed[:to]
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, SpillName), changed, 0o600); err != nil {
			t.Fatal(err)
		}
		var want []int
		for i := range rows[:5] {
			if begin, end := ends[i], ends[i+1]; end <= int64(len(changed)) && bytes.Equal(whole[begin:end], changed[begin:end]) {
				want = append(want, i)
			}
		}
		s := openSpill(t, dir, size)
		appended := s.Append(rows[5:])
		if appended == nil {
			want = append(want, 5)
			s.Close()
			s = openSpill(t, dir, size)
		} else if !cut {
			t.Fatal(appended)
		}
		got, err := rowsOf(s)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d rows, %v, want %v; bytes %d to %d were changed", len(got), err, want, from, to)
		}
		for i, row := range got {
			if !reflect.DeepEqual(row, rows[want[i]]) {
				t.Fatalf("row %d is %+v, want %+v", i, row, rows[want[i]])
			}
		}
	})
}
