package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/node/config"
	"corenode/node/metrics"
)

// TestMetricsAreTheDocumentedOnes: after some traffic a node shows every family of the table, with
// its labels, and none besides; promtool finds nothing wrong with the page.
func TestMetricsAreTheDocumentedOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("a node with all its modules: 3 s, and many times that under the race detector")
	}
	n, base, key := startNode(t, withElsewhere)
	<-n.modules.Ready()
	for _, body := range []string{`{"model":"core-1.1-mini","max_tokens":8,"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"core-1.1-mini","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}`, `{"model":"none"}`} {
		postMessages(t, base, key, body)
	}
	page := scraped(t, n)
	for end := time.Now().Add(10 * time.Second); !strings.Contains(page, "corenode_request_seconds_count 3\n") && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // a request is counted behind its last byte
		page = scraped(t, n)
	}
	live := seriesOf(page)
	var counting bytes.Buffer
	writeModule(&counting, extensions.Info{Slot: extensions.SlotChat, Name: "m", Version: "1.0.0", Digest: "d", Metrics: map[int]int64{3: 1}})
	maps.Copy(live, seriesOf(counting.String())) // of a module that counts, which no shipped one does
	documented := map[string]bool{}
	for m := range metrics.All() {
		documented[m.Name] = true
		labels, found := live[m.Name]
		switch {
		case !found && (m.When == "" || strings.HasPrefix(m.Name, "corenode_") || m.When == "on Linux" && runtime.GOOS == "linux"):
			t.Errorf("%s is documented, and a node does not show it", m.Name)
		case found && !slices.Equal(labels, slices.Sorted(slices.Values(m.Labels))):
			t.Errorf("%s has the labels %v, documented are %v", m.Name, labels, m.Labels)
		}
	}
	for name := range live {
		if !documented[name] {
			t.Errorf("a node shows %s, which is not documented", name)
		}
	}
	for _, want := range []string{`corenode_request_phase_seconds_count{phase="decode"} `, `corenode_request_phase_seconds_count{phase="prepare"} `,
		`corenode_request_phase_seconds_count{phase="settle"} `, `corenode_request_input_tokens_count `} {
		if !strings.Contains(page, want+"2\n") {
			t.Errorf("not of two requests: %s\n%s", want, regexp.MustCompile(`(?m)^corenode_request_.*_count.*$`).FindAllString(page, -1))
		}
	}
	promtoolTakes(t, page)
}

// withElsewhere has instant models, and one whose server is down.
func withElsewhere(cfg *config.Config) {
	instantModels(cfg)
	cfg.Models["elsewhere"] = config.Model{Engine: config.EngineUpstream, ContextLength: 4096,
		Upstream: config.Upstream{Flavor: "vllm", URLs: []string{"http://127.0.0.1:1"}, Model: "x"}}
}

func scraped(t *testing.T, n *node) string {
	t.Helper()
	r, err := http.Get("http://" + n.admin.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", r.StatusCode, err)
	}
	return string(text)
}

// seriesOf are the families of a page with the names of their labels, sorted, without those of
// buckets and quantiles.
func seriesOf(page string) map[string][]string {
	sample, label := regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? `), regexp.MustCompile(`([a-zA-Z_]+)="`)
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(page, -1) {
		types[m[1]] = m[2]
	}
	all := map[string][]string{}
	for _, m := range sample.FindAllStringSubmatch(page, -1) {
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && (types[base] == "histogram" || types[base] == "summary") {
				name = base
			}
		}
		labels := []string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" && l[1] != "quantile" {
				labels = append(labels, l[1])
			}
		}
		slices.Sort(labels)
		all[name] = labels
	}
	return all
}

func postMessages(t *testing.T, base, key, body string) {
	t.Helper()
	fetch(t, "POST", base+"/v1/messages", body, http.Header{"X-Api-Key": {key}, "Content-Type": {"application/json"}})
}

// promtoolTakes checks a page where promtool is installed.
func promtoolTakes(t *testing.T, page string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("the page was not checked: there is no promtool here (Debian: prometheus)")
		return
	}
	cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
