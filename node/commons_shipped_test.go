package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"corenode/extensions"
	"corenode/extensions/logtest"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/wasm/builtin"
)

// lookedStore is a store that a node looks at, and to which it offers files.
type lookedStore struct {
	silentStore
	mu     sync.Mutex // guards what follows
	kept   []string   // digests, in order
	tries  int        // to keep one
	listed int        // how often its files were
	// away is what Numbers gives, refuses what PutModule does, which also waits for blocks where there is one.
	away, refuses error
	blocks        chan struct{}
}

func (s *lookedStore) Numbers(context.Context) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]int64{}, s.away
}

func (*lookedStore) Report(store.NodeReport) error { return nil }

func (s *lookedStore) ModuleList() ([]store.ModuleFile, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed++
	return nil, 0, nil
}

func (s *lookedStore) PutModule(m store.ModuleFile, _ bool) error {
	s.mu.Lock()
	s.tries++
	blocks := s.blocks
	s.mu.Unlock()
	if blocks != nil {
		<-blocks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses == nil {
		s.kept = append(s.kept, m.Digest)
	}
	return s.refuses
}

// change changes what it does from now on.
func (s *lookedStore) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// denyingNode has a host of a cluster, which denies a module.
func denyingNode(t *testing.T, lines io.Writer, digest string) *node {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	n := &node{cfg: cfg, log: slog.New(slog.NewTextHandler(lines, nil))}
	var err error
	n.modules, err = extensions.Open(extensions.Options{Dir: n.modulesDir(), CacheDir: moduleCache, AllowUnsigned: true, Log: n.log,
		Denied: []extensions.Denial{{Digest: digest}}, Keep: func(before int64, _ []byte) (int64, error) { return before + 1, nil }})
	if err != nil {
		t.Fatal(err)
	}
	<-n.modules.Ready()
	return n
}

// TestLatePoliciesAreOffered: the file of a policy that ships is in the store also where the policy came into memory after the start,
// as soon as the store takes it. It is offered now and then until then, and no look waits for that or is silent of what it cannot follow.
func TestLatePoliciesAreOffered(t *testing.T) {
	all := builtin.Modules()
	digest := all[slices.IndexFunc(all, func(m builtin.Module) bool { return m.Name == builtin.TariffName })].Digest
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Lines
		n := denyingNode(t, &lines, digest)
		host, s := n.modules, &lookedStore{}
		c := newCommons(s, "a", n)
		stopped := make(chan struct{})
		var following sync.WaitGroup
		following.Go(func() { c.run(stopped) })
		following.Go(func() { c.offerShipped(stopped) })
		defer func() {
			close(stopped)
			following.Wait()
			if err := host.Close(); err != nil {
				t.Error(err)
			}
		}()
		// after gives what the store was asked for within some time, and which lines of the log have these texts.
		after := func(pause time.Duration, texts ...string) (kept []string, tries, listed int, said []int) {
			s.change(func() { s.kept, s.tries, s.listed = nil, 0, 0 })
			before := len(lines.String())
			time.Sleep(pause)
			synctest.Wait()
			all := lines.String()[before:]
			for _, text := range texts {
				said = append(said, strings.Count(all, text))
			}
			s.change(func() { kept, tries, listed = s.kept, s.tries, s.listed })
			return kept, tries, listed, said
		}
		const unfollowed = "cannot be followed"
		const unkept, kept = "are not kept for replays on other nodes;", "are kept for replays on other nodes"
		if got, tries, _, _ := after(10 * time.Minute); tries != 0 {
			t.Fatalf("kept are %v", got)
		}
		s.change(func() { s.refuses = errors.New("the disk is full") })
		host.Trust(nil, nil)
		if err := host.Follow(1, []byte(`{"slots":{"billing":{"active":"native","previous":"shipped"}}}`)); err != nil {
			t.Fatal(err)
		}
		if _, tries, _, said := after(10*time.Minute, unkept); tries < 2 || tries > int(10*time.Minute/offerAgain)+1 || said[0] != 1 {
			t.Errorf("offered %d times within ten minutes to a store that refuses; said %d times", tries, said)
		}
		s.change(func() { s.away = errors.New("no route to the database") })
		if _, _, _, said := after(10*time.Minute, unfollowed, "no route", unkept); !slices.Equal(said, []int{1, 1, 0}) {
			t.Errorf("of a database that is away, %v lines", said)
		}
		blocks := make(chan struct{})
		s.change(func() { s.away, s.refuses, s.blocks = nil, nil, blocks })
		if _, tries, _, _ := after(time.Minute); tries != 1 {
			t.Errorf("%d offers at once", tries)
		}
		if err := c.catchUp(nil); err != nil {
			t.Errorf("while a file is offered: %v", err)
		}
		time.AfterFunc(time.Second, func() { close(blocks) }) // within what is counted
		if got, _, _, said := after(time.Minute, kept); !slices.Equal(got, []string{digest}) || said[0] != 1 {
			t.Errorf("kept are %v, want %s; said %d times", got, digest, said)
		}
		if _, _, listed, _ := after(10 * time.Minute); listed != 0 {
			t.Errorf("without news: listed %d times", listed)
		}
	})
}

// TestAnUnreadableModuleHidesNothing: while a file in the folder cannot be read, the log says all the same what the store refuses
// later, each once.
func TestAnUnreadableModuleHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Lines
		n := denyingNode(t, &lines, "")
		if err := os.Mkdir(filepath.Join(n.modulesDir(), strings.Repeat("0", 64)+".wasm"), 0o700); err != nil {
			t.Fatal(err)
		}
		s := &lookedStore{}
		c := newCommons(s, "a", n)
		stopped := make(chan struct{})
		var offering sync.WaitGroup
		offering.Go(func() { c.offerShipped(stopped) })
		defer func() {
			close(stopped)
			offering.Wait()
			if err := n.modules.Close(); err != nil {
				t.Error(err)
			}
		}()
		for _, refusal := range []string{"", "the disk is full", "no room in the table"} {
			s.change(func() {
				if s.refuses = nil; refusal != "" {
					s.refuses = errors.New(refusal)
				}
			})
			before := len(lines.String())
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			said := lines.String()[before:]
			if strings.Count(said, "\n") != 1 || !strings.Contains(said, "is a directory") || !strings.Contains(said, refusal) {
				t.Errorf("of a store that says %q the log has %q", refusal, said)
			}
		}
	})
}
