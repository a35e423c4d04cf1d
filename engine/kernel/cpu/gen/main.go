// Command gen writes the kernels of package cpu: kernels_<level>_amd64.s and their
// Go declarations, for the levels avx512, avx2 and amx (which has only what avx512
// lacks), and levels_<level>_amd64.go, the tables of the first two. arm.go and the
// neon files write the same for arm64, whose levels differ in products with codes alone.
// It is a module of its own so that avo is no dependency of the product; the files
// it writes are checked in, and a test compares them with what it writes.
//
//	go run . -dir ..
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// gen emits the kernels of one level. avo's methods come with the Context.
type gen struct {
	*build.Context
	level  string
	wide   bool // 512-bit registers and EVEX encodings
	suffix string
	consts map[string]operand.Mem
	labels int
}

func main() {
	out := flag.String("dir", "..", "folder to write to")
	flag.Parse()
	for _, g := range []*gen{
		{level: "avx512", wide: true, suffix: "AVX512"},
		{level: "avx2", suffix: "AVX2"},
		{level: "amx", wide: true, suffix: "AMX"},
	} {
		g.Context, g.consts = build.NewContext(), map[string]operand.Mem{}
		if g.level == "amx" {
			g.bandConstants()
			g.superConstants()
			g.bands()
			g.prompts()
			g.talls()
		} else {
			g.constants()
			g.superConstants()
			g.matMuls()
			g.readStreams()
			g.fetchLines()
			if g.wide {
				g.matVecs()
				g.words()
				g.unpackConstants()
				g.biasedBands()
			} else {
				g.narrowVecs()
			}
			g.attention()
			g.delta()
			g.deltaParts()
			g.products()
			g.vectors()
			if err := g.writeLevel(*out, "amd64"); err != nil {
				log.Fatal(err)
			}
		}
		if err := g.write(*out); err != nil {
			log.Fatal(err)
		}
	}
	if err := writeArm(*out); err != nil {
		log.Fatal(err)
	}
}

