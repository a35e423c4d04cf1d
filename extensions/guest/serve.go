package guest

import (
	"context"
	"runtime"
	"time"
)

// Trial is what a module must pass before it serves.
type Trial struct {
	// Ticks are what its vectors and first calls may take together.
	Ticks int64
	// Strict: it never served, and has to answer one usual call of each
	// operation as well as its golden vectors, within trialTimeMax.
	Strict bool
	// VectorsRequired: it must carry golden vectors, if it is strict.
	VectorsRequired bool

	clock func() time.Duration // of processor time, for tests; nil is that of the thread
}

// Serve runs what must go well before a module may serve, and makes its pool.
// note is what an operator should know though it did go well. The error is a
// *LoadError, or ctx's.
func (m *Module) Serve(ctx context.Context, t Trial, o PoolOptions) (p *Pool, note string, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tr := newTrial(ctx, m, m.options.Config, t.Ticks)
	if t.clock != nil {
		tr.began = t.clock
	}
	if !t.Strict { // it kept the bound where it was new: this machine may be slower, or busier
		tr.began = nil
	}
	first, err := tr.open(m.options.Config)
	if err != nil {
		return nil, "", tr.stopped(err)
	}
	if t.Strict {
		note, err = tr.strict(t.VectorsRequired)
	} else {
		_, err = tr.vectors()
		err = tr.stopped(err)
	}
	if err != nil {
		first.Close()
		return nil, "", err
	}
	first.linear.stop, first.tried = nil, false // it serves
	p = newPool(o, first, func() (*Instance, error) { return m.start(start{config: m.options.Config}) })
	if !m.options.Shipped {
		p.image = first.image()
		own := m.Note()
		p.remake = own != ""
		note = joinNotes(own, note)
	}
	for op, sums := range tr.costs {
		p.costs[op].expect(sums)
	}
	m.info.Custom, m.wasm = nil, nil // they keep the whole file in memory
	return p, note, nil
}

// Try runs what a node with trusted keys runs of a new module before it takes
// it. The error is a *LoadError, as the node would say.
func (m *Module) Try(config []byte) error {
	config, err := Config(config)
	if err == nil {
		err = m.Manifest.CheckConfig(config)
	}
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err = newTrial(context.Background(), m, config, VectorTicksMax).strict(true)
	return err
}

func joinNotes(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// Instance makes an instance that its caller looks at, with a configuration.
func (m *Module) Instance(config []byte) (*Instance, error) {
	config, err := Config(config)
	if err != nil {
		return nil, err
	}
	return m.start(start{config: config, tried: true})
}
