package soak

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestJudge: what grows is seen, also slowly and below noise; what oscillates, fills up while the node
// is warming, falls, or is disturbed now and then is flat.
func TestJudge(t *testing.T) {
	const minutes = 60
	for _, c := range []struct {
		name string
		at   func(minute int, r *rand.Rand) Sample
		flat [3]bool // memory, goroutines, descriptors
	}{
		{"flat", func(int, *rand.Rand) Sample { return Sample{0, 300 << 20, 60, 40} }, [3]bool{true, true, true}},
		{"noise", func(_ int, r *rand.Rand) Sample {
			return Sample{0, 300<<20 + float64(40<<20)*r.Float64(), 60 + 20*r.Float64(), 40 + 20*r.Float64()}
		}, [3]bool{true, true, true}},
		{"a leak of each below the noise", func(m int, r *rand.Rand) Sample {
			return Sample{0, 300<<20 + float64(m*3<<19) + float64(10<<20)*r.Float64(), 60 + float64(m)/2 + 10*r.Float64(),
				40 + float64(m)/2}
		}, [3]bool{false, false, false}},
		{"it fills up while it warms", func(m int, _ *rand.Rand) Sample {
			return Sample{0, 100<<20 + float64(min(m, 11)*50<<20), 60, 40}
		}, [3]bool{true, true, true}},
		{"disturbed at the end", func(m int, _ *rand.Rand) Sample {
			s := Sample{0, 300 << 20, 60, 40}
			if m > 50 {
				s = Sample{0, 900 << 20, 600, 400}
			}
			return s
		}, [3]bool{true, true, true}},
		{"a step behind the middle", func(m int, _ *rand.Rand) Sample {
			s := Sample{0, 300 << 20, 60, 40}
			if m >= 35 {
				s = Sample{0, 900 << 20, 600, 400}
			}
			return s
		}, [3]bool{false, false, false}},
		{"it falls", func(m int, _ *rand.Rand) Sample { return Sample{0, float64(900-m) * (1 << 20), 600, 400} }, [3]bool{true, true, true}},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		var samples []Sample
		for m := range minutes {
			s := c.at(m, r)
			s.At = time.Duration(m) * time.Minute
			samples = append(samples, s)
		}
		trends, err := Judge(samples, 12*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for i, trend := range trends {
			if trend.Flat != c.flat[i] {
				t.Errorf("%s: %+v", c.name, trend)
			}
		}
	}
	if _, err := Judge(make([]Sample, 10), time.Second); err == nil {
		t.Error("no warm sample is judged")
	}
}

// TestPace: a run of the traffic of more hours than it takes has its actions that much denser.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		duration, traffic time.Duration
		pace              float64
		every             time.Duration
	}{
		{time.Hour, 0, 1, time.Minute},
		{8 * time.Hour, 0, 1, time.Minute},
		{time.Hour, 8 * time.Hour, 8, time.Minute / 8},
		{2 * time.Minute, time.Minute, 1, 2 * time.Second},
	} {
		o := Options{Duration: c.duration, Traffic: c.traffic}
		if o.pace() != c.pace || o.actionEvery() != c.every {
			t.Errorf("%+v: pace %v, an action every %v", c, o.pace(), o.actionEvery())
		}
	}
	at := newPaced(2.5)
	real := 0
	for range 100 {
		if at.model() != modelInstant {
			real++
		}
	}
	if real != 40 {
		t.Errorf("%d of 100 requests at 2.5 times the pace go to the model that computes", real)
	}
}
