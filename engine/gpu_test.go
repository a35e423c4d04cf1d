package engine

import (
	"fmt"
	"slices"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// TestADeviceAnswersAsTheHostDraws runs requests of several kinds at once on the GPU's kernels: once with
// steps that the host draws from, and once with the device's program. The answers are the same.
func TestADeviceAnswersAsTheHostDraws(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 5 s, and ten times as long under the race detector")
	}
	f, err := modelfile.Open("model/testdata/parity/tiny-llama-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := options(CUDA)
	o.Data, o.Draft = gguftest.FirstLayers(f, 1), true
	o.Device.Open = func() (cuda.Driver, error) { return devicetest.Open(t, interp.Config{Workers: 2}), nil }
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	bodies := []string{
		`{"model": "m", "max_tokens": 6, "temperature": 0, "messages": [{"role": "user", "content": "a"}]}`,
		`{"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "bcbcbcbc"}]}`,
		`{"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "d"}], "output_config": {"format": {"type": "json_schema",
			"schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}}}`,
	}
	answers := func(host bool) (all []string) {
		s, err := e.NewStepper()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if !s.device {
			t.Fatal("the model has no program of a device")
		}
		if host {
			s.program.Close()
			s.program, s.device = &hostProgram{engine: e}, false
		}
		var got []*answer
		for i, body := range bodies {
			r := ask(t, e, body)
			r.Sampling.Seed, r.Sampling.FrequencyPenalty = uint64(i), 0.3
			_, a := submit(t, s, "acct", r)
			got = append(got, a)
		}
		runAll(t, s)
		for _, a := range got {
			checkStream(t, a.events)
			text := fmt.Sprintf("%+v %s: ", a.result.Usage, a.result.Stop)
			for _, ev := range a.events {
				text += ev.Text
			}
			all = append(all, text)
		}
		return all
	}
	want := answers(true)
	if got := answers(false); !slices.Equal(got, want) {
		t.Errorf("the device answers %q, the host %q", got, want)
	}
	if b, ok := e.backend.(mayFail); !ok || b.Failed() != nil {
		t.Errorf("the backend is %T, and failed", e.backend)
	}
}
