package check

import (
	"bytes"
	"errors"
	"fmt"

	"corenode/extensions/guest"
	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// golden runs every vector on a fresh instance of its configuration, or with
// Update makes what the module gives their wants. A vector of the files stands
// for the one of the same name in the module.
func (ck *checker) golden(s *Stage) {
	embedded, err := []vector.Vector(nil), error(nil)
	if len(ck.Vectors) > 0 {
		embedded, err = vector.Parse(ck.Vectors)
	}
	if err != nil {
		s.fix("pack the module again", "the vectors in the module: %v", err)
	}
	edited := make(map[string]*vector.Vector)
	for _, f := range ck.o.Files {
		for i := range f.Vectors {
			edited[f.Vectors[i].Name] = &f.Vectors[i]
			ck.vectors = append(ck.vectors, &f.Vectors[i])
		}
	}
	ours := len(ck.vectors) // those that may be updated
	for i := range embedded {
		if edited[embedded[i].Name] == nil {
			ck.vectors = append(ck.vectors, &embedded[i])
		}
	}
	ck.runVectors(s, ours)
	b := ck.sandbox(ck.o.Config)
	defer b.close()
	if ck.Own = probe.OwnRequest(ck.Module, ck.vectors, b.frame); ck.Own != nil {
		ck.samples = probe.Calls(ck.Module, b.frame)
		s.note("the usual requests are made of one that a vector has, since it refuses those of its protocol")
	}
	stale := 0
	for i := range embedded {
		if v := edited[embedded[i].Name]; v != nil && !v.Equal(&embedded[i]) {
			stale++
		}
	}
	if stale > 0 {
		s.note("%d vectors in the module are not those of the folder: pack it before you load it", stale)
	}
}

// runVectors runs all vectors; the first ones may be updated.
func (ck *checker) runVectors(s *Stage, ours int) {
	passed, calls, ticks := 0, 0, int64(0)
	for i, v := range ck.vectors {
		update := ck.o.Update && i < ours
		made, was, err := ck.runVector(v, update)
		calls += len(made)
		if update && err == nil && was != nil {
			one := Updated{v.Name, was.Error()}
			ck.report.Updated = append(ck.report.Updated, one)
			s.note("%s", one)
		}
		if err != nil {
			how := "mend the module, or the vector if it is wrong"
			if errors.Is(err, vector.ErrNoWant) {
				how = "let make golden, or module check --vectors FOLDER --update, write it, and read what it wrote"
			}
			s.fix(how, "%q: %v", v.Name, err)
			continue
		}
		passed++
		total := VectorTicks{Name: v.Name, Calls: len(made)}
		for _, e := range made {
			total.Ticks += e.ticks
		}
		ticks += total.Ticks
		ck.report.Vectors = append(ck.report.Vectors, total)
		ck.recorded = append(ck.recorded, made...)
	}
	if len(ck.vectors) == 0 {
		s.fix("write vectors and pack them into the module", "no golden vectors: nothing shows that the module answers right")
	}
	if ticks > guest.VectorTicksMax {
		s.fix("give it fewer vectors, or shorter ones", "the vectors take %d ticks together; a node refuses more than %d",
			ticks, int64(guest.VectorTicksMax))
	}
	s.Summary = fmt.Sprintf("%d of %d pass, in %d calls", passed, len(ck.vectors), calls)
}

// runVector runs one vector and returns the calls that it made. With update its want becomes
// what came; was says what was not as wanted before.
func (ck *checker) runVector(v *vector.Vector, update bool) (made []exchange, was, err error) {
	if err := v.CheckRoute(len(ck.Routes)); err != nil {
		return nil, nil, err
	}
	if ck.CheckConfig != nil {
		if err := ck.CheckConfig(v.ConfigBytes()); err != nil {
			return nil, nil, fmt.Errorf("its config: %w", err)
		}
	}
	b := ck.sandbox(v.ConfigBytes())
	defer b.close()
	call := func(op abi.Op, in []byte) ([]byte, error) {
		frame, ticks, err := b.call(op, in)
		if err == nil {
			err = guest.CheckRules(ck.Module, op, in, frame)
		}
		if err == nil {
			made = append(made, exchange{what: v.Name, config: v.ConfigBytes(), op: op, in: bytes.Clone(in), frame: frame, ticks: ticks})
		}
		return frame, err
	}
	was = v.Run(call, ck.History)
	if !update || was == nil {
		return made, nil, was
	}
	made = nil // only what it is to give from now on is looked at further
	_, err = v.Update(call, ck.History)
	return made, was, err
}

// freshMax is the default of Options.fresh.
const freshMax = 256

// determinism repeats calls on fresh instances and, in the opposite order, on
// one that has seen all the others.
func (ck *checker) determinism(s *Stage) {
	all := ck.distinct()
	const how = probe.FixDepends
	sandboxes := make(map[string]*sandbox) // by configuration
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		used := sandboxes[string(e.config)]
		if used == nil {
			used = ck.sandbox(e.config)
			sandboxes[string(e.config)] = used
			defer used.close()
		}
		ck.repeat(s, how, "a used", used, e)
		fresh := ck.sandbox(e.config)
		ck.repeat(s, how, "a fresh", fresh, e)
		fresh.close()
	}
	s.Summary = fmt.Sprintf("%d calls repeat on fresh and on used instances", len(all))
	if !s.Passed {
		s.Summary = "an answer depends on what was called before"
	}
}

func (ck *checker) repeat(s *Stage, how, which string, b *sandbox, e exchange) {
	frame, _, err := b.call(e.op, e.in)
	switch {
	case err != nil:
		s.fix(how, "%q, op %v, on %s instance: %v", e.what, e.op, which, err)
	case !bytes.Equal(frame, e.frame):
		s.fix(how, "%q, op %v, gives other bytes on %s instance: %s", e.what, e.op, which, probe.FirstDifference(frame, e.frame))
	}
}

// distinct picks at most Options.fresh different calls of the vectors, and the
// usual calls that went well.
func (ck *checker) distinct() []exchange {
	seen := make(map[string]bool)
	var all []exchange
	for _, e := range append(ck.recorded, ck.usual()...) {
		key := string(e.config) + "\x00" + string(rune(e.op)) + string(e.in)
		if !seen[key] {
			seen[key] = true
			all = append(all, e)
		}
	}
	if len(all) <= ck.o.fresh {
		return all
	}
	picked := make([]exchange, ck.o.fresh)
	for i := range picked {
		picked[i] = all[i*len(all)/len(picked)]
	}
	return picked
}

// usual makes the usual calls, in order, on one instance.
func (ck *checker) usual() (all []exchange) {
	b := ck.sandbox(ck.o.Config)
	defer b.close()
	for _, c := range ck.samples {
		if frame, ticks, err := b.call(c.Op, c.In); err == nil {
			all = append(all, exchange{what: c.Name, config: ck.o.Config, op: c.Op, in: c.In, frame: frame, ticks: ticks})
		}
	}
	return all
}
