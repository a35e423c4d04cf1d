package piece

import "corenode/wasm/sdk/scan"

// Whole says whether what the call is given is there to its end: nothing at all,
// or an object. Of an answer that ended within a call it is not.
func (c *Call) Whole() bool {
	if len(c.arguments) == 0 {
		return true
	}
	var s scan.Scanner
	s.Reset(scan.Unescape(nil, c.arguments))
	return s.Kind() == scan.Object && s.End()
}
