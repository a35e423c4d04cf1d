package engine

import (
	"errors"
	"testing"
	"time"

	"corenode/engine/sched"
	"corenode/wasm/abi"
)

// TestStepsTeachTheScheduler: what steps take reaches the scheduler, and what it
// makes of it is in the stats.
func TestStepsTeachTheScheduler(t *testing.T) {
	o := options(CPU)
	o.Batch.GapMax, o.Batch.GapStretchMax = 150*time.Millisecond, 3
	e, s := open2(t, o)
	if st := s.sched.Stats(); st.StepMeasured != 0 || st.StepPredicted != 0 || st.PrefillBudget < 16 {
		t.Errorf("before anything was measured: %+v", st)
	}
	for range 3 {
		done := false
		j := &Job{Account: "a", Request: ask(t, e, `{"model":"m","max_tokens":20,"messages":[{"role":"user","content":"Count to ten."}]}`),
			Output: NewWholeOutput(), Finished: func(Result) { done = true }}
		if err := s.Submit(j, time.Now()); err != nil {
			t.Fatal(err)
		}
		for !done && s.Step(time.Now()) {
		}
	}
	st := s.sched.Stats()
	if st.StepMeasured <= 0 || st.StepPredicted <= 0 || st.Gap <= 0 || st.Gap > o.Batch.GapMax || st.PrefillBudget < 16 || st.BatchMax < 1 {
		t.Errorf("after some requests: %+v", st)
	}
}

// TestRefusalSaysWhen: the client is told what the scheduler computed.
func TestRefusalSaysWhen(t *testing.T) {
	for _, reason := range []sched.Reason{sched.RefusedRequests, sched.RefusedTokens, sched.RefusedWait} {
		cause := &sched.RefusedError{Reason: reason, RetryAfter: 17 * time.Second}
		e := refusal(cause)
		if e.Kind != abi.Overloaded || e.RetryAfter != cause.RetryAfter || e.Msg == "" || !errors.Is(e, sched.ErrQueueFull) {
			t.Errorf("%s: %+v", reason, e)
		}
	}
}
