package engine

import (
	"errors"
	"reflect"
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
		if err := s.submit(j, time.Now()); err != nil {
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
	for _, reason := range []sched.Reason{sched.RefusedRequests, sched.RefusedTokens, sched.RefusedWait, sched.RefusedMemory} {
		cause := &sched.RefusedError{Reason: reason, RetryAfter: 17 * time.Second}
		e := refusal(cause)
		if e.Kind != abi.Overloaded || e.RetryAfter != cause.RetryAfter || e.Msg == "" || !errors.Is(e, cause) {
			t.Errorf("%s: %+v", reason, e)
		}
	}
}

// TestGaugesOfASleepingLoop: what is counted is right when a step loop goes to sleep, however short ago
// it published, and what the running sequences allow is looked at every now and then.
func TestGaugesOfASleepingLoop(t *testing.T) {
	e, s := open2(t, options(Instant))
	now := time.Now()
	for n := range int64(3) {
		_, a := submit(t, s, "a", ask(t, e, body))
		for s.Step(now) {
		}
		st := e.Stats()
		if a.finished != 1 || st.Scheduler.Running != 0 || st.Scheduler.DecodeTokens != 19*(n+1) || st.Scheduler.BatchMax == 0 {
			t.Errorf("after request %d: %+v", n, st.Scheduler)
		}
	}
	before := e.Stats()
	s.Step(now.Add(statsEvery))
	if after := e.Stats(); after.Scheduler.BatchMax != s.sched.Stats().BatchMax ||
		after.Scheduler.DecodeTokens != before.Scheduler.DecodeTokens {
		t.Errorf("later: %+v, before %+v", after.Scheduler, before.Scheduler)
	}
}

// TestGaugesOfAClosedLoop: a step loop that failed closes with its sequences in it. Nothing runs or waits then, and
// what only rises, the int64 among them, stays as it was.
func TestGaugesOfAClosedLoop(t *testing.T) {
	o := options(Instant)
	o.Batch.SequencesMax = 1
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.NewStepper()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		submit(t, s, "a", ask(t, e, body))
	}
	s.Step(time.Now())
	before := e.Stats()
	if before.Scheduler.Running != 1 || before.Scheduler.Waiting != 2 || before.Pool.PagesOwned == 0 {
		t.Fatalf("before: %+v", before)
	}
	for i, stats := range []reflect.Value{reflect.ValueOf(&before.Pool).Elem(), reflect.ValueOf(&before.Scheduler).Elem()} {
		for k, field := range reflect.VisibleFields(stats.Type()) { // no step sets all of them
			if !field.Anonymous {
				stats.FieldByIndex(field.Index).SetInt(int64(100*i + k + 1))
			}
		}
	}
	before.CacheBytes, before.LookupDrafts, before.LayerDrafts = 1, Drafts{Drafted: 2, Accepted: 1}, Drafts{Drafted: 4, Accepted: 3}
	e.stats.Store(&before)
	s.Close()
	after := e.Stats()
	if after.CacheBytes != 0 || after.LookupDrafts != before.LookupDrafts || after.LayerDrafts != before.LayerDrafts {
		t.Errorf("%+v", after)
	}
	for _, both := range [][2]reflect.Value{{reflect.ValueOf(before.Pool), reflect.ValueOf(after.Pool)},
		{reflect.ValueOf(before.Scheduler), reflect.ValueOf(after.Scheduler)}} {
		for _, field := range reflect.VisibleFields(both[0].Type()) {
			if field.Anonymous {
				continue
			}
			want := int64(0)
			if field.Type == reflect.TypeFor[int64]() {
				want = both[0].FieldByIndex(field.Index).Int()
			}
			if got := both[1].FieldByIndex(field.Index).Int(); got != want {
				t.Errorf("%s.%s is %d, want %d", both[0].Type(), field.Name, got, want)
			}
		}
	}
}
