package devicetest

import (
	"encoding/binary"
	"testing"

	"corenode/engine/kernel/cuda"
)

// Read is what memory of a device holds when all that is queued before has ended.
func Read(t testing.TB, d cuda.Driver, s cuda.Stream, from cuda.Pointer, bytes int) []byte {
	t.Helper()
	host, err := d.AllocHost(bytes)
	if err == nil {
		if err = s.CopyOut(host, from); err == nil {
			err = s.Synchronize()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	v := append([]byte(nil), host...)
	if err := d.FreeHost(host); err != nil {
		t.Fatal(err)
	}
	return v
}

// WantRounded wants numbers as bfloat16 to be the same ones as float32, rounded to the nearest, to an even one of two.
func WantRounded(t testing.TB, brain, floats []byte) {
	t.Helper()
	rounded := false
	for i := range len(floats) / 4 {
		x := binary.LittleEndian.Uint32(floats[4*i:])
		rounded = rounded || x&0xffff != 0
		want := uint16((x + 0x7fff + x>>16&1) >> 16)
		if got := binary.LittleEndian.Uint16(brain[2*i:]); got != want {
			t.Fatalf("value %d is %#04x, want %#04x for %#08x", i, got, want, x)
		}
	}
	if !rounded {
		t.Fatal("no value had to be rounded")
	}
}
