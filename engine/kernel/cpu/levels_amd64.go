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
	b := &bandOps{}
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
	return &ops{
		name: "avx512vnni",
		matMul: [layouts][len(tileRows)]matMulFunc{
			code8:     {matMulCode8Rows1AVX512, matMulCode8Rows2AVX512, matMulCode8Rows4AVX512, matMulCode8Rows8AVX512},
			code6:     {matMulCode6Rows1AVX512, matMulCode6Rows2AVX512, matMulCode6Rows4AVX512, matMulCode6Rows8AVX512},
			code5m:    {matMulCode5mRows1AVX512, matMulCode5mRows2AVX512, matMulCode5mRows4AVX512, matMulCode5mRows8AVX512},
			code4:     {matMulCode4Rows1AVX512, matMulCode4Rows2AVX512, matMulCode4Rows4AVX512, matMulCode4Rows8AVX512},
			code4m:    {matMulCode4mRows1AVX512, matMulCode4mRows2AVX512, matMulCode4mRows4AVX512, matMulCode4mRows8AVX512},
			float32s:  {matMulFloat32Rows1AVX512, matMulFloat32Rows2AVX512, matMulFloat32Rows4AVX512, matMulFloat32Rows8AVX512},
			float16s:  {matMulFloat16Rows1AVX512, matMulFloat16Rows2AVX512, matMulFloat16Rows4AVX512, matMulFloat16Rows8AVX512},
			bfloat16s: {matMulBFloat16Rows1AVX512, matMulBFloat16Rows2AVX512, matMulBFloat16Rows4AVX512, matMulBFloat16Rows8AVX512},
		},
		scores: [kvTypes][len(queryRows)]scoresFunc{
			kernel.KVF16: {scoresHalfQueries1AVX512, scoresHalfQueries2AVX512, scoresHalfQueries4AVX512, scoresHalfQueries8AVX512, scoresHalfQueries12AVX512},
			kernel.KVF32: {scoresFloatQueries1AVX512, scoresFloatQueries2AVX512, scoresFloatQueries4AVX512, scoresFloatQueries8AVX512, scoresFloatQueries12AVX512},
			kernel.KVQ8:  {scoresCodeQueries1AVX512, scoresCodeQueries2AVX512, scoresCodeQueries4AVX512, scoresCodeQueries8AVX512, scoresCodeQueries12AVX512},
		},
		values: [kvTypes][len(queryRows)]valuesFunc{
			kernel.KVF16: {valuesHalfQueries1AVX512, valuesHalfQueries2AVX512, valuesHalfQueries4AVX512, valuesHalfQueries8AVX512, valuesHalfQueries12AVX512},
			kernel.KVF32: {valuesFloatQueries1AVX512, valuesFloatQueries2AVX512, valuesFloatQueries4AVX512, valuesFloatQueries8AVX512, valuesFloatQueries12AVX512},
			kernel.KVQ8:  {valuesCodeQueries1AVX512, valuesCodeQueries2AVX512, valuesCodeQueries4AVX512, valuesCodeQueries8AVX512, valuesCodeQueries12AVX512},
		},
		quantize: quantizeAVX512,
		widen: [kvTypes]func(dst *float32, src *byte, n int){
			kernel.KVF16: widenHalfAVX512, kernel.KVF32: widenFloatAVX512, kernel.KVQ8: widenCodeAVX512,
		},
		wideScores: scoresWideQueries12AVX512,
		wideValues: wideValuesAVX512,
		weigh:      weighAVX512,
		softmax:    softmaxAVX512,
		fold:       foldAVX512,
		encodeKV:   encodeKVAVX512,
		delta:      deltaAVX512OrGo,
		product:    productAVX512,
		solve:      solveAVX512,
		transpose:  transposeAVX512,
		convolve:   convolveAVX512,
		gates:      gatesAVX512,
		decayRow:   decayRowAVX512,
		gatedNorm:  gatedNormAVX512,
		exp:        expAVX512,
		scale:      scaleAVX512,
		sumSquares: sumSquaresAVX512,
		scaleMul:   scaleMulAVX512,
		add:        addAVX512,
		addScaled:  addScaledAVX512,
		addProduct: addProductAVX512,
		silu:       siluAVX512,
		siluMul:    siluMulAVX512,
		sigmoidMul: sigmoidMulAVX512,
		rotate:     rotateAVX512,
		toHalf:     toHalfAVX512,
		multiply:   multiplyAVX512,
		multiplies: 12 * 16,

		matVec: [layouts]matVecFunc{
			code8: matVecCode8AVX512, code6: matVecCode6AVX512, code5m: matVecCode5mAVX512,
			code4: matVecCode4AVX512, code4m: matVecCode4mAVX512,
			float32s: matVecFloat32AVX512, float16s: matVecFloat16AVX512, bfloat16s: matVecBFloat16AVX512,
		},
		readStreams: readStreamsAVX512,
		fetchLines:  fetchLinesAVX512,
	}
}

// deltaAVX512OrGo takes the portable kernel for the odd sizes that the other one cannot do.
func deltaAVX512OrGo(state, k, q *float32, dk int, v *float32, decay, beta float32, out, next *float32) {
	if dk%4 != 0 {
		deltaGo(state, k, q, dk, v, decay, beta, out, next)
		return
	}
	deltaAVX512(state, k, q, dk, v, decay, beta, out, next)
}

