package modelfile

// Translate opens a folder that is in memory: config.json and one safetensors file.
func Translate(config, safetensors []byte) (*File, error) {
	f := &File{name: "memory", keyAt: map[string]int{}, byName: map[string]*Tensor{}, beside: map[string][]byte{configName: config}}
	raw, _, err := parseSafetensors(safetensors)
	if err != nil {
		return nil, err
	}
	return newFile(f), f.translate(raw)
}

// SafetensorsSizes are the bytes of each tensor of a file.
func SafetensorsSizes(data []byte) (sizes []int, err error) {
	list, _, err := parseSafetensors(data)
	for _, t := range list {
		sizes = append(sizes, len(t.data))
	}
	return sizes, err
}

// E4M3 are the values of the bytes of that type.
func E4M3() [256]float32 { return e4m3 }

// AskedFor says how much of a tensor was read and asked for, in pieces, and how many pieces of the
// files were read and not asked for.
func (f *File) AskedFor(t *Tensor) (asked, pieces, unasked int) {
	f.prefetcher.mu.Lock()
	defer f.prefetcher.mu.Unlock()
	for _, data := range t.stored() {
		of, from, to := f.prefetcher.find(data)
		for _, state := range of.pieces[from:to] {
			if pieces++; state == pieceAsked {
				asked++
			}
		}
	}
	return asked, pieces, f.prefetcher.unasked
}

// PrefetchPieces is the most pieces that are read ahead.
const PrefetchPieces = prefetchMax / prefetchPiece

// Tiled is a matrix whose rows from one on are reordered as value heads are.
func (t *Tensor) Tiled(kHeads, vHeads, size, from int) (*Tensor, error) {
	return t.reordered(t.rows(), tiled(kHeads, vHeads, size, from))
}
