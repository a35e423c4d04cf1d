package extensions

import (
	"crypto/ed25519"
	"log/slog"
	"time"

	"corenode/wasm/abi"
)

// Options say how a Host works.
type Options struct {
	// Dir holds the modules that operators loaded, and which of them serve. It
	// is made if need be, for its owner only. Empty: nothing outlives the process.
	Dir string
	// Keep, where the nodes of a cluster share which modules serve, keeps the state in the place of
	// Dir: text replaces what had the number before, or it fails. It may take long, and requests do not
	// wait for it. State and Number are what was kept at the start. Then a module that should serve and is
	// not in memory has no stand-in: what needs it is refused.
	Keep   func(before int64, text []byte) (number int64, err error)
	State  []byte
	Number int64
	// After is closed when the background may begin to load modules, so that it is in nobody's way. nil: at once.
	After <-chan struct{}
	// CacheDir holds compiled modules. Default Dir/cache. One that cannot be made private is not used.
	CacheDir string
	// CompileCommand is a program with arguments that does what guest.CompileModule
	// does, given the cache folder as one more argument and the module at its standard
	// input. It compiles what is not in the cache, at low priority, so that requests
	// keep the processors. Empty, or without a cache folder: the host compiles.
	CompileCommand []string
	// TrustedKeys are the keys whose signatures count.
	TrustedKeys []ed25519.PublicKey
	// Denied are modules that are not taken, whoever signed them.
	Denied []Denial
	// AllowUnsigned accepts modules without a signature. A wrong one is never accepted.
	AllowUnsigned bool
	// Prices are what the tokens of each model id cost, until SetPrices.
	Prices map[string]abi.Prices
	// AdmissionFailOpen admits a request when the admission policy fails on it;
	// otherwise the request is refused as Overloaded.
	AdmissionFailOpen bool
	// Log takes what happens to modules. nil: slog.Default.
	Log *slog.Logger
	// Now is the clock of everything but durations. nil: time.Now.
	Now func() time.Time
	// PoolMax is the most instances of one generation. Default 2*GOMAXPROCS.
	PoolMax int
	// CPUShare is the share of the processors that the modules of a slot may use,
	// above 0 and at most 1. Default 0.5.
	CPUShare float64
	// CanaryFactor is how many times the ticks, or the processor time, of the
	// active generation's calls those of a canary may take. Default 3.
	CanaryFactor float64
	// CanaryCallsMin is the calls of an operation that are compared, of each of
	// the two. Default 200.
	CanaryCallsMin int
}