// avx2Ops are the kernels of level "avx2".
func avx2Ops() *ops {
	return &ops{
		name: "avx2",
		matMul: [layouts][len(tileRows)]matMulFunc{
			code8:     {matMulCode8Rows1AVX2, matMulCode8Rows2AVX2, matMulCode8Rows4AVX2, matMulCode8Rows8AVX2},
			code6:     {matMulCode6Rows1AVX2, matMulCode6Rows2AVX2, matMulCode6Rows4AVX2, matMulCode6Rows8AVX2},
			code5m:    {matMulCode5mRows1AVX2, matMulCode5mRows2AVX2, matMulCode5mRows4AVX2, matMulCode5mRows8AVX2},
			code4:     {matMulCode4Rows1AVX2, matMulCode4Rows2AVX2, matMulCode4Rows4AVX2, matMulCode4Rows8AVX2},
			code4m:    {matMulCode4mRows1AVX2, matMulCode4mRows2AVX2, matMulCode4mRows4AVX2, matMulCode4mRows8AVX2},
			float32s:  {matMulFloat32Rows1AVX2, matMulFloat32Rows2AVX2, matMulFloat32Rows4AVX2, matMulFloat32Rows8AVX2},
			float16s:  {matMulFloat16Rows1AVX2, matMulFloat16Rows2AVX2, matMulFloat16Rows4AVX2, matMulFloat16Rows8AVX2},
			bfloat16s: {matMulBFloat16Rows1AVX2, matMulBFloat16Rows2AVX2, matMulBFloat16Rows4AVX2, matMulBFloat16Rows8AVX2},
		},
		scores: [kvTypes][len(queryRows)]scoresFunc{
			kernel.KVF16: {scoresHalfQueries1AVX2, scoresHalfQueries2AVX2, scoresHalfQueries4AVX2, scoresHalfQueries8AVX2, scoresHalfQueries12AVX2},
			kernel.KVF32: {scoresFloatQueries1AVX2, scoresFloatQueries2AVX2, scoresFloatQueries4AVX2, scoresFloatQueries8AVX2, scoresFloatQueries12AVX2},
			kernel.KVQ8:  {scoresCodeQueries1AVX2, scoresCodeQueries2AVX2, scoresCodeQueries4AVX2, scoresCodeQueries8AVX2, scoresCodeQueries12AVX2},
		},
		values: [kvTypes][len(queryRows)]valuesFunc{
			kernel.KVF16: {valuesHalfQueries1AVX2, valuesHalfQueries2AVX2, valuesHalfQueries4AVX2, valuesHalfQueries8AVX2, valuesHalfQueries12AVX2},
			kernel.KVF32: {valuesFloatQueries1AVX2, valuesFloatQueries2AVX2, valuesFloatQueries4AVX2, valuesFloatQueries8AVX2, valuesFloatQueries12AVX2},
			kernel.KVQ8:  {valuesCodeQueries1AVX2, valuesCodeQueries2AVX2, valuesCodeQueries4AVX2, valuesCodeQueries8AVX2, valuesCodeQueries12AVX2},
		},
		quantize: quantizeAVX2,
		widen: [kvTypes]func(dst *float32, src *byte, n int){
			kernel.KVF16: widenHalfAVX2, kernel.KVF32: widenFloatAVX2, kernel.KVQ8: widenCodeAVX2,
		},
		wideScores: scoresWideQueries12AVX2,
		wideValues: wideValuesAVX2,
		weigh:      weighAVX2,
		softmax:    softmaxAVX2,
		fold:       foldAVX2,
		encodeKV:   encodeKVAVX2,
		delta:      deltaAVX2OrGo,
		product:    productAVX2,
		solve:      solveAVX2,
		transpose:  transposeAVX2,
		convolve:   convolveAVX2,
		gates:      gatesAVX2,
		decayRow:   decayRowAVX2,
		gatedNorm:  gatedNormAVX2,
		exp:        expAVX2,
		scale:      scaleAVX2,
		sumSquares: sumSquaresAVX2,
		scaleMul:   scaleMulAVX2,
		add:        addAVX2,
		addScaled:  addScaledAVX2,
		addProduct: addProductAVX2,
		silu:       siluAVX2,
		siluMul:    siluMulAVX2,
		sigmoidMul: sigmoidMulAVX2,
		rotate:     rotateAVX2,
		toHalf:     toHalfAVX2,
		multiply:   multiplyAVX2,
		multiplies: 12 * 8,

		readStreams: readStreamsAVX2,
		fetchLines:  fetchLinesAVX2,
	}
}

// deltaAVX2OrGo takes the portable kernel for the odd sizes that the other one cannot do.
func deltaAVX2OrGo(state, k, q *float32, dk int, v *float32, decay, beta float32, out, next *float32) {
	if dk%4 != 0 {
		deltaGo(state, k, q, dk, v, decay, beta, out, next)
		return
	}
	deltaAVX2(state, k, q, dk, v, decay, beta, out, next)
}
