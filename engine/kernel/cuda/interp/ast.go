package interp

import "slices"

// space is a PTX state space.
type space uint8

const (
	generic space = iota
	global
	shared
	local
	param
	constant
)

// kind is a fundamental type: what its bits mean and how many they are.
type kind struct {
	class byte // 'b', 'u', 's', 'f' as in PTX; 'p' is a predicate; 'h', 'e', 'q', 't' are bf16, e4m3, e5m2, tf32
	bits  int
	pair  bool // two values in one register
}

func (k kind) float() bool {
	return k.class != 'b' && k.class != 'u' && k.class != 's' && k.class != 'p'
}

// single says that it is float32.
func (k kind) single() bool { return k.class == 'f' && k.bits == 32 && !k.pair }

func (k kind) mask() uint64 { return ^uint64(0) >> (64 - k.bits) }

// kinds are the types by name. Packed pairs count as one value of their width.
var kinds = map[string]kind{
	"pred": {class: 'p', bits: 1},
	"b8":   {class: 'b', bits: 8}, "b16": {class: 'b', bits: 16}, "b32": {class: 'b', bits: 32}, "b64": {class: 'b', bits: 64},
	"u8": {class: 'u', bits: 8}, "u16": {class: 'u', bits: 16}, "u32": {class: 'u', bits: 32}, "u64": {class: 'u', bits: 64},
	"s8": {class: 's', bits: 8}, "s16": {class: 's', bits: 16}, "s32": {class: 's', bits: 32}, "s64": {class: 's', bits: 64},
	"f16": {class: 'f', bits: 16}, "f32": {class: 'f', bits: 32}, "f64": {class: 'f', bits: 64},
	"bf16": {class: 'h', bits: 16}, "tf32": {class: 't', bits: 32},
	"e4m3": {class: 'e', bits: 8}, "e5m2": {class: 'q', bits: 8},
	"f16x2": {class: 'f', bits: 32, pair: true}, "bf16x2": {class: 'h', bits: 32, pair: true},
	"e4m3x2": {class: 'e', bits: 16, pair: true}, "e5m2x2": {class: 'q', bits: 16, pair: true},
}

// symbol is a variable: a register, or memory of a space.
type symbol struct {
	name  string
	kind  kind
	space space
	reg   bool
	slot  int    // register: its place in the file of its class
	size  int    // memory: bytes
	align int    // memory
	at    uint64 // memory: offset in its space
	init  []byte // module memory: its first value, nil without
}

// operandForm says what an operand is.
type operandForm uint8

const (
	regOperand operandForm = iota
	immOperand
	memOperand  // address, with coordinates for a tensor
	listOperand // vector
	nameOperand // label or function
	addrOperand // address of a variable
	noneOperand // "_", a sink
)

// operand is one argument of an instruction as it is written.
type operand struct {
	form    operandForm
	sym     *symbol
	special string // %tid.x and the like
	not     bool   // !p
	imm     uint64 // immOperand; memOperand: the offset; addrOperand too
	float   byte   // immOperand: 'f' for 32 bits, 'd' for 64, 0 for an integer
	list    []operand
	label   string
	pair    *operand // p of "d|p"
}

// statement is one instruction.
type statement struct {
	line     int
	text     string // the instruction's name with its modifiers
	op       string // the name
	mods     []string
	guard    *symbol
	guardNot bool
	args     []operand
	target   int // branch: index of the statement
}

// has says whether the instruction carries a modifier.
func (s *statement) has(mod string) bool {
	return slices.Contains(s.mods, mod)
}

// kindAt returns the i-th type among the modifiers, counted from the end: 0 is the last.
func (s *statement) kindAt(i int) (kind, bool) {
	for j := len(s.mods) - 1; j >= 0; j-- {
		if k, ok := kinds[s.mods[j]]; ok {
			if i == 0 {
				return k, true
			}
			i--
		}
	}
	return kind{}, false
}

// entry is a kernel as it is written.
type entry struct {
	name       string
	params     []*symbol
	paramBytes int
	body       []statement
	regs       int // registers
	preds      int // predicates
	localBytes int
	shared     []*symbol // of the body; those of the module are in its file
	threadsMax int       // .maxntid, 0 without
	exact      [3]int    // .reqntid
}

// file is a module as it is written.
type file struct {
	target  string
	symbols []*symbol
	entries []*entry
}

// specials are the special registers that a kernel may read.
var specials = map[string]special{
	"%tid.x": tidX, "%tid.y": tidY, "%tid.z": tidZ, "%ntid.x": ntidX, "%ntid.y": ntidY, "%ntid.z": ntidZ,
	"%ctaid.x": ctaidX, "%ctaid.y": ctaidY, "%ctaid.z": ctaidZ, "%nctaid.x": nctaidX, "%nctaid.y": nctaidY, "%nctaid.z": nctaidZ,
	"%laneid": laneID, "%warpid": warpID, "%lanemask_eq": maskEq, "%lanemask_lt": maskLt, "%lanemask_le": maskLe,
	"%lanemask_gt": maskGt, "%lanemask_ge": maskGe, "%dynamic_smem_size": dynamicSize,
}

// special is a special register.
type special uint8

const (
	tidX special = iota
	tidY
	tidZ
	ntidX
	ntidY
	ntidZ
	ctaidX
	ctaidY
	ctaidZ
	nctaidX
	nctaidY
	nctaidZ
	laneID
	warpID
	maskEq
	maskLt
	maskLe
	maskGt
	maskGe
	dynamicSize
)
