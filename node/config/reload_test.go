package config

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestReload: what can change does, in a new value; what cannot is named.
func TestReload(t *testing.T) {
	read := func(text string) *Config {
		t.Helper()
		c, _, problems := build([]byte(text), Sources{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return c
	}
	key := strings.Repeat("A", 43) + "="
	const models = "\nmodels:\n  a: {engine: instant, prices: {input: 1, cached_input: 1, output: 1}}\n  b: {engine: instant, prices: {input: 1, cached_input: 1, output: 1}}\n"
	running := read("log: {level: info}" + models)
	before := *running
	next := read("log: {level: debug}\nmodules: {trusted_keys: [" + key + "], instances_max: 3}\nlimits: {keepalive: 5s}\n" + strings.ReplaceAll(strings.Replace(models,
		"  a: {engine: instant", "  a: {sampling: {top_k: 4}, kv: {page_tokens: 16}, engine: instant", 1), "  b:", "  c:"))
	now, changed, waits := Reload(running, next)
	if want := []string{"log.level", "modules.trusted_keys", "models.a.sampling.top_k"}; !slices.Equal(changed, want) {
		t.Errorf("changed %v, want %v", changed, want)
	}
	if want := []string{"limits.keepalive", "modules.instances_max", "models.a.kv.page_tokens", "models.b", "models.c"}; !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if !reflect.DeepEqual(*running, before) || now.Log.Level != "debug" || len(now.Modules.TrustedKeys) != 1 ||
		now.Modules.InstancesMax != 0 || len(now.Models) != 2 {
		t.Errorf("running is %+v, now %+v", running, now)
	}
	if _, changed, waits := Reload(now, now); changed == nil || waits == nil || len(changed)+len(waits) > 0 {
		t.Errorf("against itself: %v, %v", changed, waits)
	}
	if top := now.Models["a"].Sampling.TopK; top == nil || *top != 4 || running.Models["a"].Sampling.TopK != nil {
		t.Errorf("sampling is %v", top)
	}
	dearer := read("log: {level: info}" + strings.Replace(models, "output: 1", "output: 2", 1))
	if now, changed, waits := Reload(running, dearer); !slices.Equal(changed, []string{"models.a.prices.output"}) || len(waits) > 0 ||
		!PricesChanged(changed) || now.Models["a"].Prices.Output != 2000 || running.Models["a"].Prices.Output != 1000 {
		t.Errorf("prices: changed %v, waits %v, now %+v", changed, waits, now.Models["a"].Prices)
	}
	far := func(upstream string) *Config {
		return read("models: {a: {engine: upstream, context_length: 9, prices: {input: 1, cached_input: 1, output: 1}, upstream: {" + upstream + "}}}")
	}
	was := far("flavour: llama-server, urls: [http://a]")
	if now, changed, waits := Reload(was, far("flavour: llama-server, urls: [http://a], sampling: [min_tokens]")); len(waits) > 0 ||
		!slices.Equal(changed, []string{"models.a.upstream.sampling"}) || len(now.Models["a"].Upstream.Sampling) != 1 {
		t.Errorf("fields that servers know: changed %v, wait %v", changed, waits)
	}
	if _, changed, waits := Reload(was, far("flavour: chat, tokenizer: t, urls: [http://a], sampling: [top_k]")); len(changed) > 0 || len(waits) != 3 {
		t.Errorf("with another flavor: changed %v, wait %v", changed, waits)
	}
	was = far("flavour: chat, tokenizer: t, key_file: a.key, model: x, urls: [http://a]")
	if now, changed, _ := Reload(was, far("flavour: chat, tokenizer: t, key_file: a.key, model: x, urls: [http://b], stall_timeout: 9s")); !slices.Equal(changed,
		[]string{"models.a.upstream.urls"}) || now.Models["a"].Upstream.URLs[0] != "http://b" {
		t.Errorf("other servers, asked as before: changed %v", changed)
	}
	for _, next := range []string{
		"flavour: vllm, key_file: a.key, model: x, urls: [http://b]",
		"flavour: chat, tokenizer: t, key_file: b.key, model: x, urls: [http://b]",
		"flavour: chat, tokenizer: t, key_file: a.key, model: y, urls: [http://b]",
		"flavour: chat, tokenizer: other, key_file: a.key, model: x, urls: [http://b]",
	} {
		if _, changed, waits := Reload(was, far(next)); len(changed) > 0 || !slices.Contains(waits, "models.a.upstream.urls") {
			t.Errorf("%s: changed %v, wait %v", next, changed, waits)
		}
	}
	if PricesChanged([]string{"log.level", "models.a.sampling.top_k"}) {
		t.Error("other keys are prices")
	}
	known := leavesOf(Default())
	for _, key := range reloadable {
		if !slices.ContainsFunc(known, func(l leaf) bool { return l.key == key }) {
			t.Errorf("%s is no key", key)
		}
	}
}

// TestRereadOfWhatIsGone: a pipe that was read, also one with a name, and a file that was cut to nothing are no wish for the
// defaults. A file that another takes the place of is read, also through a link.
func TestRereadOfWhatIsGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("listen: 127.0.0.1:9\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	pipe := Sources{File: fmt.Sprintf("/dev/fd/%d", r.Fd())}
	c, origins, err := Load(pipe)
	if err != nil || c.Listen != "127.0.0.1:9" {
		t.Fatalf("from a pipe: %+v, %v", c, err)
	}
	dir := t.TempDir()
	named := Sources{File: filepath.Join(dir, "named")} // nobody writes to it: who opens it waits
	if err := exec.Command("mkfifo", named.File).Run(); err != nil {
		t.Skipf("no named pipe: %v", err)
	}
	for _, from := range []Sources{pipe, named} {
		if c, _, err := Reread(from, origins); err == nil || !strings.Contains(err.Error(), "a pipe, which is read at a start only") {
			t.Errorf("from %s again: %+v, %v", from.File, c, err)
		}
	}
	named.Environment = []string{"CORENODE_LISTEN=127.0.0.1:8"}
	p := LoadPartial(named) // which nobody writes to either
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "a named pipe") || !p.Known("listen") || p.Known("data_dir") {
		t.Errorf("of what a node runs by: %v", err)
	}
	if p := LoadPartial(pipe); p.Err() != nil {
		t.Errorf("of a pipe of the command's own: %v", p.Err())
	}
	link := Sources{File: filepath.Join(dir, "corenode.yaml"), Environment: []string{"CORENODE_LISTEN=127.0.0.1:8"}}
	turn := func(text string) { // as a volume of Kubernetes does
		t.Helper()
		file := filepath.Join(t.TempDir(), "corenode.yaml")
		err := os.WriteFile(file, []byte(text), 0o600)
		if err == nil {
			err = os.Symlink(file, link.File+".next")
		}
		if err == nil {
			err = os.Rename(link.File+".next", link.File)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	origins = Origins{}
	for _, step := range []struct{ text, level, wrong string }{
		{"# all as it is\n", "info", ""}, {"log: {level: warn}\n", "warn", ""}, {"", "", "no key"}, {"# gone\n", "", "no key"},
		{"{}\n", "", "no key"}, {"log: {level: debug}\n", "debug", ""}, {"log:\n", "info", ""},
		{"listen: 127.0.0.1:7\n", "info", ""}, {"", "", "no key"},
	} {
		turn(step.text)
		c, next, err := Reread(link, origins)
		switch {
		case step.wrong != "":
			if err == nil || !strings.Contains(err.Error(), step.wrong) {
				t.Errorf("%q: %+v, %v", step.text, c, err)
			}
		case err != nil || c.Log.Level != step.level:
			t.Errorf("%q: %+v, %v", step.text, c, err)
		default:
			origins = next
		}
	}
}
