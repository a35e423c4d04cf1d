package meter

import (
	"fmt"
	"strings"
)

// Error says why a module is refused, and where.
type Error struct {
	Section string // name of the section, such as "code"; empty for the module as a whole
	Func    int    // function index, imports included; -1 outside functions
	Offset  int    // in bytes from the start of the module; -1 where there is none
	Msg     string
	Fix     string // what the author of the module can do; may be empty
}

// Error says where, what and how to mend it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("module")
	if e.Section != "" {
		fmt.Fprintf(&b, ": %s section", e.Section)
	}
	if e.Func >= 0 {
		fmt.Fprintf(&b, ", function %d", e.Func)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, ", offset %#x", e.Offset)
	}
	b.WriteString(": " + e.Msg)
	if e.Fix != "" {
		fmt.Fprintf(&b, " (%s)", e.Fix)
	}
	return b.String()
}

// Advice that fits more than one error.
const (
	fixRebuild   = "the file is damaged or was made by a tool with a fault: build it again"
	fixTarget    = "build for core WebAssembly 2.0 with SIMD: no threads, tail calls, exceptions, multiple memories or 64-bit memory"
	fixSmaller   = "split the function or the module"
	fixNoImports = "define it in the module; only functions may be imported"
)
