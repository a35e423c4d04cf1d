package metrics

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the tables of OPERATING.md; read the diff before you commit it")

const document = "../OPERATING.md"

// TestDocument: OPERATING.md says what the table says.
func TestDocument(t *testing.T) {
	old, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	now := string(old)
	for name, text := range map[string]string{"metrics": markdown(), "alerts": alertsMarkdown()} {
		begin := "<!-- table: " + name + " (made by go test ./node/metrics -update) -->\n"
		end := "<!-- table: end of " + name + " -->\n"
		before, rest, found := strings.Cut(now, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no marks of the table %s", document, name)
		}
		now = before + begin + "\n" + strings.TrimRight(text, "\n") + "\n\n" + end + after
	}
	if now == string(old) {
		return
	}
	if !*update {
		t.Fatalf("%s does not say what the table says: go test ./node/metrics -update", document)
	}
	if err := os.WriteFile(document, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTable: names, types and units go together, and every family is drawn or says why not.
func TestTable(t *testing.T) {
	name, seen := regexp.MustCompile(`^(corenode|process|go)(_[a-z]+)+$`), map[string]bool{}
	for m := range All() {
		fail := func(format string, args ...any) { t.Errorf(m.Name+": "+format, args...) }
		switch {
		case !name.MatchString(m.Name) || seen[m.Name]:
			fail("is no name, or there twice")
		case (m.Type == Counter) != strings.HasSuffix(m.Name, "_total"):
			fail("a %s", m.Type)
		case m.Help == "" || strings.HasSuffix(m.Help, "."):
			fail("says %q", m.Help)
		case (m.Unit == "seconds" || m.Unit == "bytes") != (strings.Contains(m.Name, "_seconds") || strings.Contains(m.Name, "bytes")):
			fail("the unit %q", m.Unit)
		case (m.Panel == "") == (m.Hidden == ""):
			fail("is on the panel %q and on none because %q", m.Panel, m.Hidden)
		}
		seen[m.Name] = true
	}
	if len(seen) < 100 {
		t.Errorf("only %d families", len(seen))
	}
}

// familiesOf are the families that an expression reads.
func familiesOf(t *testing.T, expr string) (all []string) {
	t.Helper()
	for _, found := range series.FindAllStringSubmatch(expr, -1) {
		place, ok := known()[found[1]]
		if !ok {
			t.Errorf("%s reads %s, which is not in the table", expr, found[1])
			continue
		}
		all = append(all, slices.Collect(All())[place].Name)
	}
	return all
}

// TestPanels: every family is on the panel that it names, and no panel draws another one.
func TestPanels(t *testing.T) {
	drawn := map[string][]string{}
	for _, row := range Rows() {
		for _, p := range row.Panels {
			if drawn[p.Title] != nil {
				t.Errorf("two panels %s", p.Title)
			}
			for _, q := range p.Queries {
				drawn[p.Title] = append(drawn[p.Title], familiesOf(t, q.Expr)...)
			}
			if len(drawn[p.Title]) == 0 {
				t.Errorf("panel %s draws nothing", p.Title)
			}
			wantPercentiles(t, p)
		}
	}
	for m := range All() {
		if m.Panel != "" && !slices.Contains(drawn[m.Panel], m.Name) {
			t.Errorf("%s is not on the panel %q", m.Name, m.Panel)
		}
		for title, names := range drawn {
			if m.Hidden != "" && slices.Contains(names, m.Name) {
				t.Errorf("%s is on no panel because %q, and on %q", m.Name, m.Hidden, title)
			}
		}
	}
}

// wantPercentiles holds the legends of quantiles to what they are: 0.5 is the 50th percentile.
func wantPercentiles(t *testing.T, p Panel) {
	t.Helper()
	for _, q := range p.Queries {
		after, is := strings.CutPrefix(q.Expr, "histogram_quantile(")
		if !is {
			continue
		}
		number, _, _ := strings.Cut(after, ",")
		quantile, err := strconv.ParseFloat(number, 64)
		if want := fmt.Sprintf("p%.0f", 100*quantile); err != nil || q.Legend != want {
			t.Errorf("%s of panel %s is called %q, want %q: %v", number, p.Title, q.Legend, want, err)
		}
	}
}

// TestDashboard: it is JSON, its panels have ids of their own and places that do not overlap.
func TestDashboard(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDashboard(&b); err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" || at[0] >= 24 {
					t.Fatalf("%s lies at %v, where %q is", p.Title, at, other)
				}
				taken[at] = p.Title
			}
		}
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, `{instance=~"$instance"`) {
				t.Errorf("%s is not narrowed to the chosen nodes: %s", p.Title, q.Expr)
			}
		}
	}
	// Grafana puts it in the place of all nodes as it is, and what else Prometheus scrapes has the names of the process too.
	if strings.Contains(b.String(), "allValue") {
		t.Error("all nodes are not those that corenode_info names")
	}
	if len(d.Panels) < 50 {
		t.Errorf("only %d panels", len(d.Panels))
	}
}

