package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/extensions/check"
	"corenode/node/admin"
	"corenode/node/cli/devloop"
)

// devProject is a built example with vector files of a test.
func devProject(t *testing.T, example string, vectors map[string]string) *devLoop {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../wasm/examples", example))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "vectors"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range vectors {
		if err := os.WriteFile(filepath.Join(dir, "vectors", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	project, err := devloop.Open(dir, "true")
	if err != nil {
		t.Fatal(err)
	}
	return &devLoop{devOptions: devOptions{update: true}, project: project}
}

// wantUpdate updates the vectors of a project: so many changed, and only the named files were written.
func (l *devLoop) wantUpdate(t *testing.T, changed int, files ...string) []string {
	t.Helper()
	folder := l.project.Vectors()
	before := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if before[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	module, err := l.project.Pack()
	if err != nil {
		t.Fatal(err)
	}
	l.wrote = nil
	_, said, err := l.updateVectors(module)
	if err != nil || len(said) != changed {
		t.Errorf("%d vectors changed, want %d: %v\n%s", len(said), changed, err, strings.Join(said, "\n"))
	}
	var wrote []string
	for _, name := range l.wrote {
		wrote = append(wrote, filepath.Base(name))
	}
	if strings.Join(wrote, " ") != strings.Join(files, " ") {
		t.Errorf("wrote %v, want %v", wrote, files)
	}
	for name, text := range before {
		now, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if same := bytes.Equal(now, text); same == strings.Contains(strings.Join(files, " "), filepath.Base(name)) {
			t.Errorf("%s is as before: %v", filepath.Base(name), same)
		}
	}
	return said
}

// TestDevUpdateWritesWhatChanged: a file without a vector that changed stays as it was laid out, and
// every vector that changed is told, as many as there are.
func TestDevUpdateWritesWhatChanged(t *testing.T) {
	const good = `[{"name":"stays","op":"rewrite","rewrite":{"body":{"a":1}},"want":{"body":{"a":1}}}]`
	const many = 20
	var wrong []string
	for i := range many {
		wrong = append(wrong, fmt.Sprintf(`{"name":"wrong %d","op":"rewrite","rewrite":{"body":{"a":%d}},"want":{"body":{"a":"x"}}}`, i, i))
	}
	l := devProject(t, "rewrite-c", map[string]string{"a.json": good, "b.json": "[" + strings.Join(wrong, ",") + "]"})
	said := l.wantUpdate(t, many, "b.json")
	for i, text := range said {
		if !strings.Contains(text, fmt.Sprintf(`"wrong %d"`, i)) || !strings.Contains(text, "want") {
			t.Errorf("of vector %d it says %q", i, text)
		}
	}
	var out bytes.Buffer
	l.show(&out, false, devRound{State: devSame, Vectors: said})
	if text := out.String(); !strings.Contains(text, `"wrong 11"`) || strings.Contains(text, `"wrong 12"`) ||
		!strings.Contains(text, "8 more vectors") {
		t.Errorf("a person reads\n%s", text)
	}
	out.Reset()
	var line devRound
	if l.show(&out, true, devRound{State: devSame, Vectors: said}); json.Unmarshal(out.Bytes(), &line) != nil || len(line.Vectors) != many {
		t.Errorf("a program reads\n%s", out.String())
	}
	l.wantUpdate(t, 0)
}

// TestDevUpdateCountsNoNotes: what else a check has to tell of the vectors is no vector that changed.
func TestDevUpdateCountsNoNotes(t *testing.T) {
	devProject(t, "translator-verse-rust", nil).wantUpdate(t, 0)
}

// TestDevForgetsWhatIsNotActivated: a build that the node loads and does not let serve is removed again, unless it
// serves or served at first.
func TestDevForgetsWhatIsNotActivated(t *testing.T) {
	const build = "sha256:bbbb"
	var removed []string
	dir := answeringBy(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "DELETE":
			removed = append(removed, path.Base(r.URL.Path))
		case strings.HasSuffix(r.URL.Path, "/activate"):
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":{"kind":"conflict","message":"another module has the path"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"digest":"` + build + `"}`))
	})
	node, err := admin.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before string
		want   int
	}{{"", 1}, {build, 0}} {
		l := devProject(t, "rewrite-c", map[string]string{
			"a.json": `[{"name":"v","op":"rewrite","rewrite":{"body":{"a":1}},"want":{"body":{"a":1}}}]`})
		l.update, l.node, l.before, removed = false, node, c.before, nil
		r := l.round(t.Context(), time.Time{})
		if r.State != devRefused || len(removed) != c.want || c.want > 0 && removed[0] != build {
			t.Errorf("before %q: %+v, removed %q", c.before, r, removed)
		}
	}
}

// TestDevSaysHowToGoBack: the last line does, also of a build that fails or that Ctrl-C ends, while a build of this run serves.
func TestDevSaysHowToGoBack(t *testing.T) {
	const before, build = "sha256:aaaaaaaaaaaaaaaaaaaa", "sha256:bbbbbbbbbbbbbbbbbbbb"
	last := func(l devLoop, state string) string {
		var b strings.Builder
		l.show(&b, false, devRound{State: state, Module: "discount@1", Digest: l.serving, Said: "signal: interrupt"})
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		return lines[len(lines)-1]
	}
	for _, state := range []string{devServes, devSame, devBuild, devCheck, devRefused} {
		want := "  to go back: corenode module activate " + extensions.Abbreviate(before)
		if got := last(devLoop{slot: "billing", before: before, serving: build}, state); got != want {
			t.Errorf("%s: the last line is %q, want %q", state, got, want)
		}
		for _, l := range []devLoop{{before: before, serving: before}, {serving: build},
			{before: before, serving: build, devOptions: devOptions{restore: true}}} {
			if got := last(l, state); strings.Contains(got, "go back") {
				t.Errorf("%s, with nothing to go back to: %q", state, got)
			}
		}
	}
}

// TestDevShowsHowMuchMoreIsWrong: findings beyond those that a report lists are counted.
func TestDevShowsHowMuchMoreIsWrong(t *testing.T) {
	var wrong []string
	for i := range 20 {
		wrong = append(wrong, fmt.Sprintf(`{"name":"wrong %d","op":"rewrite","rewrite":{"body":{"a":1}},"want":{"body":{"a":"x"}}}`, i))
	}
	l := devProject(t, "rewrite-c", map[string]string{"a.json": "[" + strings.Join(wrong, ",") + "]"})
	module, err := l.project.Pack()
	if err != nil {
		t.Fatal(err)
	}
	text := findings(check.File(module, check.Options{Calls: devCalls, Quick: true}, nil))
	if !strings.Contains(text, "vectors: and 8 more") {
		t.Error(text)
	}
}
