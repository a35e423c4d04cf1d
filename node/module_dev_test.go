package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/extensions/capture"
	modulecheck "corenode/extensions/check"
	"corenode/node/admin"
	"corenode/wasm/builtin"
)

// devLine is what module dev prints of a round.
type devLine struct {
	State   string          `json:"state"`
	Digest  string          `json:"digest"`
	BuildMS int64           `json:"build_ms"`
	LoadMS  int64           `json:"load_ms"`
	SavedMS int64           `json:"saved_ms"`
	Config  bool            `json:"configured"`
	Said    string          `json:"said"`
	Vectors []string        `json:"vectors"`
	Changed *capture.Report `json:"changed"`
}

// devStreams is how many streams run beside the swaps.
const devStreams = 64

// TestModuleDev is an author's loop on a node under load: what is saved serves, what does not
// build or does not pass changes nothing, what changed is shown, no stream fails, and
// the end with --restore leaves the node as it was.
func TestModuleDev(t *testing.T) {
	for _, tool := range []string{"clang", "wasm-ld", "make", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the loop builds a module in C: no %s in the PATH", tool)
		}
	}
	n, base, _, operator := startWithModules(t, instantModels)
	made, err := operator.CreateAccount(admin.NewAccount{Name: "author", Unlimited: true})
	if err != nil {
		t.Fatal(err)
	}
	dir := writeDevProject(t)
	source := filepath.Join(dir, "module.c")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	save := func(old, replacement string) { saveChanged(t, source, string(text), old, replacement) }
	served := func() string {
		object, err := completion(base, made.Key, "hello", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	next, end := startDev(t, n.cfg.DataDir, dir, "--update", "--restore")
	first := next("serves")
	stop := keepStreaming(t, base, made.Key)
	if _, err := operator.Capture("chat", admin.NewCapture{Seconds: 60, Account: "author"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		served()
	}

	saved := time.Now()
	save(`text_completion`, `text_rewritten`)
	for served() != "text_rewritten" {
		time.Sleep(time.Millisecond)
	}
	t.Logf("from the save to an answer of the new build, beside %d streams: %v", devStreams, time.Since(saved).Round(time.Millisecond))
	second := next("serves")
	t.Logf("build %d ms, check and load %d ms, saved to served %d ms", second.BuildMS, second.LoadMS, second.SavedMS)
	if second.Digest == first.Digest || !strings.Contains(strings.Join(second.Vectors, "\n"), "text_rewritten") {
		t.Errorf("the vectors that changed are not shown: %+v", second)
	}
	if c := second.Changed; c == nil || c.Differ == 0 || !strings.Contains(c.First[0].Text, "text_rewritten") || c.First[0].Account != made.ID {
		t.Errorf("the captured requests do not show what changed: %+v", c)
	}

	save("static int cn_request(", "static int cn_request(oops ")
	if broken := next("build"); !strings.Contains(broken.Said, "module.c:") || !strings.Contains(broken.Said, "oops") {
		t.Errorf("a build that fails says %q", broken.Said)
	}
	save("static int cn_events(const cn_events_input *in, cn_state *next)\n{", "static int cn_events(const cn_events_input *in, cn_state *next)\n{\n"+
		"if (in->facts.stream) __builtin_trap();")
	if failing := next("check"); !strings.Contains(failing.Said, "trap") || !strings.Contains(failing.Said, "to do:") {
		t.Errorf("a check that fails says %q", failing.Said)
	}
	if object := served(); object != "text_rewritten" {
		t.Errorf("after builds that failed %q serves", object)
	}
	if streams := stop(); streams < devStreams {
		t.Errorf("%d streams ended", streams)
	}
	end()
	next("restored")
	wantAsBefore(t, base, made.Key, operator)
}

// TestModuleDevConfiguration: a configuration that is saved serves, by the same file; of a
// billing module it does not, and what to do is said.
func TestModuleDevConfiguration(t *testing.T) {
	if testing.Short() {
		t.Skip("a node and two runs of module dev: 3 s, a minute under the race detector")
	}
	n, base, key, _ := startWithModules(t, instantModels)
	data := n.cfg.DataDir
	ask := func() int {
		status, _, _ := wholeChat(t, base, key, `{"model":"core-1.1","max_tokens":1,"messages":[{"role":"user","content":"the weather"}]}`)
		return status
	}
	save, next := devOfBuilt(t, data, "rewrite", `{"refuse":"a topic"}`)
	first := next("serves")
	if status := ask(); status != 200 {
		t.Errorf("status %d", status)
	}
	save(`{"refuse":"weather"}`)
	if second := next("serves"); !second.Config || second.Digest != first.Digest {
		t.Errorf("a saved configuration: %+v", second)
	}
	if status := ask(); status != 400 {
		t.Errorf("status %d with the new configuration", status)
	}
	save(`{ "refuse": "weather" }`)
	next("same")
	save(`{"refuse": 7}`)
	if wrong := next("check"); !strings.Contains(wrong.Said, "configuration.refuse") {
		t.Errorf("a configuration that does not pass says %q", wrong.Said)
	}
	if status := ask(); status != 400 {
		t.Errorf("status %d after a configuration that does not pass", status)
	}

	save, next = devOfBuilt(t, data, "billing", `{"fee_nano":1}`)
	next("serves")
	save(`{"fee_nano":2}`)
	if kept := next("refused"); !strings.Contains(kept.Said, "raise the version") {
		t.Errorf("another configuration of a billing module says %q", kept.Said)
	}
}

// TestModuleDevAtAPlace: a policy at a later place is swapped there, and where nothing served
// --restore leaves nothing, however often it was saved; what was rolled back serves again when it is saved.
func TestModuleDevAtAPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("a node and a run of module dev")
	}
	n, _, _, operator := startWithModules(t, instantModels)
	dir := copyBuilt(t, "rewrite")
	manifest := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	save := func(version string) {
		saveChanged(t, manifest, string(text), `"1.0.0"`, fmt.Sprintf(`"%s", "place": 2`, version))
	}
	serving := func(want string) {
		t.Helper()
		all, err := operator.Modules()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range all {
			if m.Serving && strings.HasPrefix(string(m.Slot), "rewrite") {
				got = append(got, string(m.Slot)+" "+m.Version)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("serving: %q, want %q", got, want)
		}
	}
	save("1.0.1")
	next, end := startDev(t, n.cfg.DataDir, dir, "--build", "true", "--restore")
	next("serves")
	save("1.0.2")
	next("serves")
	serving("rewrite.2 1.0.2")
	if _, err := operator.Rollback("rewrite.2"); err != nil {
		t.Fatal(err)
	}
	saveChanged(t, manifest, string(text)+"\n", `"1.0.0"`, `"1.0.2", "place": 2`)
	next("serves") // again, which the same file did not do any more
	serving("rewrite.2 1.0.2")
	end()
	next("restored")
	serving("")
}

// TestModuleDevKeepsWhatServedBefore: what served at first is not removed when it is saved again
// and does not pass, and serves again at the end.
func TestModuleDevKeepsWhatServedBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("a node and a run of module dev")
	}
	n, _, _, operator := startWithModules(t, instantModels)
	dir := copyBuilt(t, "rewrite")
	built, vectors := filepath.Join(dir, "module.wasm"), filepath.Join(dir, "vectors")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.RemoveAll(vectors))
	module, err := os.ReadFile(built)
	must(err)
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	must(err)
	packed, err := modulecheck.Pack(module, manifest, nil)
	must(err)
	first, err := operator.LoadModule(admin.NewModule{Wasm: packed})
	must(err)
	_, err = operator.ActivateModule(first.Digest)
	must(err)
	next, end := startDev(t, n.cfg.DataDir, dir, "--build", "true", "--restore")
	next("check") // it has no vectors
	must(os.CopyFS(filepath.Join(dir, ".vectors"), os.DirFS("../wasm/examples/vectors/rewrite")))
	must(os.Rename(filepath.Join(dir, ".vectors"), vectors))
	next("serves")
	must(os.WriteFile(built, module, 0o600))
	must(os.RemoveAll(vectors))
	if again := next("check"); again.Digest != first.Digest {
		t.Fatalf("it is another file: %+v", again)
	}
	end()
	next("restored")
	if now, err := operator.Module(first.Digest); err != nil || !now.Serving {
		t.Errorf("%+v, %v", now, err)
	}
}

