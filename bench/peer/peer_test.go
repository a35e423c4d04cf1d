package peer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/bench/report"
	"corenode/bench/stats"
)

func TestValidateNamesEveryFlag(t *testing.T) {
	bad := Options{Node: "absent", Server: "absent", Model: "absent", Only: []string{"nonsense"}}
	err := bad.List().Validate()
	for _, flag := range []string{"--node", "--llama-server", "--model", "--threads", "--rounds", "--start-timeout", "--only"} {
		if err == nil || !strings.Contains(err.Error(), flag+": ") && !strings.Contains(err.Error(), flag+" ") {
			t.Errorf("no complaint about %s in %v", flag, err)
		}
	}
}

// The programs may be named as a shell would, as the help does.
func TestProgramsOfThePath(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"corenode", "llama-server", "m.gguf"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	o := Defaults()
	o.Node, o.Server, o.Model = "corenode", "llama-server", filepath.Join(dir, "m.gguf")
	if err := o.List().Validate(); err != nil {
		t.Error(err)
	}
}

// TestScenariosFitTheOtherServer keeps its slots as large as what is asked.
func TestScenariosFitTheOtherServer(t *testing.T) {
	for _, s := range scenarios {
		if s.clients > slots || s.system+(s.input+s.output)*s.turns > slotTokens {
			t.Errorf("%s: %d clients of %d tokens in %d slots of %d", s.name, s.clients, s.system+(s.input+s.output)*s.turns, slots, slotTokens)
		}
		if len(s.rows) == 0 || s.requests < s.clients && s.turns == 1 {
			t.Errorf("%s: %d rows, %d requests of %d clients", s.name, len(s.rows), s.requests, s.clients)
		}
	}
}

func record(turn, input, cached, output int, due, first, last, end time.Duration) stats.Record {
	return stats.Record{Turn: turn, InputTokens: input, CachedTokens: cached, OutputTokens: output, Outputs: output,
		Intended: due, First: first, Last: last, End: end}
}

func TestValues(t *testing.T) {
	const s = time.Second
	got := valuesOf(scenario{clients: 2}, []stats.Record{
		record(1, 110, 10, 11, 0, 2*s, 3*s, 3*s),       // 50 tokens/s in, 0.1 s a token
		record(1, 100, 0, 11, 1*s, 5*s, 8*s, 9*s),      // 25 tokens/s in, 0.3 s a token
		record(2, 200, 100, 11, 9*s, 10*s, 12*s, 13*s), // 100 tokens/s in, 0.2 s a token
		{Kind: stats.KindBroken, First: 0, End: 100 * s, OutputTokens: 1000},
	})
	for m, want := range map[metric]float64{
		prefillRate: 50, decodeRate: 2 / 0.2, outputRate: 33.0 / 13, ttftMedian: 2000, ttftLast: 4000, ttftTurn2: 1000,
	} {
		if got[m] != want {
			t.Errorf("metric %d is %v, want %v", m, got[m], want)
		}
	}
	for m, v := range valuesOf(scenario{clients: 2}, nil) {
		if v != 0 {
			t.Errorf("metric %d of nothing is %v", m, v)
		}
	}
}

func TestAnswersThatEndEarlyFail(t *testing.T) {
	records := []stats.Record{
		record(1, 100, 0, 64, 0, 1, 2, 2), record(1, 100, 0, 63, 0, 1, 2, 2), record(1, 100, 0, 0, 0, 1, 2, 2),
		{Kind: stats.KindBroken, OutputTokens: 64},
	}
	if n := failedOf(scenario{output: 64}, records); n != 3 {
		t.Errorf("%d of 4 requests failed, want 3: a short answer, one without usage, a broken one", n)
	}
}

func TestRowsCompareWithinRounds(t *testing.T) {
	s := scenario{name: "x", rows: []row{
		{what: "rate", metric: decodeRate, gate: map[string]float64{"Q8_0": 3}, aim: all(4)},
		{what: "time", metric: ttftMedian, lower: true, gate: all(2.5)},
	}}
	one := func(a, b, foreign float64) [sides]outcome {
		return [sides]outcome{
			node:  {values: map[metric]float64{decodeRate: a, ttftMedian: b}, foreign: foreign},
			other: {values: map[metric]float64{decodeRate: 10, ttftMedian: 10}},
		}
	}
	rows := rowsOf(s, [][sides]outcome{one(20, 5, 0), one(1000, 1, 0.2), one(40, 4, 0)}, "Q8_0")
	want := report.Spread{Min: 2, Median: 3, Max: 4}
	if rows[0].Times != want || rows[0].Discarded != 1 || rows[0].Rounds != 3 || !rows[0].Met || rows[0].Gate != 3 || rows[0].Aim != 4 {
		t.Errorf("rate %+v, want times %v", rows[0], want)
	}
	if want = (report.Spread{Min: 2, Median: 2.25, Max: 2.5}); rows[1].Times != want || rows[1].Met {
		t.Errorf("time %+v, want times %v and the gate missed", rows[1], want)
	}
	if rows = rowsOf(s, [][sides]outcome{one(20, 5, 0)}, "Q4_0"); rows[0].Gate != 0 || !rows[0].Met {
		t.Errorf("a gate of another type holds: %+v", rows[0])
	}
	if rows = rowsOf(s, [][sides]outcome{one(50, 1, 0.9)}, "Q8_0"); !rows[0].Disturbed || rows[0].Times.Median != 5 {
		t.Errorf("all rounds disturbed: %+v", rows[0])
	}
	bounded := scenario{name: "x", rows: []row{{what: "memory", metric: beyond, lower: true, nodeMax: 150}}}
	for mib, met := range map[float64]bool{150: true, 151: false} {
		got := [sides]outcome{node: {values: map[metric]float64{beyond: mib}}}
		if rows = rowsOf(bounded, [][sides]outcome{got}, "Q8_0"); rows[0].Met != met {
			t.Errorf("%v MiB of at most 150: met %v", mib, rows[0].Met)
		}
	}
	for failing, want := range map[side]string{node: "FAILED requests: 1 and 0", other: "FAILED requests: 0 and 1"} {
		bad := one(50, 1, 0)
		bad[failing].failed = 1
		r := Report{Rows: rowsOf(s, [][sides]outcome{bad}, "Q8_0")}
		var out bytes.Buffer
		if err := r.Print(&out); err != nil || r.Met() || !strings.Contains(out.String(), want) {
			t.Errorf("failed requests of %s pass: met %v, %v\n%s", failing, r.Met(), err, out.String())
		}
	}
}
