package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// draftingStage is a model of two layers on the interpreter of GPU kernels: one with a state, one with attention.
type draftingStage struct {
	testing.TB
	data []byte
}

func newDraftingStage(t testing.TB) draftingStage {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 5 s, and ten times as long under the race detector")
	}
	f, err := modelfile.Open("model/testdata/parity/tiny-qwen35moe-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return draftingStage{t, gguftest.LastLayers(f, 2)}
}

// open returns an engine that drafts or does not.
func (g draftingStage) open(draft bool) *Engine {
	o := options(CUDA)
	o.Data, o.Draft = g.data, draft
	o.OpenDevice = onDeviceOf(g)
	e, err := Open(o)
	if err != nil {
		g.Fatal(err)
	}
	return e
}

// conversation is a request and its answer.
type conversation struct {
	*run
	*answer
}

// converse asks for three answers at once and counts the steps. prepare may change how a run drafts.
func (g draftingStage) converse(e *Engine, prepare func(i int, r *run)) (all []conversation, steps int, s *Stepper) {
	g.Helper()
	s, err := e.NewStepper()
	if err != nil {
		g.Fatal(err)
	}
	defer s.Close()
	if !s.device {
		g.Fatal("the model has no program of a device")
	}
	s.sched.AssumeSteps(func(int) float64 { return 1 }) // rows cost nothing: every draft pays
	for i := range 3 {
		r := ask(g, e, fmt.Sprintf(`{"model": "m", "max_tokens": %d, "messages": [{"role": "user", "content": "a b"}]}`, 8+i))
		r.Sampling = samplers[[]int{0, 4, 2}[i]]
		r.Sampling.Seed, r.MinTokens = uint64(i), 8
		_, a := submit(g, s, "acct", r)
		run := s.order[len(s.order)-1]
		run.drafter = nil
		prepare(i, run)
		all = append(all, conversation{run, a})
	}
	for s.Step(time.Now()) {
		steps++
	}
	return all, steps, s
}

// same wants the same answers, and that drafts, of which some were right, saved at least so many of the steps.
func (g draftingStage) same(got, want []conversation, steps, alone, saved int, d Drafts) {
	g.Helper()
	for i := range want {
		if a, b := got[i].seq.Tokens, want[i].seq.Tokens; !slices.Equal(a, b) || got[i].result.Usage != want[i].result.Usage {
			g.Errorf("answer %d: %v with drafts, %v without", i, a, b)
		}
	}
	g.Logf("%d steps, %d without; %+v", steps, alone, d)
	if steps > alone-saved || d.Accepted == 0 || d.Accepted == d.Drafted {
		g.Errorf("%d steps instead of %d, %+v", steps, alone, d)
	}
}

// TestADeviceKeepsOfDraftsWhatItWouldSay: answers with drafts, right ones and wrong ones, are those without.
func TestADeviceKeepsOfDraftsWhatItWouldSay(t *testing.T) {
	g := newDraftingStage(t)
	e := g.open(true)
	defer e.Close()
	want, alone, _ := g.converse(e, func(int, *run) {})
	got, steps, s := g.converse(e, func(i int, r *run) { r.drafter = told{want[i].seq.Tokens, rand.New(rand.NewPCG(uint64(i), 4))} })
	g.same(got, want, steps, alone, alone/4, s.lookupDrafts)
}

// TestADeviceDraftsWithTheLayerOfTheModel: answers with the model's own drafts are those without.
func TestADeviceDraftsWithTheLayerOfTheModel(t *testing.T) {
	g := newDraftingStage(t)
	f, err := modelfile.OpenBytes("two layers", g.data)
	if err != nil {
		t.Fatal(err)
	}
	g.data = gguftest.WithAptPrediction(f, 0.002)
	plain, drafting := g.open(false), g.open(true)
	defer plain.Close()
	defer drafting.Close()
	want, alone, _ := g.converse(plain, func(int, *run) {})
	got, steps, s := g.converse(drafting, func(int, *run) {})
	g.same(got, want, steps, alone, 1, s.layerDrafts)
}