// copyBuilt makes a project of the example of a kind in C, which is built, and its kind's vectors.
func copyBuilt(t *testing.T, kind string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for to, from := range map[string]string{"": kind + "-c", "vectors": "vectors/" + kind} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(filepath.Join("../wasm/examples", from))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// devOfBuilt runs module dev on an example that is built, with a configuration that save replaces.
func devOfBuilt(t *testing.T, data, kind, configured string) (save func(string), next func(state string) devLine) {
	t.Helper()
	dir, config := copyBuilt(t, kind), filepath.Join(t.TempDir(), "config.json")
	save = func(text string) {
		t.Helper()
		replace(t, config, text)
	}
	save(configured)
	next, _ = startDev(t, data, dir, "--build", "true", "--config", config)
	return save, next
}

// saveChanged writes a source with one text in place of another.
func saveChanged(t *testing.T, path, text, old, replacement string) {
	t.Helper()
	changed := strings.Replace(text, old, replacement, 1)
	if changed == text {
		t.Fatalf("the example has no %q", old)
	}
	replace(t, path, changed)
}

// replace writes a file at once: one that is half written could be taken for saved.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// wantAsBefore: what ships serves the chat slot, and nothing of the project.
func wantAsBefore(t *testing.T, base, key string, operator *admin.Client) {
	t.Helper()
	if status, answer, _ := wholeChat(t, base, key,
		`{"model":"core-1.1","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`); status != 200 {
		t.Errorf("what served before does not serve: %d %s", status, answer)
	}
	var left []extensions.Info
	for range 500 { // the command forgets its builds when it ends
		all, err := operator.Modules()
		if err != nil {
			t.Fatal(err)
		}
		left = slices.DeleteFunc(all, func(m extensions.Info) bool { return m.Name != "dialect" })
		if len(left) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("of the project is left %+v", left)
}

// writeDevProject writes the project that module new writes.
func writeDevProject(t *testing.T) (dir string) {
	t.Helper()
	files, err := builtin.Project("translator", "c", "dialect")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "dialect")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, files[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startDev runs module dev as a program of its own. next waits for its next line, which
// has to be of a state; end is Ctrl-C.
func startDev(t *testing.T, data, dir string, more ...string) (next func(state string) devLine, end func()) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"module", "dev", dir, "--data-dir", data, "--json"}, more...)...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended by then, unless the test failed
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	return func(state string) (l devLine) {
			t.Helper()
			text, err := lines.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(text, &l)
			}
			if err != nil || l.State != state {
				t.Fatalf("module dev: %v\n%s%s, want state %s", err, text, said.String(), state)
			}
			return l
		}, func() {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
}

