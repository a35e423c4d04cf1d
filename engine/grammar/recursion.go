package grammar

// recursion finds the choices of which some alternatives lead back to the rule that they are in
// and others do not, such as another node of a list or null. An answer that is to end
// leaves out the former: they could be chosen without end.
type recursion struct {
	*builder
	calls     [][]int32 // of each rule: those it calls, by ways that an answer that is to end has
	group     []int32   // of each rule: rules of a group call each other
	leadsBack []bool    // of each state
}

// descents marks those choices.
func (b *builder) descents() {
	r := &recursion{builder: b}
	owners := r.owners()
	r.groups()
	var work []int32 // states that call a rule of their rule's group
	for at := range b.states {
		if s := &b.states[at]; s.kind == kindCall && owners[at] >= 0 && r.group[s.rule] == r.group[owners[at]] {
			work = append(work, int32(at))
		}
	}
	if len(work) == 0 { // as most often
		return
	}
	r.leadsBack = make([]bool, len(b.states))
	for _, at := range work {
		r.leadsBack[at] = true
	}
	before := make([][]int32, len(b.states)) // the states that go to a state of the same rule
	for at := range b.states {
		for _, to := range r.after(int32(at)) {
			before[to] = append(before[to], int32(at))
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, from := range before[at] {
			if !r.leadsBack[from] {
				r.leadsBack[from] = true
				work = append(work, from)
			}
		}
	}
	for at := range b.states {
		r.mark(&b.states[at])
	}
}

// mark puts the alternatives that lead back first, where there are others.
func (r *recursion) mark(s *state) {
	if s.kind != kindSplit || s.role&(roleRepeats|roleGoesOn) != 0 {
		return
	}
	var back, others []int32
	for _, to := range s.split {
		if r.leadsBack[to] {
			back = append(back, to)
		} else {
			others = append(others, to)
		}
	}
	if len(back) > 0 && len(others) > 0 {
		s.split, s.onward, s.role = append(back, others...), int32(len(back)), s.role|roleRepeats
	}
}

// after are the states of the same rule that a state goes to in an answer that is to end.
func (r *recursion) after(at int32) []int32 {
	switch s := &r.states[at]; s.kind {
	case kindSplit:
		return s.kept(ending)
	case kindBytes, kindMarker, kindCall:
		return []int32{s.next}
	}
	return nil
}

// owners is the rule of each state, -1 for one that none reaches, and fills calls.
func (r *recursion) owners() []int32 {
	owners := make([]int32, len(r.states))
	for i := range owners {
		owners[i] = -1
	}
	r.calls = make([][]int32, len(r.entries))
	var work []int32
	for rule, first := range r.entries {
		work = append(work, first)
		for len(work) > 0 {
			at := work[len(work)-1]
			work = work[:len(work)-1]
			if owners[at] >= 0 {
				continue
			}
			owners[at] = int32(rule)
			if s := &r.states[at]; s.kind == kindCall {
				r.calls[rule] = append(r.calls[rule], s.rule)
			}
			if s := &r.states[at]; s.kind == kindSplit {
				work = append(work, s.kept(ending)...)
			} else if s.kind != kindEnd {
				work = append(work, s.next)
			}
		}
	}
	return owners
}

// groups finds the rules that call each other: the strongly connected components of
// their calls (Tarjan 1972). A rule that does not call itself, by others or not, is in a
// group of its own, and no state of it calls that.
func (r *recursion) groups() {
	n := len(r.entries)
	r.group = make([]int32, n)
	number, least, open := make([]int32, n), make([]int32, n), make([]bool, n)
	type visit struct {
		rule int32
		next int // of its calls
	}
	var stack []int32
	count := int32(0)
	for root := range r.group {
		if number[root] > 0 {
			continue
		}
		for path := []visit{{rule: int32(root)}}; len(path) > 0; {
			v := &path[len(path)-1]
			if v.next == 0 {
				count++
				number[v.rule], least[v.rule], open[v.rule] = count, count, true
				stack = append(stack, v.rule)
			}
			if v.next < len(r.calls[v.rule]) {
				to := r.calls[v.rule][v.next]
				if v.next++; number[to] == 0 {
					path = append(path, visit{rule: to})
				} else if open[to] {
					least[v.rule] = min(least[v.rule], number[to])
				}
				continue
			}
			done := v.rule
			if path = path[:len(path)-1]; len(path) > 0 {
				above := path[len(path)-1].rule
				least[above] = min(least[above], least[done])
			}
			for least[done] == number[done] {
				last := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				open[last], r.group[last] = false, done
				if last == done {
					break
				}
			}
		}
	}
}
