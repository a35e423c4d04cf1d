package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// some are files of several sizes.
func some() map[string]string {
	files := map[string]string{"empty.ptx": ""}
	for i := range 20 {
		files[fmt.Sprintf("%d.ptx", i)] = strings.Repeat(fmt.Sprintf("mov.u32 %%r%d, 16;\n", i), 37*i)
	}
	return files
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	packed, err := Pack(some())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unpack(packed)
	if err != nil || !maps.Equal(got, some()) {
		t.Errorf("%d files, %v", len(got), err)
	}
	for _, broken := range [][]byte{packed[:len(packed)/2], nil, []byte("no archive")} {
		if got, err := Unpack(broken); err == nil {
			t.Errorf("%d bytes of no archive are %d files", len(broken), len(got))
		}
	}
}

// TestTheSameFilesGiveTheSameBytes: names are in order, and there are no times, owners or modes of the files that were packed.
func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	first, err := Pack(some())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if again, err := Pack(some()); err != nil || !bytes.Equal(again, first) {
			t.Fatalf("other bytes, %v", err)
		}
	}
	r, err := zstd.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for all := tar.NewReader(r); ; {
		h, err := all.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Uname != "" || h.Mode != 0o644 {
			t.Errorf("%+v", h)
		}
	}
	if len(names) != len(some()) || !slices.IsSorted(names) {
		t.Errorf("%v", names)
	}
}
