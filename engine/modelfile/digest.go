package modelfile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

const (
	sampleBytes = 4096 // one page: what reading a single byte costs anyway
	samples     = 4    // per tensor
)

// Digest identifies the content of the file for use in a cache key, as 64 hex
// digits. It is SHA-256 over the file size, everything before the data section
// (all metadata and the whole directory) and, of each tensor, all data up to
// 16 KiB, else 4 evenly spaced samples of 4 KiB with the first and last bytes
// among them. So it reads megabytes of a file of any size. The parts of a model follow
// each other; those of a folder are sampled as if each were a few hundred tensors. Files that differ
// anywhere else only (a patch of single weights inside a large tensor) share a
// digest: it names a cache entry, it does not prove integrity.
func (f *File) Digest() string { return f.digest() }

func digest(parts []*part) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(p.data)))
		h.Write(size[:])
		h.Write(p.data[:p.body])
		for _, data := range p.stored {
			for _, s := range sample(data) {
				h.Write(s)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sample picks what Digest reads of one tensor.
func sample(data []byte) [][]byte {
	if len(data) <= samples*sampleBytes {
		return [][]byte{data}
	}
	var out [][]byte
	for i := range samples {
		at := (len(data) - sampleBytes) / (samples - 1) * i
		if i == samples-1 {
			at = len(data) - sampleBytes
		}
		out = append(out, data[at:at+sampleBytes])
	}
	return out
}
