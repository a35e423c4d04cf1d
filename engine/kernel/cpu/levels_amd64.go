package cpu

import (
	"golang.org/x/sys/cpu"

	"corenode/engine/kernel"
)

// archLevels are the assembly levels that this processor and system can run.
// F16C is not among the features that are reported; no processor has AVX2
// and FMA without it.
func archLevels() []*ops {
	var found []*ops
	x := &cpu.X86
	narrow := x.HasAVX2 && x.HasFMA && x.HasBMI2
	if narrow && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		if x.HasAMXTile && x.HasAMXInt8 && amxPermitted() {
			found = append(found, amxOps())
		}
		found = append(found, avx512Ops())
	}
	if narrow {
		found = append(found, avx2Ops())
	}
	return found
}

// amxOps are the kernels of level "amx": those of avx512vnni, tall tiles and bands.
func amxOps() *ops {
	o := avx512Ops()
	o.name = "amx"
	b := &bandOps{rows: bandRows, min: 17}
	b.unpack = [layouts]func(dst, panel *byte, steps int){
		code8: unpackCode8AMX, code6: unpackCode6AMX, code5m: unpackCode5mAMX, code4: unpackCode4AMX, code4m: unpackCode4mAMX,
	}
	b.multiply = [layouts]bandFunc{
		code8:  bandCode8AMX,
		code6:  bandCode6AMX,
		code5m: bandCode5mAMX,
		code4:  bandCode4AMX,
		code4m: bandCode4mAMX,
	}
	b.quantize = quantizeBandAMX
	o.bands = b
	if cpu.X86.HasAMXBF16 {
		o.prompts = promptKernels()
	}
	o.tall[code8] = matMulCode8Rows16AMX
	return o
}

// promptKernels are those of attention of prompts.
func promptKernels() *promptOps {
	return &promptOps{
		query: splitQueryAMX,
		keys: [kvTypes]func(dst, src *byte, blocks int){
			kernel.KVF16: splitKeysHalfAMX, kernel.KVF32: splitKeysFloatAMX, kernel.KVQ8: splitKeysCodeAMX,
		},
		values: [kvTypes]func(dst, first, second *byte, d int){
			kernel.KVF16: splitValuesHalfAMX, kernel.KVF32: splitValuesFloatAMX, kernel.KVQ8: splitValuesCodeAMX,
		},
		step:   promptStepAMX,
		finish: promptFinishAMX,
	}
}

// avx512Ops are the kernels of level "avx512vnni".
func avx512Ops() *ops {
	o := kernelsAVX512()
	o.name, o.multiplies = "avx512vnni", 12*16
	o.matVec = [layouts]matVecFunc{
		code8: matVecCode8AVX512, code6: matVecCode6AVX512, code5m: matVecCode5mAVX512,
		code4: matVecCode4AVX512, code4m: matVecCode4mAVX512,
		float32s: matVecFloat32AVX512, float16s: matVecFloat16AVX512, bfloat16s: matVecBFloat16AVX512,
	}
	o.bands = &bandOps{rows: 6, min: 128, quantize: quantizeBandAVX512}
	o.bands.unpack = [layouts]func(dst, panel *byte, steps int){
		code8: unpackCode8AVX512, code6: unpackCode6AVX512, code5m: unpackCode5mAVX512,
		code4: unpackCode4AVX512, code4m: unpackCode4mAVX512,
	}
	o.bands.multiply = [layouts]bandFunc{
		code8: bandCode8AVX512, code6: bandCode6AVX512, code5m: bandCode5mAVX512,
		code4: bandCode4AVX512, code4m: bandCode4mAVX512,
	}
	o.words = &wordOps{keys: wordKeysAVX512, values: wordValuesAVX512, step: wordStepAVX512}
	return o
}

// avx2Ops are the kernels of level "avx2".
func avx2Ops() *ops {
	o := kernelsAVX2()
	o.name, o.multiplies = "avx2", 12*8
	o.matVec = [layouts]matVecFunc{
		code8: matVecCode8AVX2, code6: matVecCode6AVX2, code5m: matVecCode5mAVX2, code4: matVecCode4AVX2, code4m: matVecCode4mAVX2,
	}
	return o
}
