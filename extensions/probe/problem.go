package probe

import "fmt"

// Problem is a rule that a module breaks, and what its author can do.
type Problem struct{ What, Fix string }

func problemf(fix, format string, args ...any) *Problem {
	return &Problem{fmt.Sprintf(format, args...), fix}
}

// What must be done about the problems of usual calls. Package check says the same.
const (
	FixUnanswered = "a usual call must be answered, declined or refused"
	FixDeclined   = "answer what follows a request that is taken, and every error: who declines it leaves the client with nothing"
	FixMalformed  = "write what the protocol's clients read"
	FixDepends    = "a call must depend on its input only: keep nothing between calls, and what is reused clear in Go and C, " +
		"and make anew in each call in Rust and AssemblyScript"
)
