package peer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"corenode/bench/report"
	"corenode/bench/stats"
)

func TestValidateNamesEveryFlag(t *testing.T) {
	bad := Options{Node: "absent", Model: "absent", Only: []string{"nonsense"}, Rounds: -1, Paths: [len(peers)]string{"absent", "absent", "absent"}}
	err := bad.List().Validate()
	for _, flag := range []string{"--node", "--llama-server", "--ik-llama-server", "--openvino-python", "--model", "--threads", "--rounds",
		"--limit", "--start-timeout", "--only"} {
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
	o.Node, o.Model = "corenode", filepath.Join(dir, "m.gguf")
	if err := o.List().Validate(); err == nil || !strings.Contains(err.Error(), "no peer") {
		t.Errorf("a run without a peer: %v", err)
	}
	if o.Paths[0] = "llama-server"; o.List().Validate() != nil {
		t.Error(o.List().Validate())
	}
}

// TestScenariosFitThePeers keeps their slots as large as what is asked.
func TestScenariosFitThePeers(t *testing.T) {
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
			t.Errorf("metric %s is %v, want %v", m, got[m], want)
		}
	}
	for m, v := range valuesOf(scenario{clients: 2}, nil) {
		if v != 0 {
			t.Errorf("metric %s of nothing is %v", m, v)
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

// roundOf is a round of one scenario, x, on the node and a peer.
func roundOf(s Setting, peer string, node, other outcome) Round {
	return Round{Schema: RoundSchema, Setting: s, Sides: []Side{{Name: nodeName, Scenarios: map[string]outcome{"x": node}},
		{Name: peer, Version: "1", Flags: "-a", Scenarios: map[string]outcome{"x": other}}}}
}

func TestRowsCompareWithinRounds(t *testing.T) {
	rate := row{what: "rate", metric: decodeRate, gates: []gate{{ik, "", avx2, 9, 9}, {llama, "Q8_0", native, 3, 4}}}
	wait := row{what: "time", metric: ttftMedian, lower: true, gates: []gate{{llama, "", native, 2.5, 0}}}
	q8, q4 := Setting{"m", "Q8_0", native, 2}, Setting{"m", "Q4_0", native, 2}
	one := func(a, b, foreign float64) Round {
		return roundOf(q8, llama, outcome{map[metric]float64{decodeRate: a, ttftMedian: b}, foreign, 0},
			outcome{map[metric]float64{decodeRate: 10, ttftMedian: 10}, 0, 0})
	}
	rounds := []Round{one(20, 5, 0), one(1000, 1, 0.2), one(40, 4, 0)}
	rows := rowsOf("x", rate, q8, rounds)
	want := report.Spread{Min: 2, Median: 3, Max: 4}
	if len(rows) != 1 || rows[0].Times != want || rows[0].Discarded != 1 || rows[0].Rounds != 3 || !rows[0].Met ||
		rows[0].Gate != 3 || rows[0].Aim != 4 {
		t.Fatalf("rate %+v, want times %v", rows, want)
	}
	rows = rowsOf("x", wait, q8, rounds)
	if want = (report.Spread{Min: 2, Median: 2.25, Max: 2.5}); rows[0].Times != want || rows[0].Met {
		t.Errorf("time %+v, want times %v and the gate missed", rows[0], want)
	}
	if rows = rowsOf("x", rate, q4, rounds); len(rows) != 0 {
		t.Errorf("rounds of another model count: %+v", rows)
	}
	if rows = rowsOf("x", rate, q8, []Round{one(50, 1, 0.9)}); !rows[0].Disturbed || rows[0].Times.Median != 5 {
		t.Errorf("all rounds disturbed: %+v", rows[0])
	}
	bounded := row{what: "memory", metric: beyond, lower: true, nodeMax: 150}
	for mib, met := range map[float64]bool{150: true, 151: false} {
		got := []Round{roundOf(q8, llama, outcome{map[metric]float64{beyond: mib}, 0, 0}, outcome{}),
			roundOf(q8, ik, outcome{map[metric]float64{beyond: mib}, 0, 0}, outcome{})}
		if rows = rowsOf("x", bounded, q8, got); len(rows) != 1 || rows[0].Met != met || rows[0].Peer != "" {
			t.Errorf("%v MiB of at most 150, once for all peers: %+v", mib, rows)
		}
	}
	wantNodeAlone(t, bounded, q8)
	for failing, want := range []string{"FAILED requests: 1 and 0", "FAILED requests: 0 and 1"} {
		bad := one(50, 1, 0)
		x := bad.Sides[failing].Scenarios["x"]
		x.Failed = 1
		bad.Sides[failing].Scenarios["x"] = x
		r := Report{Rows: rowsOf("x", rate, q8, []Round{bad})}
		var out bytes.Buffer
		if err := r.Print(&out); err != nil || r.Met() || !strings.Contains(out.String(), want) {
			t.Errorf("failed requests pass: met %v, %v\n%s", r.Met(), err, out.String())
		}
	}
}

// TestFailuresOfThrownOutRoundsCount: others beside a server are no reason to refuse a request.
func TestFailuresOfThrownOutRoundsCount(t *testing.T) {
	s := Setting{"m", "Q8_0", native, 2}
	fine := outcome{Values: map[metric]float64{decodeRate: 10}}
	for side, want := range map[int][2]int{0: {2, 0}, 1: {0, 2}} {
		bad := roundOf(s, llama, fine, fine)
		x := fine
		x.Foreign, x.Failed = 0.5, 2
		bad.Sides[side].Scenarios["x"] = x
		rows := rowsOf("x", row{metric: decodeRate, gates: []gate{{llama, "", native, 1, 1}}}, s, []Round{roundOf(s, llama, fine, fine), bad})
		if len(rows) != 1 || rows[0].Discarded != 1 || [2]int{rows[0].NodeFailed, rows[0].OtherFailed} != want || rows[0].Met {
			t.Errorf("%+v, want %v failed", rows, want)
		}
	}
}

// wantNodeAlone: where there is nothing to compare with, the rounds beside every peer count, whatever disturbed a peer, and
// a number that was not measured meets no bound.
func wantNodeAlone(t *testing.T, r row, s Setting) {
	t.Helper()
	side := func(mib float64) outcome { return outcome{map[metric]float64{r.metric: mib}, 0, 0} }
	rows := rowsOf("x", r, s, []Round{roundOf(s, llama, side(100), outcome{Foreign: 0.5, Failed: 1}), roundOf(s, ik, side(180), outcome{}),
		roundOf(s, ik, side(160), outcome{})})
	want := report.Spread{Min: 100, Median: 160, Max: 180}
	if len(rows) != 1 || rows[0].Node != want || rows[0].Rounds != 3 || rows[0].Met {
		t.Errorf("the node's own number: %+v, want %v in 3 rounds", rows, want)
	}
	if rows = rowsOf("x", r, s, []Round{roundOf(s, llama, outcome{}, outcome{})}); len(rows) != 1 || rows[0].Met {
		t.Errorf("a number that was not measured: %+v", rows)
	}
}

// A gate names its peer, and its level: a peer that was built for another one has another.
func TestGates(t *testing.T) {
	r := row{gates: []gate{{ik, "", avx2, 1, 1.1}, {ik, "Q8_0", native, 2, 2.2}}}
	for _, c := range []struct {
		peer, kind, level string
		least             float64
	}{{ik, "Q4_0", avx2, 1}, {ik, "Q8_0", native, 2}, {ik, "Q4_0", native, 0}, {llama, "Q8_0", native, 0}} {
		if got := r.gateFor(c.peer, Setting{Type: c.kind, Level: c.level}); got.least != c.least {
			t.Errorf("%+v: gate %v", c, got.least)
		}
	}
}

// Rounds of earlier runs are in the table with those of this one, each setting apart.
func TestRoundsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rounds.jsonl")
	if all, err := readRounds(path); err != nil || len(all) != 0 {
		t.Fatalf("a file that is not there has %d rounds, %v", len(all), err)
	}
	var want []Round
	for i, s := range []Setting{{"a", "Q8_0", native, 2}, {"b", "Q4_0", avx2, 2}, {"a", "Q8_0", native, 2}} {
		r := roundOf(s, ik, outcome{map[metric]float64{decodeRate: float64(i + 1)}, 0, 0}, outcome{map[metric]float64{decodeRate: 1}, 0, 0})
		if err := addRound(path, r); err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	got, err := readRounds(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("read %+v, %v, want %+v", got, err, want)
	}
	if s := settings(got); len(s) != 2 || s[0].Model != "a" {
		t.Errorf("settings %+v", s)
	}
	if r := reportOf(got); len(r.Servers) != 2 || r.Servers[0] != nodeName || r.Servers[1] != ik+" 1 -a" {
		t.Errorf("servers %q", r.Servers)
	}
	if err := os.WriteFile(path, []byte(`{"schema":"corebench.peer.round/9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRounds(path); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("another layout was read: %v", err)
	}
}

// TestRoundsThatDifferAreNoMedian: what a row does not name must be the same in all its rounds.
func TestRoundsThatDifferAreNoMedian(t *testing.T) {
	q8, q4 := Setting{"m", "Q8_0", native, 2}, Setting{"m", "Q4_0", native, 2}
	for name, c := range map[string]struct {
		change func(*Round)
		refuse bool
	}{
		"the same":                   {func(*Round) {}, false},
		"another peer":               {func(r *Round) { r.Sides[1].Name = llama }, false},
		"other flags, other weights": {func(r *Round) { r.Setting, r.Sides[1].Flags = q4, "-b" }, false},
		"another kernel":             {func(r *Round) { r.Host.Kernel = "6" }, false},
		"another processor":          {func(r *Round) { r.Host.Processor = "x" }, true},
		"more processors":            {func(r *Round) { r.Host.Processors = 64 }, true},
		"another machine, others":    {func(r *Round) { r.Setting, r.Host.Processor = q4, "x" }, true},
		"another node":               {func(r *Round) { r.Sides[0].Version = "2" }, true},
		"another version of a peer":  {func(r *Round) { r.Sides[1].Version = "2" }, true},
		"other flags":                {func(r *Round) { r.Sides[1].Flags = "-b" }, true},
	} {
		o := Defaults()
		o.Rounds, o.RoundsFile = 0, filepath.Join(t.TempDir(), "rounds.jsonl")
		for i := range 3 {
			r := roundOf(q8, ik, outcome{}, outcome{})
			if i == 2 {
				c.change(&r)
			}
			if err := addRound(o.RoundsFile, r); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Run(t.Context(), o, t.Logf)
		if (err != nil) != c.refuse || err != nil && !strings.Contains(err.Error(), "round 3") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestNodeIsNamedByVersionAndBuild: of two builds that say the same version, too.
func TestNodeIsNamedByVersionAndBuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "corenode")
	seen := map[string]bool{}
	for _, build := range []string{"a", "b"} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n# "+build+"\necho corenode 1.2 $1"), 0o700); err != nil {
			t.Fatal(err)
		}
		version, err := nodeVersion(t.Context(), path)
		if err != nil || !strings.HasPrefix(version, "1.2 version (program ") {
			t.Errorf("build %s: %q, %v", build, version, err)
		}
		seen[version] = true
		o := Options{Paths: [len(peers)]string{"", "ik"}}
		if sides := (&run{o: o, node: version}).empty().Sides; len(sides) != 2 || sides[0].Version != version || sides[1].Name != ik {
			t.Errorf("a round of %+v", sides)
		}
	}
	if len(seen) != 2 {
		t.Errorf("two builds are %v", seen)
	}
}

// A table of no rounds, for one since the file's name is misspelled, has no gate that is missed: it is an error.
func TestTableOfNoRoundsIsAnError(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "absent.jsonl")} {
		o := Defaults()
		o.Rounds, o.RoundsFile = 0, file
		if r, err := Run(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "has no round") {
			t.Errorf("rounds file %q: %+v, %v", file, r, err)
		}
	}
}

// TestMain is also the program that startBusy starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == SpinCommand {
		fmt.Println(SpinGreeting)
		return
	}
	os.Exit(m.Run())
}

// TestBusyProcessors: each has a program, however many threads the servers have.
func TestBusyProcessors(t *testing.T) {
	r := &run{o: Options{Threads: runtime.NumCPU() + 1}, dir: t.TempDir()}
	stop, err := r.startBusy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if logs, err := filepath.Glob(filepath.Join(r.dir, "busy*.log")); err != nil || len(logs) != runtime.NumCPU() {
		t.Errorf("%d programs on %d processors, %v", len(logs), runtime.NumCPU(), err)
	}
}

func TestVersionIn(t *testing.T) {
	for text, want := range map[string]string{"a\nversion: 5 (x)\nbuilt with\n": "5 (x)", "usage": ""} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestEveryOtherRoundGoesBackwards: of each setting, also where each round is a run of its own.
func TestEveryOtherRoundGoesBackwards(t *testing.T) {
	a, b := Setting{Model: "a"}, Setting{Model: "b"}
	var before []Round
	for i, want := range []bool{false, true, false, true} {
		if got := backwards(before, a); got != want {
			t.Errorf("round %d of the setting: backwards %v", i, got)
		}
		before = append(before, Round{Setting: a}, Round{Setting: b}, Round{Setting: b})
	}
}
