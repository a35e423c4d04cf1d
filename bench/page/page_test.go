package page

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"corenode/bench/proc"
	"corenode/bench/result"
	"corenode/bench/stats"
)

// file is a result of a model with a wicked name.
func file() result.File {
	rec := stats.New(stats.Config{From: time.Second, Until: 9 * time.Second, Streamed: true})
	for i := range 90 {
		at := time.Duration(i) * 100 * time.Millisecond
		first := at + time.Duration(20+i)*time.Millisecond
		one := stats.Record{Turn: 1, Intended: at, Sent: at, First: first, Last: first + 10*time.Millisecond,
			End: first + 10*time.Millisecond, RetryAfter: -1, Queue: -1,
			InputTokens: 10, OutputTokens: 2, UsageKnown: true, Outputs: 2, Gaps: []time.Duration{10 * time.Millisecond}}
		if i%10 == 0 {
			one = stats.Record{Turn: 1, Intended: at, Sent: at, First: -1, Last: -1, End: at, RetryAfter: time.Second, Queue: -1,
				Kind: "http_429", Detail: "<b>slow</b>"}
		}
		rec.Begin(at)
		rec.Add(&one)
	}
	return result.New(proc.Host{Processor: "p"}, result.Conditions{URL: "http://127.0.0.1:1", Model: `<script>alert("x")</script>`, Protocol: "chat", Stream: true, Loop: "closed", Clients: 1, Turns: 1,
		Objectives: []string{"ttft=1s"}}, []stats.Run{rec.Finish()})
}

// external finds what would be loaded from elsewhere.
var external = regexp.MustCompile(`(?i)<(link|img|iframe|object)|\bsrc=|@import|url\(|fetch\(|XMLHttpRequest|href=`)

var chartData = regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`)

func check(t *testing.T, page string, charts int) {
	if !strings.Contains(page, library) {
		t.Error("the page does not hold what draws its charts")
	}
	page = strings.Replace(page, library, "", 1)
	if at := external.FindString(page); at != "" {
		t.Errorf("the page needs something else: %s", at)
	}
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<b>slow") {
		t.Error("a text of others became markup")
	}
	data := chartData.FindAllStringSubmatch(page, -1)
	if len(data) != charts || strings.Count(page, "<canvas") != charts {
		t.Errorf("%d charts, want %d", len(data), charts)
	}
	for _, d := range data {
		var c chart
		if err := json.Unmarshal([]byte(d[1]), &c); err != nil || c.Title == "" || len(c.Series) == 0 {
			t.Errorf("a chart's data: %v: %s", err, d[1])
		}
		for _, s := range c.Series {
			if len(s.X) != len(s.Y) || len(s.X) == 0 {
				t.Errorf("%s, %s: %d values at %d places", c.Title, s.Name, len(s.Y), len(s.X))
			}
		}
	}
	if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "NaN") {
		t.Error("a value was refused by the template, or is none")
	}
}

func TestPageOfALoad(t *testing.T) {
	var b bytes.Buffer
	if err := Load(&b, file()); err != nil {
		t.Fatal(err)
	}
	check(t, b.String(), 9)
	for _, want := range []string{"Time to first token", "Histogram of ITL", "Tokens per second", "In flight", "http_429", "prefers-color-scheme: dark", "@media print", "objectives"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}

// A load that was interrupted before anything was due has no share of failures, nor has its page.
func TestPageOfAnEmptyRun(t *testing.T) {
	run := stats.New(stats.Config{From: time.Minute, Until: time.Minute, Streamed: true}).Finish()
	none := result.New(proc.Host{}, result.Conditions{URL: "http://127.0.0.1:1", Stream: true, Loop: "closed", Clients: 1, Turns: 1}, []stats.Run{run})
	if list := tiles(&none); len(list) != 0 {
		t.Errorf("tiles %+v", list)
	}
	some := file()
	if list := tiles(&some); len(list) == 0 || list[len(list)-1] != (tile{Name: "failed or not sent", Value: "10.0 %"}) {
		t.Errorf("tiles %+v", list)
	}
	var b bytes.Buffer
	if err := Load(&b, none); err != nil {
		t.Fatal(err)
	}
	check(t, b.String(), 0)
}

func TestPageOfASweep(t *testing.T) {
	var b bytes.Buffer
	if err := Sweep(&b, result.NewSweep("clients", []result.Level{{At: 1, File: file()}, {At: 8, File: file()}})); err != nil {
		t.Fatal(err)
	}
	check(t, b.String(), 6)
	if !strings.Contains(b.String(), "1 clients") {
		t.Error("no knee")
	}
}

// Columns hold every value once, side by side.
func TestColumns(t *testing.T) {
	var s stats.Histogram
	for i := range 10_000 {
		s.Add(time.Duration(i*i) * time.Microsecond)
	}
	s.Add(0)
	edges, share := columns(s.Bars())
	sum := 0.0
	for i := range share {
		sum += share[i]
		if i > 0 && edges[i] <= edges[i-1] {
			t.Errorf("edge %d at %v after %v", i, edges[i], edges[i-1])
		}
	}
	if math.Abs(sum-100) > 1e-9 || share[len(share)-1] != 0 || len(share) > columnsMax+2 {
		t.Errorf("%v %% in %d columns", sum, len(share))
	}
	if edges, _ := columns(nil); edges != nil {
		t.Error("columns of nothing")
	}
	var one stats.Histogram
	one.Add(5 * time.Millisecond)
	if _, share := columns(one.Bars()); len(share) < 2 || len(share) > 3 {
		t.Errorf("one value in %d columns", len(share)-1)
	}
}

func TestChartsOfNothing(t *testing.T) {
	for _, c := range []chart{{}, {Series: []series{{X: numbers{1}, Y: numbers{math.NaN()}}}}} {
		if !c.empty() {
			t.Errorf("%+v is not empty", c)
		}
	}
	one := chart{LogX: true, LogY: true, Series: []series{{X: numbers{1, 9}, Y: numbers{0, math.NaN()}}}}
	if one.empty() {
		t.Error("a zero is something")
	}
	if data, err := one.data(); err != nil || !strings.Contains(string(data), `"LogX":true,"LogY":false`) || !strings.Contains(string(data), `"Y":[0,null]`) {
		t.Errorf("%s, %v", data, err)
	}
}
