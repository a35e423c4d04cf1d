package meter

import "bytes"

// WithCustomSection returns the module with exactly one custom section of that
// name, at its end, holding payload. Other sections stay as they are, byte by
// byte, so doing it again with the same payload changes nothing.
func WithCustomSection(module []byte, name string, payload []byte) ([]byte, error) {
	if _, err := parse(module); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(module)+len(name)+len(payload)+16), preamble...)
	r := &reader{b: module, pos: len(preamble), end: len(module), fn: -1}
	for !r.done() {
		at := r.pos
		id := r.u8()
		content := r.skip(int(r.u32()))
		if id == secCustom {
			c := &reader{b: content, end: len(content), fn: -1}
			if c.name() == name {
				continue
			}
		}
		out = append(out, module[at:r.pos]...)
	}
	content := append(appendVec(nil, []byte(name)), payload...)
	return appendVec(append(out, secCustom), content), nil
}

// CustomSection returns the first custom section of that name in a module, and how many there are. It goes from section to section and
// looks into no other: Inspect says whether they are what they should be. The error is an *Error.
func CustomSection(module []byte, name string) (data []byte, n int, err error) {
	if !bytes.HasPrefix(module, preamble) {
		return nil, 0, &Error{Func: -1, Msg: "not a WebAssembly module", Fix: fixRebuild}
	}
	r := &reader{b: module, pos: len(preamble), end: len(module), fn: -1}
	for !r.done() {
		id := r.u8()
		content := r.skip(int(r.u32()))
		if id != secCustom {
			continue
		}
		c := &reader{b: content, end: len(content), fn: -1}
		if c.name() != name {
			continue
		}
		if n++; n == 1 {
			data = content[c.pos:]
		}
	}
	if r.err != nil {
		return nil, 0, r.err
	}
	return data, n, nil
}

// appendNames appends the names of functions, for the traces of traps, if the
// module has a well-formed list of them. The engine trusts counts in a name
// section, so it gets none that was not checked.
func (m *module) appendNames(out []byte) []byte {
	for _, c := range m.customs {
		if c.Name != "name" {
			continue
		}
		if names, ok := functionNames(c.Data); ok {
			content := appendVec(nil, []byte("name"))
			content = appendVec(append(content, subFunctions), names)
			return appendVec(append(out, secCustom), content)
		}
		return out
	}
	return out
}

// subFunctions is the part of a name section that names functions.
const subFunctions = 1

// functionNames finds the function names in a name section and checks them.
func functionNames(data []byte) (names []byte, ok bool) {
	r := &reader{b: data, end: len(data), fn: -1}
	for !r.done() {
		id := r.u8()
		sub := r.skip(int(r.u32()))
		if id != subFunctions || r.err != nil {
			continue
		}
		s := &reader{b: sub, end: len(sub), fn: -1}
		for n := s.count("names", functionsMax, 2); n > 0; n-- {
			s.u32()
			s.name()
		}
		return sub, s.err == nil && s.done()
	}
	return nil, false
}
