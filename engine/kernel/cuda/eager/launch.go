package eager

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"

	"corenode/engine/kernel/cuda"
)

//go:embed kernels/ptx.tar.zst
var ptx []byte

// images are the modules, by their file.
func images() map[string]string { return Images(ptx) }

var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

// entries are the kernels of a module.
func entries(text string) (names []string) {
	for _, m := range entry.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// args packs the parameters of a kernel, each at a multiple of its size.
type args []byte

// pack replaces what is there. Integers are 4 bytes, but for int64.
func (a args) pack(values ...any) args {
	a = a[:0]
	for _, v := range values {
		switch v := v.(type) {
		case cuda.Pointer:
			a = binary.LittleEndian.AppendUint64(a.align(8), uint64(v))
		case int64:
			a = binary.LittleEndian.AppendUint64(a.align(8), uint64(v))
		case int:
			a = binary.LittleEndian.AppendUint32(a, uint32(int32(v)))
		case bool:
			a = binary.LittleEndian.AppendUint32(a, map[bool]uint32{true: 1}[v])
		case float32:
			a = binary.LittleEndian.AppendUint32(a, math.Float32bits(v))
		default:
			panic(fmt.Sprintf("a parameter of type %T", v))
		}
	}
	return a
}

func (a args) align(n int) args {
	for len(a)%n != 0 {
		a = append(a, 0)
	}
	return a
}

// Shape is how a kernel runs: blocks, threads of each, bytes of dynamic shared memory.
type Shape struct{ X, Y, Z, Threads, Shared int }

// Queue launches a kernel: cuda.Pointer, int64, int (as 32 bits), bool and float32 are what it may be given.
func (b *Backend) Queue(name string, s Shape, values ...any) {
	b.args = b.args.pack(values...)
	b.Must(b.stream.Launch(b.kernels[name], cuda.Launch{
		Grid: cuda.Dim{X: s.X, Y: s.Y, Z: s.Z}, Block: cuda.Dim{X: s.Threads}, Shared: s.Shared, Params: b.args,
	}))
}

// each is a thread for each of n values, which the kernels count in 32 bits.
func each(n int) Shape {
	if n > math.MaxInt32 {
		panic(fmt.Sprintf("%d values in one operation", n))
	}
	return Shape{X: up(n, 256), Threads: 256}
}

// up is n/d rounded up.
func up(n, d int) int { return (n + d - 1) / d }
