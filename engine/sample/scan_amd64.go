package sample

import "golang.org/x/sys/cpu"

// archScanners are the scanners in assembly that this processor can run.
func archScanners() (found []scanner) {
	x := &cpu.X86
	narrow := x.HasAVX2 && x.HasFMA
	if narrow && x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512VL {
		found = append(found, scanner{"avx512", firstInAVX512, weightSumAVX512})
	}
	if narrow {
		found = append(found, scanner{"avx2", firstInAVX2, weightSumAVX2})
	}
	return found
}

// The values that one round of the assembly takes, and all it can take.
const (
	firstInRound   = 64
	weightSumRound = 8
)

//go:noescape
func firstInRoundsAVX512(x *float32, n int, lo, hi float32) int

//go:noescape
func firstInRoundsAVX2(x *float32, n int, lo, hi float32) int

//go:noescape
func weightSumRoundsAVX512(x *float32, n int, most, scale float64, bar float32) float64

//go:noescape
func weightSumRoundsAVX2(x *float32, n int, most, scale float64, bar float32) float64

func firstInAVX512(x []float32, lo, hi float32) int {
	whole := len(x) &^ (firstInRound - 1)
	if whole > 0 {
		if i := firstInRoundsAVX512(&x[0], whole, lo, hi); i >= 0 {
			return i
		}
	}
	return firstInRest(x, whole, lo, hi)
}

func firstInAVX2(x []float32, lo, hi float32) int {
	whole := len(x) &^ (firstInRound - 1)
	if whole > 0 {
		if i := firstInRoundsAVX2(&x[0], whole, lo, hi); i >= 0 {
			return i
		}
	}
	return firstInRest(x, whole, lo, hi)
}

// firstInRest looks from an index on.
func firstInRest(x []float32, from int, lo, hi float32) int {
	if i := firstIn(x[from:], lo, hi); i >= 0 {
		return from + i
	}
	return -1
}

func weightSumAVX512(x []float32, f softmax, bar float32) (sum float64) {
	whole := len(x) &^ (weightSumRound - 1)
	if whole > 0 {
		sum = weightSumRoundsAVX512(&x[0], whole, f.most, f.scale, bar)
	}
	return weightRest(sum, x[whole:], f, bar)
}

func weightSumAVX2(x []float32, f softmax, bar float32) (sum float64) {
	whole := len(x) &^ (weightSumRound - 1)
	if whole > 0 {
		sum = weightSumRoundsAVX2(&x[0], whole, f.most, f.scale, bar)
	}
	return weightRest(sum, x[whole:], f, bar)
}
