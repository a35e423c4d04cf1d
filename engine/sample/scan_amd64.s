#include "textflag.h"

// Comparisons: "ordered, quiet" ones, which are false for NaN.
#define GE $0x1d
#define LE $0x12

// func firstInRoundsAVX512(x *float32, n int, lo, hi float32) int
TEXT ·firstInRoundsAVX512(SB), NOSPLIT, $0-32
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	VBROADCASTSS lo+16(FP), Z0
	VBROADCASTSS hi+20(FP), Z1
	XORQ         AX, AX

loop:
	VMOVUPS  (SI)(AX*4), Z2
	VMOVUPS  64(SI)(AX*4), Z3
	VMOVUPS  128(SI)(AX*4), Z4
	VMOVUPS  192(SI)(AX*4), Z5
	VCMPPS   GE, Z0, Z2, K1
	VCMPPS   GE, Z0, Z3, K2
	VCMPPS   GE, Z0, Z4, K3
	VCMPPS   GE, Z0, Z5, K4
	VCMPPS   LE, Z1, Z2, K1, K1
	VCMPPS   LE, Z1, Z3, K2, K2
	VCMPPS   LE, Z1, Z4, K3, K3
	VCMPPS   LE, Z1, Z5, K4, K4
	KORW     K1, K2, K5
	KORW     K3, K4, K6
	KORTESTW K5, K6
	JNZ      found
	ADDQ     $64, AX
	CMPQ     AX, CX
	JLT      loop
	MOVQ     $-1, AX
	JMP      done

found:
	KMOVW K1, R8
	KMOVW K2, R9
	KMOVW K3, R10
	KMOVW K4, R11
	SHLQ  $16, R9
	SHLQ  $32, R10
	SHLQ  $48, R11
	ORQ   R9, R8
	ORQ   R11, R10
	ORQ   R10, R8
	BSFQ  R8, R8
	ADDQ  R8, AX

done:
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

// func firstInRoundsAVX2(x *float32, n int, lo, hi float32) int
TEXT ·firstInRoundsAVX2(SB), NOSPLIT, $0-32
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	VBROADCASTSS lo+16(FP), Y0
	VBROADCASTSS hi+20(FP), Y1
	XORQ         AX, AX

loop:
	VMOVUPS   (SI)(AX*4), Y2
	VMOVUPS   32(SI)(AX*4), Y3
	VCMPPS    GE, Y0, Y2, Y4
	VCMPPS    GE, Y0, Y3, Y5
	VCMPPS    LE, Y1, Y2, Y2
	VCMPPS    LE, Y1, Y3, Y3
	VANDPS    Y2, Y4, Y2
	VANDPS    Y3, Y5, Y3
	VORPS     Y2, Y3, Y4
	VMOVMSKPS Y4, R8
	TESTL     R8, R8
	JNZ       found
	ADDQ      $16, AX
	CMPQ      AX, CX
	JLT       loop
	MOVQ      $-1, AX
	JMP       done

found:
	VMOVMSKPS Y2, R8
	VMOVMSKPS Y3, R9
	SHLQ      $8, R9
	ORQ       R9, R8
	BSFQ      R8, R8
	ADDQ      R8, AX

done:
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

// func weightSumRoundsAVX512(x *float32, n int, most, scale float64, bar float32) float64
// Values below bar run through the arithmetic, whatever comes of it, and are not added.
TEXT ·weightSumRoundsAVX512(SB), NOSPLIT, $0-48
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	VBROADCASTSD most+16(FP), Z0
	VBROADCASTSD scale+24(FP), Z1
	VBROADCASTSS bar+32(FP), Y2
	VBROADCASTSD ·expConstants+0(SB), Z3
	VBROADCASTSD ·expConstants+8(SB), Z4
	VBROADCASTSD ·expConstants+16(SB), Z5
	VBROADCASTSD ·expConstants+24(SB), Z6
	VBROADCASTSD ·expConstants+32(SB), Z7
	VBROADCASTSD ·expConstants+40(SB), Z8
	VBROADCASTSD ·expConstants+48(SB), Z9
	VBROADCASTSD ·expConstants+56(SB), Z10
	VBROADCASTSD ·expConstants+64(SB), Z11
	VBROADCASTSD ·expConstants+72(SB), Z12
	VBROADCASTSD ·expConstants+80(SB), Z13
	VBROADCASTSD ·expConstants+88(SB), Z14
	VBROADCASTSD ·expConstants+96(SB), Z15
	VBROADCASTSD ·expConstants+104(SB), Z16
	VPXORQ       Z17, Z17, Z17

