package check

import (
	"fmt"

	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// tightPercent of the granted ticks is where a usual call gets a note: others
// are larger than usual.
const tightPercent = 50

// refusedNote takes how many usual requests were refused, and why the last one was.
const refusedNote = "%d usual requests of its protocol are refused, so their ticks say little: %s"

// ticks measures the usual calls, each on a fresh instance, against what the
// host grants them.
func (ck *checker) ticks(s *Stage) {
	ck.report.Ticks = []Ticks{}
	refused, why := 0, ""
	for _, c := range ck.samples {
		b := ck.sandbox(ck.o.Config)
		frame, used, err := b.call(c.Op, c.In)
		if b.g != nil {
			ck.report.Memory.Max = max(ck.report.Memory.Max, b.g.MemoryBytes())
		}
		b.close()
		budget := ck.Budget(c.Op, len(c.In))
		if err != nil {
			s.fix(probe.FixUnanswered, "%s: %v", c.Name, err)
			continue
		}
		if p := c.Wrong(frame, ck.Framing); p != nil {
			s.fix(p.Fix, "%s", p.What)
		}
		if text := refusal(c, frame); text != "" {
			refused, why = refused+1, text
		}
		ck.report.Ticks = append(ck.report.Ticks, Ticks{c.Name, c.Op.String(), len(c.In), used, budget})
		if used*100 > budget*tightPercent {
			s.note("%s takes %d of the %d ticks that are granted; a larger one will fail. "+
				"ticks.call and ticks.per_kb in the manifest ask for more", c.Name, used, budget)
		}
	}
	s.Summary = fmt.Sprintf("%d usual calls, the dearest takes %s of its ticks", len(ck.report.Ticks), ck.dearest().share())
	if refused > 0 {
		s.note(refusedNote, refused, why)
	} else if perKB, ok := ck.perKB(); ok {
		s.Summary += fmt.Sprintf("; a request takes %d ticks per KB", perKB)
	}
}

// dearest is the call that takes the largest part of its ticks.
func (ck *checker) dearest() (d Ticks) {
	d.Budget = 1
	for _, t := range ck.report.Ticks {
		if float64(t.Ticks)/float64(t.Budget) >= float64(d.Ticks)/float64(d.Budget) {
			d = t
		}
	}
	return d
}

// refusal is why a module does not take a usual request; "" when it does.
func refusal(c probe.Call, frame []byte) string {
	out, err := abi.ParseOutput(frame)
	if c.Op != abi.OpRequest || c.Mistake || err != nil || out.Status == abi.StatusOK {
		return ""
	}
	if r, err := abi.ParseRefusal(out.Payload); err == nil && out.Status == abi.StatusError {
		return abi.Located(r.Param, r.Msg)
	}
	return "declined"
}

// perKB is the slope between the smallest and the largest usual request.
func (ck *checker) perKB() (int64, bool) {
	var first, last *Ticks
	for i := range ck.report.Ticks {
		t := &ck.report.Ticks[i]
		if t.Op != abi.OpRequest.String() || t.InputBytes < 500 {
			continue
		}
		if first == nil {
			first = t
		}
		last = t
	}
	if first == nil || last.InputBytes <= first.InputBytes {
		return 0, false
	}
	return (last.Ticks - first.Ticks) * 1024 / int64(last.InputBytes-first.InputBytes), true
}

// Memory may grow while a guest's heap settles: the calls go on until it has
// not grown for half of Options.Calls, for at most patience times as many.
const (
	patience = 10
	// replacedAt is how many times its first memory an instance may have before
	// a node replaces it.
	replacedAt = 4
)

// memory repeats the usual small calls on one instance until its memory stays.
func (ck *checker) memory(s *Stage) {
	g, err := ck.Open(ck.o.Config)
	if err != nil {
		s.fix("every instance must open", "%v", err)
		return
	}
	defer g.Close()
	m := &ck.report.Memory
	m.Last = g.MemoryBytes()
	calls := ck.small()
	settled := func() bool { return m.Calls >= ck.o.Calls && m.Calls-m.GrewAt >= ck.o.Calls/2 }
	for len(calls) > 0 && !settled() && m.Calls < patience*ck.o.Calls {
		c := calls[m.Calls%len(calls)]
		m.Calls++
		if _, _, err := g.Call(c.Op, c.In); err != nil {
			s.fix("an instance must serve any number of calls", "%s, as call %d of one instance: %v", c.Name, m.Calls, err)
			return
		}
		if now := g.MemoryBytes(); now > m.Last {
			m.Last, m.GrewAt = now, m.Calls
		}
	}
	s.Summary = fmt.Sprintf("%d KB when opened, %d KB after %d small calls, at most %d KB for a large one", m.First>>10,
		m.Last>>10, m.Calls, m.Max>>10)
	if m.GrewAt > 0 {
		s.Summary += fmt.Sprintf(", the last growth at call %d", m.GrewAt)
	}
	if !settled() && len(calls) > 0 {
		s.fix("give back or reuse what a call takes: a node replaces an instance that grows, which costs time",
			"memory still grows after %d calls, from %d to %d bytes", m.Calls, m.First, m.Last)
	} else if m.Last > replacedAt*m.First {
		s.fix("link it with more initial memory, or take less",
			"memory grows from %d to %d bytes in small calls; a node replaces an instance once it has %d times its first memory",
			m.First, m.Last, replacedAt)
	}
}

// smallBytes bounds the calls that are repeated thousands of times.
const smallBytes = 12 << 10

func (ck *checker) small() (some []probe.Call) {
	for _, c := range ck.samples {
		if len(c.In) <= smallBytes && !ck.faults(c) {
			some = append(some, c)
		}
	}
	return some
}

// faults says whether a usual call fails by itself, which stage ticks tells.
func (ck *checker) faults(c probe.Call) bool {
	b := ck.sandbox(ck.o.Config)
	defer b.close()
	_, _, err := b.call(c.Op, c.In)
	return err != nil
}
