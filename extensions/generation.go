package extensions

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"corenode/extensions/compare"
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// handler is the native build of a module; it has no memory between calls.
type handler = func(op abi.Op, in, dst []byte) []byte

// generation is one loaded version of a module: compiled code with a pool of
// instances, or a native handler. It is closed when it is retired and its last
// user has gone; the verbs that load and activate are one of its users.
type generation struct {
	number   int // counts up as modules are loaded; 0 = native
	digest   string
	manifest guest.Manifest
	shipped  bool
	signedBy string // base64 of the key, "" = unsigned
	loaded   time.Time
	compile  time.Duration
	size     int    // of the module file
	note     string // what an operator should know though it was accepted
	native   handler
	module   *guest.Module // nil with a native build
	pool     *guest.Pool   // likewise
	throttle *throttle     // of its slot

	refs    atomic.Int64 // users; begins at 1
	retired atomic.Bool
	closing sync.Once

	nativeDone nativeCounters
	tally      tally
	breaker    breaker
	heavy      atomic.Bool                        // a canary that is being rolled back for what its calls take
	faultLines guest.LineLimit                    // of what is said about it
	compared   atomic.Pointer[compare.Comparison] // of its last time as a shadow
}

// acquire takes part in g. It fails when g is being closed: a new user must
// look again which generation serves.
func (g *generation) acquire() bool {
	g.refs.Add(1)
	if g.retired.Load() {
		g.release()
		return false
	}
	return true
}

// release ends one use; the last one closes what was retired.
func (g *generation) release() {
	if g.refs.Add(-1) == 0 {
		g.closing.Do(func() {
			if g.pool != nil {
				g.pool.Close()
				g.module.Close()
			}
		})
	}
}

// retire ends g for new users. It is called once.
func (g *generation) retire() {
	if g.retired.CompareAndSwap(false, true) {
		g.release()
	}
}

// caller is who a call is for.
type caller struct {
	account string
	request string // the request's id, "" where there is none, for the log
	begins  bool   // it is the generation's first call for the request, which is counted by it
}

// admit asks whether a call may be made, as throttle.admit does. A native build
// always may. A module that ships pays no advance: it is slow only where much was
// sent, as the rest of the node is then, and many such requests at once are no
// reason to decline.
func (g *generation) admit(op abi.Op, patience time.Duration) (advance, waited time.Duration, ok bool) {
	switch {
	case g.pool == nil:
		return 0, 0, true
	case g.shipped:
		return g.throttle.admit(0, patience)
	}
	return g.throttle.admit(g.pool.Mean(op), patience)
}

// do runs one op for a caller and appends the output frame to dst. The caller
// has acquired g; advance is as in admit.
func (g *generation) do(op abi.Op, of caller, in []byte, advance time.Duration, dst []byte) (out []byte, f *guest.Fault) {
	if of.begins {
		g.tally.requests.Add(1)
	}
	if g.pool != nil {
		return g.doGuest(op, of.account, in, advance, dst)
	}
	out, f = g.doNative(op, in, dst)
	g.nativeDone.add(len(in), len(out)-len(dst))
	return out, f
}

func (g *generation) doGuest(op abi.Op, account string, in []byte, advance time.Duration, dst []byte) ([]byte, *guest.Fault) {
	f := g.pool.Call(op, account, in, advance, func(frame []byte) *guest.Fault {
		dst = append(dst, frame...)
		return nil
	})
	return dst, f
}

// doNative runs the native build, whose panic hurts this call only.
func (g *generation) doNative(op abi.Op, in, dst []byte) (out []byte, f *guest.Fault) {
	defer func() {
		if r := recover(); r != nil {
			out, f = dst, guest.Faultf(guest.CauseTrap, "panic: %v", r)
		}
	}()
	out = g.native(op, in, dst)
	if f := guest.CheckOutput(op, out[len(dst):]); f != nil {
		return dst, f
	}
	return out, nil
}

func (g *generation) calls() uint64 {
	if g.pool != nil {
		return g.pool.Calls()
	}
	return g.nativeDone.calls.Load()
}

// title is the module in logs.
func (g *generation) title() string {
	return fmt.Sprintf("%s %s", g.manifest.Ref(), shortDigest(g.digest))
}