loop:
	VMOVUPS     (SI), Y18
	VCMPPS      GE, Y2, Y18, K1
	VCVTPS2PD   Y18, Z19
	VSUBPD      Z0, Z19, Z19
	VMULPD      Z1, Z19, Z19  // the argument
	VMOVAPD     Z19, Z20
	VFMADD213PD Z4, Z3, Z20   // rounded
	VSUBPD      Z4, Z20, Z21
	VFMADD231PD Z5, Z21, Z19  // the rest
	VMULPD      Z19, Z19, Z23 // its square
	VMOVAPD     Z6, Z22
	VMOVAPD     Z7, Z24
	VFMADD213PD Z8, Z23, Z22
	VFMADD213PD Z9, Z23, Z24
	VFMADD213PD Z10, Z23, Z22
	VFMADD213PD Z11, Z23, Z24
	VFMADD213PD Z12, Z23, Z22
	VFMADD213PD Z13, Z23, Z24
	VFMADD213PD Z14, Z23, Z22
	VFMADD213PD Z15, Z23, Z24
	VFMADD213PD Z16, Z23, Z22
	VFMADD231PD Z24, Z19, Z22
	VPSLLQ      $52, Z20, Z20
	VPADDQ      Z20, Z22, Z22
	VADDPD      Z22, Z17, K1, Z17
	ADDQ        $32, SI
	SUBQ        $8, CX
	JNZ         loop

	VEXTRACTF64X4 $1, Z17, Y1
	VADDPD        Y1, Y17, Y1
	VEXTRACTF128  $1, Y1, X2
	VADDPD        X2, X1, X1
	VPERMILPD     $1, X1, X2
	VADDSD        X2, X1, X1
	VMOVSD        X1, ret+40(FP)
	VZEROUPPER
	RET

// TERM adds one constant to the series of both halves, whose squares are Y12 and Y13.
#define TERM(at, a, b) \
	VBROADCASTSD ·expConstants+at(SB), Y5 \
	VFMADD213PD  Y5, Y12, a               \
	VFMADD213PD  Y5, Y13, b

// func weightSumRoundsAVX2(x *float32, n int, most, scale float64, bar float32) float64
TEXT ·weightSumRoundsAVX2(SB), NOSPLIT, $0-48
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	VBROADCASTSD most+16(FP), Y0
	VBROADCASTSD scale+24(FP), Y1
	VBROADCASTSS bar+32(FP), Y2
	VXORPD       Y14, Y14, Y14
	VXORPD       Y15, Y15, Y15

loop:
	VMOVUPS      (SI), X6
	VMOVUPS      16(SI), X7
	VCVTPS2PD    X6, Y6
	VCVTPS2PD    X7, Y7
	VSUBPD       Y0, Y6, Y6
	VSUBPD       Y0, Y7, Y7
	VMULPD       Y1, Y6, Y6                 // the arguments
	VMULPD       Y1, Y7, Y7
	VBROADCASTSD ·expConstants+0(SB), Y3
	VBROADCASTSD ·expConstants+8(SB), Y4
	VBROADCASTSD ·expConstants+16(SB), Y5
	VMOVAPD      Y6, Y8
	VMOVAPD      Y7, Y9
	VFMADD213PD  Y4, Y3, Y8                 // rounded
	VFMADD213PD  Y4, Y3, Y9
	VSUBPD       Y4, Y8, Y10
	VSUBPD       Y4, Y9, Y11
	VFMADD231PD  Y5, Y10, Y6                // the rests
	VFMADD231PD  Y5, Y11, Y7
	VMULPD       Y6, Y6, Y12                // their squares
	VMULPD       Y7, Y7, Y13
	VBROADCASTSD ·expConstants+24(SB), Y10  // even powers
	VBROADCASTSD ·expConstants+32(SB), Y3   // odd ones
	VMOVAPD      Y10, Y11
	VMOVAPD      Y3, Y4
	TERM(40, Y10, Y11)
	TERM(48, Y3, Y4)
	TERM(56, Y10, Y11)
	TERM(64, Y3, Y4)
	TERM(72, Y10, Y11)
	TERM(80, Y3, Y4)
	TERM(88, Y10, Y11)
	TERM(96, Y3, Y4)
	TERM(104, Y10, Y11)
	VFMADD231PD  Y3, Y6, Y10
	VFMADD231PD  Y4, Y7, Y11
	VPSLLQ       $52, Y8, Y8
	VPSLLQ       $52, Y9, Y9
	VPADDQ       Y8, Y10, Y10
	VPADDQ       Y9, Y11, Y11
	VCMPPS       LE, (SI), X2, X6       // bar <= value
	VCMPPS       LE, 16(SI), X2, X7
	VPMOVSXDQ    X6, Y6
	VPMOVSXDQ    X7, Y7
	VANDPD       Y6, Y10, Y10
	VANDPD       Y7, Y11, Y11
	VADDPD       Y10, Y14, Y14
	VADDPD       Y11, Y15, Y15
	ADDQ         $32, SI
	SUBQ         $8, CX
	JNZ          loop

	VADDPD       Y15, Y14, Y1
	VEXTRACTF128 $1, Y1, X2
	VADDPD       X2, X1, X1
	VPERMILPD    $1, X1, X2
	VADDSD       X2, X1, X1
	VMOVSD       X1, ret+40(FP)
	VZEROUPPER
	RET
