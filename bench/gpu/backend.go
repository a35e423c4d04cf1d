package gpu

import (
	"hash/fnv"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/modelfile"
)

// backend makes the matrices that are loaded, and counts which experts rows go to where it is asked.
type backend struct {
	*fused.Backend
	patterns map[kernel.Type][]byte
	stored   bool // matrices are as their source has them

	counting bool
	top      int
	layers   int // counted
	hits     int // different experts, of all layers
	logits   []float32
}

// Kept says that the file has nothing that it would help to read ahead.
func (b *backend) Kept() bool { return !b.stored }

// Load implements kernel.Backend: with random values, whatever the source has.
func (b *backend) Load(src kernel.Source) (kernel.Weight, error) {
	if b.stored {
		return b.Backend.Load(src)
	}
	if b.patterns[src.Type] == nil {
		p, err := pattern(src.Type, 1)
		if err != nil {
			return nil, err
		}
		b.patterns[src.Type] = p
	}
	src.Pieces = piecesOf(src.Name, src.Type, b.patterns[src.Type], src.Experts*src.Rows*src.Cols)
	src.Data, src.Read = nil, nil
	return b.Backend.Load(src)
}

// piecesOf are the values of a matrix: those of a pattern, from a place on that its name decides.
func piecesOf(name string, typ kernel.Type, pattern []byte, values int) [][]byte {
	_, block, blockBytes, _ := modelfile.TypeInfo(typ)
	h := fnv.New32a()
	h.Write([]byte(name))
	return repeated(pattern, values/block*blockBytes, int(h.Sum32()), blockBytes)
}

// Experts implements kernel.Backend.
func (b *backend) Experts(dst, x, logits kernel.Buffer, n int, s kernel.ExpertStack, r kernel.Routing) {
	if b.counting {
		experts := s.Gate.Experts()
		b.logits = append(b.logits[:0], make([]float32, n*experts)...)
		b.Download(b.logits, logits, 0)
		b.hits += different(b.logits, experts, b.top)
		b.layers++
	}
	b.Backend.Experts(dst, x, logits, n, s, r)
}

// different is how many experts are among the top ones of any row; of equal ones the lower comes first.
func different(logits []float32, experts, top int) (n int) {
	hit := make([]bool, experts)
	for at := 0; at < len(logits); at += experts {
		row := logits[at : at+experts]
		taken := make([]bool, experts)
		for range top {
			best := -1
			for e, x := range row {
				if !taken[e] && (best < 0 || x > row[best]) {
					best = e
				}
			}
			taken[best] = true
			if !hit[best] {
				hit[best] = true
				n++
			}
		}
	}
	return n
}
