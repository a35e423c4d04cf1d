package check

import (
	"errors"
	"fmt"

	"corenode/extensions/vector"
)

// nativeShown bounds the differences that are shown: to differ is what most
// modules are for.
const nativeShown = 3

// native compares the module with the shipped native build of its slot, as
// information: nothing here must be fixed.
func (ck *checker) native(s *Stage) {
	if ck.Native == nil {
		s.Skipped = true
		return
	}
	same := 0
	for _, v := range ck.vectors {
		err := v.Run(ck.Native, ck.History)
		if errors.Is(err, vector.ErrNoWant) {
			continue
		}
		if err == nil {
			same++
			continue
		}
		if len(s.Findings) == nativeShown {
			s.More++
			continue
		}
		s.note("%q, on the module that ships: %v", v.Name, err)
	}
	s.Summary = fmt.Sprintf("only to know: the module that ships gives the same for %d of the %d vectors", same, len(ck.vectors))
}
