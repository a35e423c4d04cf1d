package extensions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// Rater computes charges with one billing module, without a host: what a module would
// have charged. It belongs to one goroutine.
type Rater struct {
	Ref      string // name@version
	native   handler
	module   *guest.Module // nil with a native build
	pool     *guest.Pool
	manifest guest.Manifest // a native build has no counters, and is not free
}

// OpenRater opens a billing module file with a configuration, after what a node with no trusted keys
// asks of one that is new. The error is a *guest.LoadError.
func OpenRater(wasm, config []byte) (*Rater, error) {
	config, err := guest.Config(config)
	if err != nil {
		return nil, err
	}
	return openRater(wasm, config, guest.Trial{Ticks: guest.VectorTicksMax, Strict: true})
}

// StoredRater opens a module that has charged: one that ships, its native build, or
// one in the data folder of a node, with the configuration that it served with. It is not
// tried again.
func StoredRater(dataDir, digest string) (*Rater, error) {
	for _, s := range shippedModules() {
		switch {
		case s.slot == SlotBilling && s.nativeAs == digest:
			return &Rater{Ref: s.name + "@native", native: s.native}, nil
		case s.digest == digest:
			wasm, err := s.wasm()
			if err != nil {
				return nil, err
			}
			return openRater(wasm, nil, guest.Trial{Ticks: guest.VectorTicksServed})
		}
	}
	kept, err := storedIn(dataDir, digest)
	if err != nil {
		return nil, err
	}
	wasm, _, config, err := kept.readFiles(digest)
	if err != nil {
		return nil, err
	}
	if got := digestOf(wasm); got != digest {
		return nil, guest.Refused("digest", "restore the file from a backup",
			"the file of %s has the digest %s: it was changed", digest, got)
	}
	return openRater(wasm, config, guest.Trial{Ticks: guest.VectorTicksServed})
}

// StoredManifest reads the manifest of a module in the data folder of a node. The module is not compiled.
func StoredManifest(dataDir, digest string) (guest.Manifest, error) {
	kept, err := storedIn(dataDir, digest)
	if err != nil {
		return guest.Manifest{}, err
	}
	return kept.readManifest(digest)
}

// storedIn is where a data folder has the module with that digest.
func storedIn(dataDir, digest string) (folder, error) {
	if !strings.HasPrefix(digest, digestPrefix) || filepath.Base(digest) != digest {
		return folder{}, fmt.Errorf("%q: %w", digest, ErrUnknownModule)
	}
	return folder{dir: filepath.Join(dataDir, "modules")}, nil
}

func openRater(wasm, config []byte, t guest.Trial) (*Rater, error) {
	read, err := guest.Read(wasm)
	if err == nil && read.Manifest.Kind != guest.KindBilling {
		err = guest.Refused("manifest", "name a billing module", "%s is of kind %s", read.Manifest.Ref(), read.Manifest.Kind)
	}
	if err == nil {
		err = read.Check()
	}
	if err == nil && t.Strict {
		err = read.Manifest.CheckConfig(config)
	}
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	r := &Rater{Ref: read.Manifest.Ref(), manifest: read.Manifest}
	logger := speaker{slog.New(slog.DiscardHandler), time.Now, r.Ref}
	if r.module, err = read.Compile(ctx, guest.Options{Config: config, Served: !t.Strict, Logger: logger}); err != nil {
		return nil, err
	}
	// An account's charges are computed on memory that no other account's were.
	r.pool, _, err = r.module.Serve(ctx, t, guest.PoolOptions{InstancesMax: 1, Settle: func(_, _ time.Duration) {}})
	if err != nil {
		r.module.Close()
		return nil, err
	}
	return r, nil
}

// Counts says whether the module has counters.
func (r *Rater) Counts() bool { return len(r.manifest.Counters) > 0 }

// Rate charges a request that holds of counters, of whichever module, and holds the charge to the rules that
// a node holds it to. What is held of counters of another name is nothing to the module.
func (r *Rater) Rate(in abi.ChargeInput, held []abi.Counter) (abi.Charge, error) {
	in.Held = r.manifest.Held(held)
	var frame []byte
	input := in.Append(nil)
	if r.native != nil {
		frame = r.native(abi.OpCharge, input, nil)
		if f := guest.CheckOutput(abi.OpCharge, frame); f != nil {
			return abi.Charge{}, f
		}
	} else if f := r.pool.Call(abi.OpCharge, in.Account, input, 0, func(out []byte) *guest.Fault {
		frame = append(frame, out...)
		return nil
	}); f != nil {
		return abi.Charge{}, f
	}
	out, _ := abi.ParseOutput(frame) // its output was checked
	if out.Status == abi.StatusDecline {
		return abi.Charge{}, errDeclined
	}
	c, _ := abi.ParseCharge(out.Payload)
	if p := probe.CheckCharge(c, in, -1, r.manifest.Free); p != nil {
		return abi.Charge{}, errors.New(p.What)
	}
	return c, nil
}

// Close gives its memory back.
func (r *Rater) Close() {
	if r.pool != nil {
		r.pool.Close()
		r.module.Close()
	}
}
