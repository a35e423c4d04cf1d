package interp

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
	class byte // 'b', 'u', 's', 'f' as in PTX; 'p' is a predicate
	bits  int
}

// kinds are the types by name. Packed pairs count as one value of their width.
var kinds = map[string]kind{
	"pred": {'p', 1},
	"b8":   {'b', 8}, "b16": {'b', 16}, "b32": {'b', 32}, "b64": {'b', 64},
	"u8": {'u', 8}, "u16": {'u', 16}, "u32": {'u', 32}, "u64": {'u', 64},
	"s8": {'s', 8}, "s16": {'s', 16}, "s32": {'s', 32}, "s64": {'s', 64},
	"f16": {'f', 16}, "f32": {'f', 32}, "f64": {'f', 64},
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
	for _, m := range s.mods {
		if m == mod {
			return true
		}
	}
	return false
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
	locals     []*symbol
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
