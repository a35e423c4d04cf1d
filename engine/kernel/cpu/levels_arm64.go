package cpu

import "golang.org/x/sys/cpu"

// archLevels are the assembly levels that this processor and system can run. Every
// processor of arm64 has the vector instructions of the lower one.
func archLevels() []*ops {
	if cpu.ARM64.HasASIMDDP {
		return []*ops{dotOps(), neonOps()}
	}
	return []*ops{neonOps()}
}

// neonOps are the kernels of level "neon".
func neonOps() *ops {
	o := kernelsNEON()
	o.name, o.multiplies = "neon", 12*4
	return o
}

// dotOps are the kernels of level "dotprod": those of neon, with an instruction for
// the integer products.
func dotOps() *ops {
	o := neonOps()
	o.name = "dotprod"
	o.matMul[code8] = [len(tileRows)]matMulFunc{matMulCode8Rows1Dot, matMulCode8Rows2Dot, matMulCode8Rows4Dot, matMulCode8Rows8Dot}
	o.matMul[code6] = [len(tileRows)]matMulFunc{matMulCode6Rows1Dot, matMulCode6Rows2Dot, matMulCode6Rows4Dot, matMulCode6Rows8Dot}
	o.matMul[code5m] = [len(tileRows)]matMulFunc{matMulCode5mRows1Dot, matMulCode5mRows2Dot, matMulCode5mRows4Dot, matMulCode5mRows8Dot}
	o.matMul[code4] = [len(tileRows)]matMulFunc{matMulCode4Rows1Dot, matMulCode4Rows2Dot, matMulCode4Rows4Dot, matMulCode4Rows8Dot}
	o.matMul[code4m] = [len(tileRows)]matMulFunc{matMulCode4mRows1Dot, matMulCode4mRows2Dot, matMulCode4mRows4Dot, matMulCode4mRows8Dot}
	return o
}
