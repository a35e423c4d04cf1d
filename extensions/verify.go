package extensions

import (
	"bytes"
	"fmt"

	"corenode/extensions/meter"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// verify runs the golden vectors that a module carries. One without any is
// accepted with a note; one whose vectors fail is refused. A vector with a
// configuration of its own gets an instance of its own.
func (h *Host) verify(g *generation, s *starter, info *meter.Info) error {
	section, n := info.CustomSection(vectorsSection)
	if n == 0 {
		g.note = joinNotes(g.note, "it carries no golden vectors")
		return nil
	}
	if n > 1 {
		return refused("vectors", "put all vectors into one array", "the file has %d custom sections %q", n, vectorsSection)
	}
	all, err := vector.Parse(section)
	if err != nil {
		return refused("vectors", "corenode module check shows the same offline", "%w", err)
	}
	run := &vectorRun{generation: g, starter: s}
	defer run.close()
	failures, first := 0, error(nil)
	for i := range all {
		v := &all[i]
		call, err := run.call(v.ConfigBytes())
		if err == nil {
			err = v.Run(call, g.manifest.History)
		}
		if err != nil {
			if failures++; failures == 1 {
				first = fmt.Errorf("vector %q: %w", v.Name, err)
			}
		}
		if failures > 0 && run.spent > VectorTicksMax {
			break
		}
	}
	if failures > 0 {
		return refused("vectors", "corenode module check shows all of them", "%d of %d golden vectors fail, the first: %w", failures, len(all), first)
	}
	return nil
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// vectorRun calls one module for its vectors.
type vectorRun struct {
	generation *generation
	starter    *starter
	config     []byte // of instance
	instance   *instance
	spent      int64 // ticks so far, all of init's for an instance that did not open
}

// call gives the function that runs ops on an instance with this configuration.
func (r *vectorRun) call(config []byte) (vector.Call, error) {
	if r.instance != nil && !bytes.Equal(r.config, config) {
		r.close()
	}
	if r.instance == nil {
		s := *r.starter
		s.config = config
		i, err := s.start()
		if err != nil {
			r.spent += ticksInit
			return nil, err
		}
		r.spent += ticksInit - i.remaining()
		r.instance, r.config = i, config
	}
	return func(op abi.Op, in []byte) ([]byte, error) {
		if r.instance == nil {
			return nil, fmt.Errorf("an earlier op of this vector failed")
		}
		if r.spent > VectorTicksMax {
			return nil, fmt.Errorf("the vectors of a module may take %d million ticks together", VectorTicksMax/1_000_000)
		}
		before := r.instance.done.ticks
		frame, f := r.instance.run(op, in, r.generation.manifest.budget(op, len(in)))
		r.spent += int64(r.instance.done.ticks - before)
		if f != nil {
			r.close()
			return nil, f
		}
		return bytes.Clone(frame), nil
	}, nil
}

func (r *vectorRun) close() {
	if r.instance != nil {
		r.instance.close()
		r.instance = nil
	}
}
