package template

// scope is the variables of one block; behind them are those of the block
// around it. It belongs to one rendering.
type scope struct {
	around *scope // nil for the outermost
	vars   []variable
	few    [3]variable    // where vars begins: a loop's round has "loop" and its own name
	at     map[string]int // finds in vars by name, once there are more than scopeSearchMax
	kept   bool           // a macro sees it for as long as it lives
}

type variable struct {
	name string
	val  value
}

// scopeSearchMax is up to how many variables one is found by looking at each.
const scopeSearchMax = 16

// inside opens a scope within s.
func (s *scope) inside() *scope {
	inner := &scope{}
	inner.open(s)
	return inner
}

// open makes a new scope one within another.
func (s *scope) open(around *scope) {
	s.around, s.vars = around, s.few[:0]
}

// reset empties a scope for another use; nil for one that is kept.
func (s *scope) reset() *scope {
	if s.kept {
		return nil
	}
	clear(s.vars)
	s.vars, s.at = s.vars[:0], nil
	return s
}

// keep makes a scope, and those around it, outlive the block.
func (s *scope) keep() {
	for ; s != nil && !s.kept; s = s.around {
		s.kept = true
	}
}

// get finds a variable, the innermost of its name; nil when there is none.
func (s *scope) get(name string) value {
	for ; s != nil; s = s.around {
		if i := s.find(name); i >= 0 {
			return s.vars[i].val
		}
	}
	return nil
}

// set makes or changes a variable of this scope, never of one around it.
func (s *scope) set(name string, val value) {
	if i := s.find(name); i >= 0 {
		s.vars[i].val = val
		return
	}
	s.vars = append(s.vars, variable{name, val})
	switch n := len(s.vars); {
	case n <= scopeSearchMax:
	case s.at != nil:
		s.at[name] = n - 1
	default:
		s.at = make(map[string]int, 2*n)
		for i := range s.vars {
			s.at[s.vars[i].name] = i
		}
	}
}

// find returns where in vars a name is, -1 when it is not there.
func (s *scope) find(name string) int {
	if s.at != nil {
		if i, ok := s.at[name]; ok {
			return i
		}
		return -1
	}
	for i := range s.vars {
		if s.vars[i].name == name {
			return i
		}
	}
	return -1
}
