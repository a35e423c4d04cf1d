package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"

	"corenode/engine/embedded"
	"corenode/node/admin"
	"corenode/node/config"
)

// restarted is a node that a test stops and starts again on one data folder.
type restarted struct {
	t    *testing.T
	cfg  *config.Config
	log  bytes.Buffer
	node *node
}

func (r *restarted) start() {
	r.t.Helper()
	r.log.Reset()
	n, err := start(r.cfg, &r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	r.node = n
}

func (r *restarted) stop() {
	r.t.Helper()
	if r.node == nil {
		return
	}
	n := r.node
	r.node = nil
	if err := n.stop(); err != nil {
		r.t.Error(err)
	}
}

func (r *restarted) again() { r.t.Helper(); r.stop(); r.start() }

// turns asks for the next answer of a conversation and returns it with what was cached.
func (r *restarted) turns(key string, texts ...string) (answer string, cached, input int64) {
	r.t.Helper()
	p := ask(12, "")
	p.Messages = nil
	for i, text := range texts {
		say := anthropic.NewUserMessage
		if i%2 == 1 {
			say = anthropic.NewAssistantMessage
		}
		p.Messages = append(p.Messages, say(anthropic.NewTextBlock(text)))
	}
	c := client("http://"+r.node.public.Addr().String(), key)
	m, err := c.Messages.New(r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, b := range m.Content {
		answer += b.Thinking + b.Text
	}
	return answer, m.Usage.CacheReadInputTokens, m.Usage.InputTokens + m.Usage.CacheReadInputTokens
}

// TestPrefixCacheOutlivesARestart: with cache.keep the second turn of a long conversation hits
// after a restart as much as before it and gets the same answer at the same price. Another
// account's key, a cut file and a changed model file hit nothing; without cache.keep the files go.
func TestPrefixCacheOutlivesARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("six starts of a node and six prefills; takes 5 s")
	}
	dir := t.TempDir()
	model := filepath.Join(dir, "model.gguf")
	if err := os.WriteFile(model, embedded.Model("core-1.1-mini"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &restarted{t: t, cfg: config.Default()}
	r.cfg.Listen, r.cfg.DataDir, r.cfg.Modules.CacheDir = "127.0.0.1:0", filepath.Join(dir, "data"), moduleCache
	r.cfg.Cache.Keep = 64 << 20
	m := r.cfg.Models["core-1.1-mini"]
	m.Path, m.ContextLength, m.KV.MemoryBytes, m.KV.StateMemoryBytes = model, 8192, 256<<20, 64<<20
	r.cfg.Models = map[string]config.Model{"core-1.1-mini": m}
	r.start()
	defer r.stop()
	secret, err := os.ReadFile(r.node.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	key, other := strings.TrimSpace(string(secret)), otherKey(t, r.node)
	long := strings.Repeat("The river is long and the boat is small. ", 30)
	first, _, input := r.turns(key, long)
	before, wantCached, _ := r.turns(key, long, first, "And the boat?")

	r.again()
	if after, cached, _ := r.turns(key, long, first, "And the boat?"); cached < input/2 || cached < wantCached || after != before {
		t.Errorf("after a restart %d tokens are cached, want %d; answer %q, want %q", cached, wantCached, after, before)
	}
	if _, cached, _ := r.turns(other, long, first, "And the boat?"); cached != 0 {
		t.Errorf("another account hits %d tokens", cached)
	}

	r.stop()
	files, err := filepath.Glob(filepath.Join(r.cfg.DataDir, "kept", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if err := os.Truncate(files[0], info.Size()-1); err != nil {
		t.Fatal(err)
	}
	r.start()
	if _, cached, _ := r.turns(key, long, first, "And the boat?"); cached != 0 {
		t.Errorf("%d tokens are cached after the file was cut", cached)
	}

	data := bytes.Clone(embedded.Model("core-1.1-mini"))
	data[len(data)-1] ^= 1
	r.stop()
	if err := os.WriteFile(model, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	if _, cached, _ := r.turns(key, long, first, "And the boat?"); cached != 0 {
		t.Errorf("%d tokens are cached after the model file was changed", cached)
	}
	r.cfg.Cache.Keep = 0
	r.again()
	if _, cached, _ := r.turns(key, long, first, "And the boat?"); cached != 0 {
		t.Errorf("%d tokens are cached though nothing is kept", cached)
	}
	if files, _ := filepath.Glob(filepath.Join(r.cfg.DataDir, "kept", "*")); len(files) > 0 {
		t.Errorf("there are still %v", files)
	}
}

// TestKeptCachesOfFormerModelsGo: what a model's prompts left does not outlive the model, whatever
// characters the path of the data folder has.
func TestKeptCachesOfFormerModelsGo(t *testing.T) {
	k := newKept(filepath.Join(t.TempDir(), "data[1]"), 1<<20, nil)
	serves := maps.Keys(map[string]bool{"here": true, "new": true})
	if err := k.clean(serves); err != nil {
		t.Errorf("before anything was kept: %v", err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{k.path("here"), k.path("former"), k.path("here") + ".new", k.path("former") + ".new"} {
		if err := os.WriteFile(path, []byte("tokens"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := k.clean(serves)
	left, _ := os.ReadDir(k.dir)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(k.path("here")) {
		t.Errorf("%v is left, want the file of the model that is served alone (%v)", left, err)
	}
}

// otherKey is the key of another account.
func otherKey(t *testing.T, n *node) string {
	t.Helper()
	operator, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := operator.CreateAccount(admin.NewAccount{Name: "other", Balance: admin.Amount{USD: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return made.Key
}

// TestPackedWeightsOfFormerModelsGo: a file as large as a model does not outlive it, and a start that does
// not open all models removes none.
func TestPackedWeightsOfFormerModelsGo(t *testing.T) {
	r := &restarted{t: t, cfg: config.Default()}
	r.cfg.Listen, r.cfg.DataDir, r.cfg.Modules.CacheDir = "127.0.0.1:0", filepath.Join(t.TempDir(), "data"), moduleCache
	m := r.cfg.Models["core-1.1-mini"]
	m.ContextLength, m.KV.MemoryBytes, m.KV.StateMemoryBytes = 8192, 64<<20, 64<<20
	r.cfg.Models = map[string]config.Model{"core-1.1-mini": m, "lost": m}
	if err := os.MkdirAll(packDir(r.cfg), 0o700); err != nil {
		t.Fatal(err)
	}
	former := filepath.Join(packDir(r.cfg), "00ff-p1.packed")
	if err := os.WriteFile(former, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	packed := func() int {
		files, err := os.ReadDir(packDir(r.cfg))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if n, err := start(r.cfg, &r.log); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Fatalf("%v, %v: a model without a file opened", n, err)
	}
	if n := packed(); n != 2 {
		t.Errorf("%d files after a model did not open, want the former one and that of the model that did", n)
	}
	delete(r.cfg.Models, "lost")
	r.start()
	defer r.stop()
	if _, err := os.Stat(former); !os.IsNotExist(err) || packed() != 1 {
		t.Errorf("%d files, the former one among them: %v", packed(), err == nil)
	}
}

// slowDisk takes what is written at once, as a page cache does, and its time to sync.
type slowDisk struct{ written, synced int }

func (d *slowDisk) Write(b []byte) (int, error) {
	d.written += len(b)
	return len(b), nil
}

func (d *slowDisk) Sync() error {
	time.Sleep(time.Duration(d.written-d.synced) * time.Second / (10 << 20)) // 10 MiB/s
	d.synced = d.written
	return nil
}

// TestKeepingWaitsForTheDisk: the time of a disk that is slower than memory counts against the deadline while there is
// something to leave, and not only in the last sync, which nothing bounds.
func TestKeepingWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, started := &slowDisk{}, time.Now()
		w := &untilWriter{to: disk, until: started.Add(time.Minute)}
		piece, err := make([]byte, 1<<20), error(nil)
		for disk.written < 10<<30 && err == nil {
			_, err = w.Write(piece)
		}
		disk.Sync()
		if took := time.Since(started); !errors.Is(err, errKeepTimeout) || took > time.Minute+2*keptSync*time.Second/(10<<20) {
			t.Errorf("%d bytes in %v, %v", disk.written, took, err)
		}
	})
}
