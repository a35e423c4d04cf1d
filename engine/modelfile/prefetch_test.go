package modelfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// TestPrefetch: whatever is asked for, in any order and twice, is read when Ready returns; stop ends
// the rest, and a file can be read ahead again.
func TestPrefetch(t *testing.T) {
	const rows, cols = 512, 1024 // two pieces of a mebibyte
	var tensors []*modelfile.Tensor
	for _, name := range []string{"output.weight", "blk.1.a.weight", "blk.0.a.weight", "blk.0.b.weight", "token_embd.weight"} {
		data := bytes.Repeat([]byte(name), 4*rows*cols/len(name)+1)[:4*rows*cols]
		tensors = append(tensors, &modelfile.Tensor{Name: name, Type: kernel.F32, Shape: []int{cols, rows}, Data: data})
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	meta := []modelfile.KV{{Key: "general.architecture", Value: "llama"}}
	if err := os.WriteFile(path, gguftest.Bytes(meta, tensors), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, order := range [][]int{{3, 3, 0, 4, 2, 1}, {1}, {}} {
		stop := f.Prefetch()
		for _, i := range order {
			x, _ := f.Tensor(tensors[i].Name)
			f.Ready(x)
			asked, pieces, unasked := f.AskedFor(x)
			if asked != pieces || pieces < 2 || unasked < 0 || unasked > modelfile.PrefetchPieces {
				t.Errorf("%s: %d of %d pieces, %d not asked for", x.Name, asked, pieces, unasked)
			}
			if !bytes.Equal(x.Bytes(), tensors[i].Data) {
				t.Errorf("%s has other bytes", x.Name)
			}
		}
		stop()
	}
	x, _ := f.Tensor(tensors[0].Name)
	f.Ready(x) // of a file that nobody reads ahead
}

// TestPrefetchOfLostFiles: a file that is gone from its folder loads from its mapping.
func TestPrefetchOfLostFiles(t *testing.T) {
	x := &modelfile.Tensor{Name: "a.weight", Type: kernel.F32, Shape: []int{4, 1}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, 4)}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, gguftest.Bytes([]modelfile.KV{{Key: "general.architecture", Value: "llama"}}, []*modelfile.Tensor{x}), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Skip("the system keeps files that are open")
	}
	defer f.Prefetch()()
	got, _ := f.Tensor("a.weight")
	if f.Ready(got); !bytes.Equal(got.Bytes(), x.Data) {
		t.Errorf("it has the bytes %v", got.Bytes())
	}
}

// TestReadOfReplacedFiles: where another file has the name by now, a model that is open is read from its own.
func TestReadOfReplacedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	x := &modelfile.Tensor{Name: "a.weight", Type: kernel.F32, Shape: []int{1024, 64}}
	write := func(path string, value byte) {
		x.Data = bytes.Repeat([]byte{value}, 4*1024*64)
		meta := []modelfile.KV{{Key: "general.architecture", Value: "llama"}}
		if err := os.WriteFile(path, gguftest.Bytes(meta, []*modelfile.Tensor{x}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, 1)
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(path+".new", 2)
	if err := os.Rename(path+".new", path); err != nil {
		t.Skip("the system keeps files that are open")
	}
	defer f.Prefetch()()
	got, _ := f.Tensor("a.weight")
	var scratch []byte
	if part := f.Read(got.Data, &scratch); part[0] != 1 || part[len(part)-1] != 1 {
		t.Errorf("it has the bytes of the new file, %d", part[0])
	}
}

// TestRead: any part of a tensor is read as it is, whether the system has it in memory or not, also
// where the file ends, where it is gone, and where nobody loads.
func TestRead(t *testing.T) {
	data := make([]byte, 5<<20+1000)
	for i := range data {
		data[i] = byte(i>>12 ^ i)
	}
	x := &modelfile.Tensor{Name: "a.weight", Type: kernel.Q8_0, Shape: []int{32, len(data) / 34}}
	x.Data = data[:len(data)/34*34]
	path := filepath.Join(t.TempDir(), "m.gguf")
	meta := []modelfile.KV{{Key: "general.architecture", Value: "llama"}}
	if err := os.WriteFile(path, gguftest.Bytes(meta, []*modelfile.Tensor{x}), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, _ := f.Tensor("a.weight")
	check := func(what string) {
		t.Helper()
		var scratch []byte
		n := len(got.Data)
		for _, cut := range [][2]int{{0, 1}, {1, 2 << 20}, {4095, 4098}, {3<<20 + 77, 4<<20 + 78}, {n - 3, n}, {0, n}} {
			if !bytes.Equal(f.Read(got.Data[cut[0]:cut[1]], &scratch), x.Data[cut[0]:cut[1]]) {
				t.Errorf("%s: bytes %v are others", what, cut)
			}
		}
		made := bytes.Clone(x.Data[:100]) // not of the file
		if part := f.Read(made[5:], &scratch); &part[0] != &made[5] {
			t.Errorf("%s: what is not of the file was copied", what)
		}
	}
	check("nobody loads")
	stop := f.Prefetch()
	check("in memory")
	modelfile.Forget(t, path)
	check("not in memory")
	stop()
	if err := os.Remove(path); err != nil {
		t.Skip("the system keeps files that are open")
	}
	stop = f.Prefetch()
	defer stop()
	check("gone")
}