// write compiles what was emitted and prints both files.
func (g *gen) write(dir string) error {
	f, err := g.Result()
	if err != nil {
		build.LogError(log.Default(), err, 0)
		return err
	}
	for _, fn := range f.Functions() { // one by one, to name the one that fails
		one := ir.NewFile()
		one.AddSection(fn)
		if err := pass.Compile.Execute(one); err != nil {
			return fmt.Errorf("%s: %w", fn.Name, err)
		}
	}
	if err := pass.IncludeTextFlagHeader(f); err != nil {
		return err
	}
	cfg := printer.Config{Name: "go run ./gen", Pkg: "cpu"}
	base := filepath.Join(dir, "kernels_"+g.level+"_amd64")
	for ext, p := range map[string]printer.Printer{".s": printer.NewGoAsm(cfg), ".go": printer.NewStubs(cfg)} {
		b, err := p.Print(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(base+ext, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// function starts a kernel: its name gets the level's suffix.
func (g *gen) function(name, signature, doc string) {
	full := name + g.suffix
	g.Function(full)
	g.labels = 0 // labels are the function's own: a new kernel changes no other
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr(signature)
	g.Doc(full+" "+doc, "")
	g.Pragma("noescape")
}

// finish ends a kernel.
func (g *gen) finish() {
	g.VZEROUPPER()
	g.RET()
}

// arg loads a parameter into a register.
func (g *gen) arg(name string) reg.GPVirtual {
	r := g.GP64()
	g.Load(g.Param(name), r)
	return r
}

// lanes is the number of float32 in a register.
func (g *gen) lanes() int {
	if g.wide {
		return 16
	}
	return 8
}

// vec is a fresh vector register.
func (g *gen) vec() reg.VecVirtual {
	if g.wide {
		return g.ZMM()
	}
	return g.YMM()
}

func (g *gen) vecs(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = g.vec()
	}
	return v
}

// zero clears registers. It is emitted by hand because avo takes the wide form
// for one that reads its operands, which would keep them alive from the start.
func (g *gen) zero(v ...reg.VecVirtual) {
	opcode := "VPXOR"
	if g.wide {
		opcode = "VPXORD"
	}
	for _, r := range v {
		g.Instruction(&ir.Instruction{Opcode: opcode, Operands: []operand.Op{r, r, r}, Outputs: []operand.Op{r}})
	}
}

// loop runs body while count, a register, is above zero; body must not change
// it. It is tested before the first round.
func (g *gen) loop(count reg.GPVirtual, body func()) {
	g.labels++
	head, end := fmt.Sprintf("loop%d", g.labels), fmt.Sprintf("end%d", g.labels)
	g.TESTQ(count, count)
	g.JLE(operand.LabelRef(end))
	g.Label(head)
	body()
	g.DECQ(count)
	g.JNZ(operand.LabelRef(head))
	g.Label(end)
}

// mem is base + displacement.
func mem(base reg.Register, at int) operand.Mem { return operand.Mem{Base: base, Disp: at} }

// constants defines the constants of the level, each as wide as a register.
func (g *gen) constants() {
	for _, c := range []struct {
		name string
		bits uint32
	}{
		{"one", 0x3f800000}, {"abs", 0x7fffffff}, {"sign", 0x80000000}, {"neginf", 0xff800000}, {"c127", 0x42fe0000},
		{"topmin", 0x0da24260},                         // 1e-30
		{"expmin", 0xc2aeac50}, {"expmax", 0x42b0c0a5}, // -87.33655, 88.37626
		{"log2e", 0x3fb8aa3b}, {"ln2hi", 0x3f317200}, {"ln2lo", 0x35bfbe8e},
		{"exp2", 0x3f000000}, {"exp3", 0x3e2aaaab}, {"exp4", 0x3d2aaaab}, {"exp5", 0x3c088889},
		{"exp6", 0x3ab60b61}, {"exp7", 0x39500d01}, // 1/n!
		{"two", 0x40000000}, {"third", 0x3eaaaaab}, {"fifth", 0x3e4ccccd}, {"seventh", 0x3e124925}, {"ninth", 0x3de38e39},
		{"eleventh", 0x3dba2e8c}, {"thirteenth", 0x3d9d89d9},
		{"softmin", 0xc2ad3333}, {"round", 0x4b400000}, // -86.6, 1.5·2^23
		{"bias", 127}, {"halfmax", 0x477fe000}, // 65504
		{"nibbles", 0x0f0f0f0f}, {"bit7", 0x80808080}, {"bit4", 0x10101010},
		{"bits45", 0x30303030}, {"bits5", 0x1f1f1f1f}, {"bits6", 0x3f3f3f3f}, {"ones16", 0x00010001},
	} {
		g.constant(c.name, g.repeat(c.bits))
	}
	g.constant("order", quantizeOrder)
}

// repeat fills a register.
func (g *gen) repeat(bits uint32) []uint32 {
	words := make([]uint32, g.lanes())
	for i := range words {
		words[i] = bits
	}
	return words
}

// constant defines one constant.
func (g *gen) constant(name string, words []uint32) {
	g.consts[name] = g.StaticGlobal(name + "_" + g.level)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, w := range words {
		g.AddDatum(4*i, operand.U32(w))
	}
}

// c is a constant as a memory operand of full width.
func (g *gen) c(name string) operand.Mem {
	m, ok := g.consts[name]
	if !ok {
		panic("no constant " + name)
	}
	return m
}

// fmaBroadcast is acc += v · the float at m in every lane.
func (g *gen) fmaBroadcast(m operand.Mem, v, acc reg.VecVirtual) {
	if g.wide {
		g.VFMADD231PS_BCST(m, v, acc)
		return
	}
	t := g.vec()
	g.VBROADCASTSS(m, t)
	g.VFMADD231PS(t, v, acc)
}

// vnni emits acc += Σ4 w(unsigned) · m(signed), m being four bytes in every
// lane. avo's tables lack the instruction.
func (g *gen) vnni(m operand.Mem, w, acc reg.VecVirtual) {
	g.Instruction(&ir.Instruction{
		Opcode:   "VPDPBUSD",
		Suffixes: []string{"BCST"},
		Operands: []operand.Op{m, w, acc},
		Inputs:   []operand.Op{m, w, acc},
		Outputs:  []operand.Op{acc},
	})
}

// vnniReg emits acc += Σ4 w(unsigned) · x(signed).
func (g *gen) vnniReg(x, w, acc reg.VecVirtual) {
	g.Instruction(&ir.Instruction{
		Opcode:   "VPDPBUSD",
		Operands: []operand.Op{x, w, acc},
		Inputs:   []operand.Op{x, w, acc},
		Outputs:  []operand.Op{acc},
	})
}

// loadHalves widens lanes() float16 at m.
func (g *gen) loadHalves(m operand.Mem, v reg.VecVirtual) { g.VCVTPH2PS(m, v) }
