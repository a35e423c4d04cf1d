package soak

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// taken is what a node took at some moment.
func taken(resident, goroutines, descriptors float64) Sample {
	return Sample{Resident: resident, Goroutines: goroutines, Descriptors: descriptors}
}

// withModules is a sample of a node whose modules' instances grow for longer than it warms, and are replaced in minute 55.
func withModules(minute int, leaked float64) Sample {
	s := taken(300<<20+leaked, 60, 40)
	s.Modules = float64(minute%55) * (3 << 20)
	s.Resident += s.Modules
	return s
}

// TestJudge: what grows is seen, also slowly and below noise; what oscillates, fills up while the node
// is warming, falls, or is disturbed now and then is flat.
func TestJudge(t *testing.T) {
	const minutes = 60
	for _, c := range []struct {
		name string
		at   func(minute int, r *rand.Rand) Sample
		flat [3]bool // memory, goroutines, descriptors
	}{
		{"flat", func(int, *rand.Rand) Sample { return taken(300<<20, 60, 40) }, [3]bool{true, true, true}},
		{"noise", func(_ int, r *rand.Rand) Sample {
			return taken(300<<20+float64(40<<20)*r.Float64(), 60+20*r.Float64(), 40+20*r.Float64())
		}, [3]bool{true, true, true}},
		{"a leak of each below the noise", func(m int, r *rand.Rand) Sample {
			return taken(300<<20+float64(m*3<<19)+float64(10<<20)*r.Float64(), 60+float64(m)/2+10*r.Float64(),
				40+float64(m)/2)
		}, [3]bool{false, false, false}},
		{"it fills up while it warms", func(m int, _ *rand.Rand) Sample {
			return taken(100<<20+float64(min(m, 11)*50<<20), 60, 40)
		}, [3]bool{true, true, true}},
		{"disturbed at the end", func(m int, _ *rand.Rand) Sample {
			s := taken(300<<20, 60, 40)
			if m > 50 {
				s = taken(900<<20, 600, 400)
			}
			return s
		}, [3]bool{true, true, true}},
		{"a step behind the middle", func(m int, _ *rand.Rand) Sample {
			s := taken(300<<20, 60, 40)
			if m >= 35 {
				s = taken(900<<20, 600, 400)
			}
			return s
		}, [3]bool{false, false, false}},
		{"modules' memory is replaced late", func(m int, _ *rand.Rand) Sample {
			return withModules(m, 0)
		}, [3]bool{true, true, true}},
		{"a leak beside it", func(m int, _ *rand.Rand) Sample {
			return withModules(m, float64(m)*(1<<20))
		}, [3]bool{false, true, true}},
		{"it falls", func(m int, _ *rand.Rand) Sample { return taken(float64(900-m)*(1<<20), 600, 400) }, [3]bool{true, true, true}},
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

// TestMet: a run is good when everything was asked of the node and it went on answering; each lack alone misses.
func TestMet(t *testing.T) {
	for name, spoil := range map[string]func(*Report){
		"":                                       func(*Report) {},
		"something grows":                        func(r *Report) { r.Trends[0].Flat = false },
		"no trend":                               func(r *Report) { r.Trends = nil },
		"the ledger":                             func(r *Report) { r.Sound = false },
		"an error in the log":                    func(r *Report) { r.Errors = 1 },
		"a wrong answer":                         func(r *Report) { r.Counts.Wrong = map[string]int64{"x": 1} },
		"no answer":                              func(r *Report) { r.Counts.Whole, r.Samples = 0, nil },
		"only refusals from the middle on":       func(r *Report) { r.Counts.Whole, r.Counts.Refused = r.Samples[1].Whole, 1e6 },
		"many refusals from the middle on":       func(r *Report) { r.Counts.Refused = r.Samples[1].Refused + 17 },
		"only refusals between two samples":      func(r *Report) { r.Samples[1].Whole = r.Samples[0].Whole },
		"nobody left":                            func(r *Report) { r.Counts.Aborted = 0 },
		"no module was switched":                 func(r *Report) { r.Swaps = 0 },
		"the configuration was never read again": func(r *Report) { r.Reloads = 0 },
		"no new key":                             func(r *Report) { r.Keys = 0 },
	} {
		r := Report{Trends: []Trend{{Name: "memory", Flat: true}}, Sound: true, Swaps: 2, Reloads: 1, Keys: 1}
		r.Options.Duration = 4 * time.Minute
		for i := range 4 { // in the first half more is refused; between the last two nearly no time passes
			r.Samples = append(r.Samples, Sample{At: min(time.Duration(i+1), 3) * time.Minute, Requests: int64(i)*300 + 300,
				Whole: int64(i)*200 + 200, Refused: 90})
		}
		r.Samples[3].Requests, r.Samples[3].Whole = r.Samples[2].Requests+2, r.Samples[2].Whole
		r.Counts = Counts{Whole: 1500, Aborted: 600, Refused: 106}
		spoil(&r)
		var out strings.Builder
		if err := r.Print(&out); err != nil || r.Met() != (name == "") || (name == "") == strings.Contains(out.String(), "MISSED") {
			t.Errorf("%q: met %v, %v\n%s", name, r.Met(), err, out.String())
		}
	}
}
