package check

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"corenode/extensions"
	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// Figure is what one usual call of a module costs, in this process and on this
// machine, beside the shipped native build of the same slot.
type Figure struct {
	Call        string `json:"call"`
	Op          string `json:"op"`
	Events      int    `json:"events,omitempty"` // that the call carries
	InputBytes  int    `json:"input_bytes"`
	OutputBytes int    `json:"output_bytes"`
	Ticks       int64  `json:"ticks"`
	NS          int64  `json:"ns"`                  // median of the rounds, for one call
	NativeNS    int64  `json:"native_ns,omitempty"` // 0: there is none, or it does not take the call
	Refused     string `json:"refused,omitempty"`   // why the module does not take a usual request
}

// benchRounds is the rounds that a median is taken of.
const benchRounds = 5

// Bench measures the usual calls of a module, each for about the given time.
func Bench(wasm, config []byte, each time.Duration, log *slog.Logger) ([]Figure, error) {
	m, err := extensions.OpenOffline(wasm, log)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	i, err := m.Instance(config)
	if err != nil {
		return nil, err
	}
	defer i.Close()
	var out []byte
	var ticks int64
	call := func(op abi.Op, in []byte) (_ []byte, err error) {
		out, ticks, err = i.Call(op, in, out[:0])
		return out, err
	}
	s := subjectOf(m, wasm)
	if all, err := vector.Parse(s.Vectors); err == nil {
		vectors := make([]*vector.Vector, len(all))
		for n := range all {
			vectors[n] = &all[n]
		}
		b := (&checker{Subject: s}).sandbox(config)
		s.Own = probe.OwnRequest(s.Module, vectors, b.frame)
		b.close()
	}
	natives := make(map[string]probe.Call)
	if s.Native != nil {
		for _, c := range probe.Calls(s.Module, s.Native) {
			natives[c.Name] = c
		}
	}
	samples := append([]probe.Call{{Name: "an empty call", Bench: true}}, probe.Calls(s.Module, call)...)
	var all []Figure
	for _, c := range samples {
		if !c.Bench {
			continue
		}
		f := Figure{Call: c.Name, Op: c.Op.String(), Events: c.Events, InputBytes: len(c.In)}
		if f.NS, err = timed(call, c, each); err != nil {
			return all, fmt.Errorf("%s: %w", c.Name, err)
		}
		f.OutputBytes, f.Ticks, f.Refused = len(out), ticks, refusal(c, out)
		if native, ok := natives[c.Name]; ok {
			f.NativeNS, _ = timed(s.Native, native, each)
		}
		all = append(all, f)
	}
	return all, nil
}

// timed is the time of one call in nanoseconds.
func timed(call vector.Call, c probe.Call, each time.Duration) (int64, error) {
	count := 1
	var rounds [benchRounds]int64
	for round := -1; round < benchRounds; { // the first ones find the count
		began := time.Now()
		for range count {
			if _, err := call(c.Op, c.In); err != nil {
				return 0, err
			}
		}
		spent := time.Since(began)
		if enough := each / benchRounds / 2; round < 0 && spent < enough && count < 1<<30 {
			count *= 2
			continue
		}
		if round >= 0 {
			rounds[round] = int64(spent) / int64(count)
		}
		round++
	}
	slices.Sort(rounds[:])
	return max(1, rounds[benchRounds/2]), nil
}

// WriteFigures prints a table for a person.
func WriteFigures(w io.Writer, all []Figure) {
	fmt.Fprintln(w, "CALL\tINPUT\tOUTPUT\tTICKS\tTIME\tAN EVENT\tNATIVE\tTIMES NATIVE")
	refused, why := 0, ""
	for _, f := range all {
		if f.Refused != "" {
			refused, why = refused+1, f.Refused
		}
		event, native, ratio := "", "", ""
		if f.Events > 0 {
			event = nanoseconds(f.NS / int64(f.Events))
		}
		if f.NativeNS > 0 {
			native, ratio = nanoseconds(f.NativeNS), fmt.Sprintf("%.1f", float64(f.NS)/float64(f.NativeNS))
		}
		fmt.Fprintf(w, "%s\t%d B\t%d B\t%d\t%s\t%s\t%s\t%s\n", f.Call, f.InputBytes, f.OutputBytes, f.Ticks,
			nanoseconds(f.NS), event, native, ratio)
	}
	if refused > 0 {
		fmt.Fprintf(w, "\n"+refusedNote+"\n", refused, why)
	}
}

// nanoseconds writes a duration with three figures or so.
func nanoseconds(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d ns", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f us", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f ms", float64(n)/1e6)
}
