package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// trial is what is run of a module before it may serve: its instances, its
// golden vectors and one usual call of each operation. It ends when it takes
// too long, by ticks, which are the same on every machine, and by the processor
// time of this thread, because a tick can be made to take long; and when its
// caller leaves. A trial belongs to one goroutine, which is bound to its thread.
type trial struct {
	ctx    context.Context
	module *Module
	own    []byte // the configuration that the module is to serve with
	ticks  int64  // that it may take
	spent  int64  // so far; a start that did not succeed is all of its ticks
	// began is the processor time that the thread had used; nil where no such clock is, or no bound of it.
	began func() time.Duration

	unserved bool // the module never served: its vectors are run in every way, and held to the rules of calls

	config   []byte // of instance
	instance *Instance

	costs [len(opsCounted)]costSums // what its calls took
}

// trialTimeMax bounds the processor time of a trial of what never served.
const trialTimeMax = 5 * time.Second

// errTrialTime ends a trial that takes too much processor time.
var errTrialTime = fmt.Errorf("trying the module took more than %v of processor time", trialTimeMax)

// newTrial begins a trial of at most so many ticks; end ends it. The caller has
// locked its goroutine to its thread.
func newTrial(ctx context.Context, m *Module, config []byte, ticks int64) *trial {
	return &trial{ctx: ctx, module: m, own: config, ticks: ticks, began: threadTime()}
}

// stop says why the trial must end now; nil is go on. The guest's memory asks
// it at every safepoint.
func (t *trial) stop() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if t.began != nil && t.began() > trialTimeMax {
		return errTrialTime
	}
	if t.spent > t.ticks {
		return fmt.Errorf("the vectors and first calls of a module may take %d million ticks together", t.ticks/1_000_000)
	}
	return nil
}

// open makes an instance with a configuration, whose calls are the trial's.
func (t *trial) open(config []byte) (*Instance, error) {
	if err := t.stop(); err != nil {
		return nil, err
	}
	i, err := t.module.start(start{config: config, stop: t.stop, tried: true})
	if err != nil {
		t.spent += ticksInit
		return nil, err
	}
	t.spent += ticksInit - i.remaining()
	return i, nil
}

// run does one op on an instance of the trial, which is closed after a fault.
func (t *trial) run(i *Instance, op abi.Op, in []byte) ([]byte, error) {
	if err := t.stop(); err != nil {
		return nil, err
	}
	in = i.manifest.Record(op, in)
	i.linear.watch.reset()
	index := opIndex(op)
	frame, f := i.run(op, index, in)
	t.spent += int64(i.ticks)
	t.costs[index].add(costSums{calls: 1, cpu: i.linear.watch.end()}, math.MaxUint64)
	if f != nil {
		i.Close()
		return nil, f
	}
	return bytes.Clone(frame), nil
}

// call runs ops on one instance of a configuration, made when it is first
// needed. After a fault the calls of that vector are over.
func (t *trial) call(config []byte) (vector.Call, error) {
	if t.instance != nil && !bytes.Equal(t.config, config) {
		t.close()
	}
	if t.instance == nil {
		i, err := t.open(config)
		if err != nil {
			return nil, err
		}
		t.instance, t.config = i, config
	}
	return func(op abi.Op, in []byte) ([]byte, error) {
		if t.instance == nil {
			return nil, errors.New("an earlier call of it failed")
		}
		frame, err := t.run(t.instance, op, in)
		if errors.As(err, new(*Fault)) {
			t.instance = nil
		}
		return frame, err
	}, nil
}

// fresh runs one op on an instance of its own.
func (t *trial) fresh(op abi.Op, in []byte) ([]byte, error) {
	i, err := t.open(t.own)
	if err != nil {
		return nil, err
	}
	frame, err := t.run(i, op, in)
	if !errors.As(err, new(*Fault)) {
		i.Close()
	}
	return frame, err
}

func (t *trial) close() {
	if t.instance != nil {
		t.instance.Close()
		t.instance = nil
	}
}

// vectors runs the golden vectors that a module carries, and says how many
// there are. A vector with a configuration of its own gets an instance of its own.
func (t *trial) vectors() (int, error) {
	section, err := t.module.Vectors()
	if err != nil || section == nil {
		return 0, err
	}
	all, err := vector.Parse(section)
	if err != nil {
		return 0, Refused("vectors", "corenode module check shows the same offline", "%w", err)
	}
	defer t.close()
	failures, first := 0, error(nil)
	for i := range all {
		v := &all[i]
		call, err := t.call(v.ConfigBytes())
		switch {
		case err != nil:
		case t.unserved:
			err = v.Run(t.ruled(call), t.module.Manifest.History)
		default:
			err = v.RunServed(call, t.module.Manifest.History)
		}
		if err == nil {
			continue
		}
		if failures++; failures == 1 {
			first = fmt.Errorf("vector %q: %w", v.Name, err)
		}
		if t.stop() != nil {
			break
		}
	}
	if failures > 0 {
		return len(all), Refused("vectors", "corenode module check shows all of them",
			"%d of %d golden vectors fail, the first: %w", failures, len(all), first)
	}
	return len(all), nil
}

// ruled is call whose output is held to what every call is held to that serves.
func (t *trial) ruled(call vector.Call) vector.Call {
	m := t.module.Manifest.Probed()
	return func(op abi.Op, in []byte) ([]byte, error) {
		frame, err := call(op, in)
		if err == nil {
			err = CheckRules(m, op, in, frame)
		}
		return frame, err
	}
}

// probe makes one usual call of each operation, with the configuration that the
// module was given.
func (t *trial) probe() error {
	defer t.close()
	call, err := t.call(t.own)
	if err != nil {
		return err
	}
	m := &t.module.Manifest
	p := probe.Run(probe.Subject{Module: m.Probed(), Call: call, Fresh: t.fresh})
	if p != nil {
		return Refused("probe", p.Fix, "%s", p.What)
	}
	return nil
}

// noVectors is the refusal, or the note, of a module without golden vectors.
const noVectors = "it carries no golden vectors"

// strict is all that a module must pass that never served.
func (t *trial) strict(vectorsRequired bool) (note string, err error) {
	t.unserved = true
	n, err := t.vectors()
	if err != nil {
		return "", t.stopped(err)
	}
	if n == 0 {
		if vectorsRequired {
			return "", Refused("vectors", "write some and pack them: corenode module pack FILE --vectors FOLDER",
				"%s, which a node with modules.trusted_keys requires", noVectors)
		}
		note = noVectors
	}
	return note, t.stopped(t.probe())
}

// stopped tells what ended the trial, where that is not the module's answer.
func (t *trial) stopped(err error) error {
	switch why := t.stop(); {
	case err == nil, why == nil:
		return err
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case errors.Is(why, errTrialTime):
		return Refused("time", "do less in init and in a call: a node tries a module before it serves", "%w", why)
	}
	return err
}
