package extensions

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"corenode/extensions/compare"
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
	manifest Manifest
	shipped  bool
	signedBy string // base64 of the key, "" = unsigned
	loaded   time.Time
	compile  time.Duration
	size     int    // of the module file
	note     string // what an operator should know though it was accepted
	native   handler
	code     *code
	pool     *pool

	refs    atomic.Int64 // users; begins at 1
	retired atomic.Bool
	closing sync.Once

	nativeDone nativeCounters
	tally      tally
	breaker    breaker
	heavy      atomic.Bool // a canary that is being rolled back for what its calls take
	printed    printed
	lines      lineLimit                          // of what it says
	faultLines lineLimit                          // of what is said about it
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
				g.pool.close()
				g.code.close()
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

// do runs one op for a caller and appends the output frame to dst. The
// caller has acquired g; held is what the slot's share holds for the call.
func (g *generation) do(op abi.Op, of caller, in []byte, held time.Duration, dst []byte) (out []byte, f *fault) {
	if g.pool != nil {
		return g.pool.call(op, of.account, in, g.manifest.budget(op, len(in)), held, dst)
	}
	out, f = g.doNative(op, in, dst)
	g.nativeDone.add(len(in), len(out)-len(dst))
	return out, f
}

// doNative runs the native build, whose panic hurts this call only.
func (g *generation) doNative(op abi.Op, in, dst []byte) (out []byte, f *fault) {
	defer func() {
		if r := recover(); r != nil {
			out, f = dst, faultf(causeTrap, "panic: %v", r)
		}
	}()
	out = g.native(op, in, dst)
	if f := checkOutput(op, out[len(dst):]); f != nil {
		return dst, f
	}
	return out, nil
}

func (g *generation) calls() uint64 {
	if g.pool != nil {
		return g.pool.calls()
	}
	return g.nativeDone.calls.Load()
}

// title is the module in logs.
func (g *generation) title() string {
	return fmt.Sprintf("%s %s", g.manifest.ref(), shortDigest(g.digest))
}

// digestPrefix stands before the hex of a module file's SHA-256.
const digestPrefix = "sha256:"

// shortDigest is enough of a digest to tell modules apart.
func shortDigest(digest string) string {
	if len(digest) > len(digestPrefix)+12 && digest[:len(digestPrefix)] == digestPrefix {
		return digest[:len(digestPrefix)+12]
	}
	return digest
}
