// Package archive is how the compiled kernels of a package lie in the tree and in a program: a tar of its PTX, compressed with zstd.
//
// The same files give the same bytes: they are in the order of their names and have no times. To look at the PTX of all packages,
//
//	go run ./engine/kernel/cuda/pack -x DIR
//
// writes it to a folder. An archive alone is read by tar --zstd -xf, too.
package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Name is what each archive is called, in the folder of its kernels' sources.
const Name = "ptx.tar.zst"

// bytesMax bounds an archive, decompressed.
const bytesMax = 64 << 20

// Pack makes an archive of texts by their file.
func Pack(files map[string]string) ([]byte, error) {
	var all bytes.Buffer
	t := tar.NewWriter(&all)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(t, files[name]); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(all.Bytes(), nil), nil
}

// Unpack returns the texts of an archive by their file.
func Unpack(packed []byte) (map[string]string, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(bytesMax))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	all, err := r.DecodeAll(packed, nil)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for t := tar.NewReader(bytes.NewReader(all)); ; {
		h, err := t.Next()
		if err == io.EOF && len(files) > 0 {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		if _, twice := files[h.Name]; twice {
			return nil, fmt.Errorf("two files are named %s", h.Name)
		}
		files[h.Name] = string(text)
	}
}