// promtool runs it where it is installed.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("not run: there is no promtool here (Debian: prometheus)")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// scrapesApart is the least range in which two samples are sure to lie where Prometheus scrapes once a minute, as
// it does unless it is told otherwise. In a shorter one there is no rate, and the alert never fires.
const scrapesApart = 2 * time.Minute

// TestRules: the alerts read families of the table, over ranges in which there is something, and those whose row says so.
// Prometheus takes the file.
func TestRules(t *testing.T) {
	ranges, read := 0, map[string]bool{}
	for _, a := range Alerts() {
		for _, name := range familiesOf(t, a.Expr) {
			read[name] = true
		}
		for _, found := range regexp.MustCompile(`\[([^\]]+)\]`).FindAllStringSubmatch(a.Expr, -1) {
			ranges++
			if length, err := time.ParseDuration(found[1]); err != nil || length < scrapesApart {
				t.Errorf("%s looks at %s, want %v at least: %v", a.Name, found[0], scrapesApart, err)
			}
		}
	}
	if ranges == 0 {
		t.Error("no alert looks at a range")
	}
	for m := range All() {
		if strings.Contains(m.Watch, "alert") && !read[m.Name] {
			t.Errorf("%s: %q, and no alert reads it", m.Name, m.Watch)
		}
	}
	var b bytes.Buffer
	if err := WriteRules(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "- alert: "); n != len(Alerts()) || strings.Contains(b.String(), "](#") {
		t.Errorf("%d alerts:\n%s", n, &b)
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", path)
}

// TestExpressions: Prometheus takes every expression of the dashboard.
func TestExpressions(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: panels\n    rules:\n")
	n := 0
	for _, row := range Rows() {
		for _, p := range row.Panels {
			for _, q := range p.Queries {
				expr := strings.ReplaceAll(ofInstance(q.Expr), "$__rate_interval", "1m")
				fmt.Fprintf(&rules, "      - record: panel:%d\n        expr: %s\n", n, quoted(expr))
				n++
			}
		}
	}
	path := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(path, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", path)
}

// TestWrite: samples in any order come out family by family, each with what it is.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	Write(&b, []byte("corenode_odd{a=\"b\"} 1\n"+
		"go_memstats_lookups_total 0\n"+
		"# TYPE corenode_draining gauge\ncorenode_draining 0\n"+
		"corenode_ttft_seconds_bucket{le=\"1\"} 2\ncorenode_ttft_seconds_sum 1\ncorenode_ttft_seconds_count 2\n"+
		"corenode_refusals_total{kind=\"internal\"} 1\ncorenode_panics_total 3\ncorenode_refusals_total{kind=\"timeout\"} 4\n"))
	want := "# HELP corenode_refusals_total Requests that ended in an error before they were admitted. Where a server elsewhere " +
		"refuses or fails, a stream is; an answer without streaming was admitted when it was asked\n# TYPE corenode_refusals_total counter\n" +
		"corenode_refusals_total{kind=\"internal\"} 1\ncorenode_refusals_total{kind=\"timeout\"} 4\n" +
		"# HELP corenode_panics_total Panics in the front end, answered with a 500\n# TYPE corenode_panics_total counter\ncorenode_panics_total 3\n" +
		"# HELP corenode_draining 1 while the node drains\n# TYPE corenode_draining gauge\ncorenode_draining 0\n" +
		"# HELP corenode_ttft_seconds Streams: last request byte read to first token written\n# TYPE corenode_ttft_seconds histogram\n" +
		"corenode_ttft_seconds_bucket{le=\"1\"} 2\ncorenode_ttft_seconds_sum 1\ncorenode_ttft_seconds_count 2\n" +
		"corenode_odd{a=\"b\"} 1\n"
	if b.String() != want {
		t.Errorf("written\n%s, want\n%s", &b, want)
	}
	promtool(t, []byte(strings.TrimSuffix(want, "corenode_odd{a=\"b\"} 1\n")), "check", "metrics")
}

func TestSamples(t *testing.T) {
	got := map[string]float64{}
	for series, value := range Samples([]byte("# HELP a b\na 3\nb{x=\"y z\"} 0.5\nnonsense\n\nc NaN\nd four\n")) {
		got[string(series)] = value
	}
	if got["a"] != 3 || got[`b{x="y z"}`] != 0.5 || !math.IsNaN(got["c"]) || len(got) != 3 {
		t.Errorf("%v", got)
	}
}