// keepStreaming has devStreams streams running, one after the other. stop waits for all and
// says how many ended as they should; any other is an error of the test.
func keepStreaming(t *testing.T, base, key string) (stop func() int64) {
	var ended atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	for range devStreams {
		all.Go(func() {
			for !over.Load() {
				if _, err := completion(base, key, "tell me more", 40, 40*time.Millisecond); err != nil {
					t.Errorf("a stream: %v", err)
					return
				}
				ended.Add(1)
			}
		})
	}
	return func() int64 {
		over.Store(true)
		all.Wait()
		return ended.Load()
	}
}

// completion streams an answer of the example's dialect, waiting between two lines, and gives the
// object that its chunks say they are.
func completion(base, key, prompt string, tokens int, wait time.Duration) (object string, err error) {
	body := fmt.Sprintf(`{"model":"core-1.1","prompt":%q,"max_tokens":%d,"stream":true}`, prompt, tokens)
	request, err := http.NewRequest("POST", base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	last := ""
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var chunk struct{ Object string }
		if last = data; json.Unmarshal([]byte(data), &chunk) == nil && chunk.Object != "" {
			object = chunk.Object
		}
		time.Sleep(wait)
	}
	if err := lines.Err(); err != nil || response.StatusCode != http.StatusOK || last != "[DONE]" {
		return object, fmt.Errorf("status %d, ends with %q, %w", response.StatusCode, last, err)
	}
	return object, nil
}
