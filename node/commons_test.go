package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/wasm/abi"
)

// member starts one more node on the database of a URL.
func member(t *testing.T, url, dir string, change func(*config.Config)) (n *node, base string, operator *admin.Client) {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Modules.CacheDir, cfg.Modules.AllowUnsigned = "127.0.0.1:0", moduleCache, true
	onPostgres(url, dir)(cfg)
	if change != nil {
		change(cfg)
	}
	n, err := start(cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n.closers != nil { // the test has not stopped it
			_ = n.stop()
		}
	})
	if operator, err = admin.Dial(dir); err != nil {
		t.Fatal(err)
	}
	return n, "http://" + n.public.Addr().String(), operator
}

// readiness is what the admin listener of a node says of it.
func readiness(t *testing.T, n *node) string {
	t.Helper()
	answer, err := http.Get("http://" + n.admin.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestModulesOfACluster: what an operator loads and lets serve on one node is on all when the
// command returns, also on one that starts later; where one cannot have it nothing changes.
func TestModulesOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes that compile modules")
	}
	url, dirs := postgrestest.URL(t), t.TempDir()
	first, _, operator := member(t, url, filepath.Join(dirs, "a"), nil)
	_, key := customerOf(t, first, account.Account{Name: "alice", Unlimited: true}, 0)
	second, base, _ := member(t, url, filepath.Join(dirs, "b"), nil)
	const body = `{"model":"core-1.1","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`
	billing := activate(t, operator, "billing-c", `{"fee_nano":7}`)
	if strings.Contains(billing.Note, "do not follow") {
		t.Errorf("a node does not follow: %s", billing.Note)
	}
	charged := func(n *node, base, want string) {
		t.Helper()
		status, answer, id := wholeChat(t, base, key, body)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		if e := settled(t, n, id); e.ModuleDigest != want || e.Provisional {
			t.Errorf("charged %+v", e)
		}
	}
	charged(second, base, billing.Digest)
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	third, base, other := member(t, url, filepath.Join(dirs, "c"), nil) // with nothing of its own
	waitFor(t, "it to have the module", func() bool { return third.ready() == nil })
	charged(third, base, billing.Digest)
	strange, _, _ := member(t, url, filepath.Join(dirs, "d"), func(cfg *config.Config) { cfg.Modules.AllowUnsigned = false })
	if why := readiness(t, strange); !strings.Contains(why, "not in memory") || !strings.Contains(why, "billing") {
		t.Errorf("a node that takes no unsigned module says %q", why)
	}
	if status, answer, _ := wholeChat(t, "http://"+strange.public.Addr().String(), key, body); status != http.StatusServiceUnavailable {
		t.Errorf("without its module: %d %s", status, answer)
	}
	m, err := other.LoadModule(admin.NewModule{Wasm: example(t, "admission-c")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ActivateModule(m.Digest); err == nil || !strings.Contains(err.Error(), strange.commons.id) {
		t.Errorf("a module that a node cannot load: %v, want it named", err)
	}
	if err := strange.stop(); err != nil {
		t.Fatal(err)
	}
	if m, err = other.ActivateModule(m.Digest); err != nil || m.State != extensions.StateActive {
		t.Fatalf("without that node: %+v, %v", m, err)
	}
	if got, err := first.modules.Module(m.Digest); err != nil || got.State != extensions.StateActive {
		t.Errorf("on the first node: %+v, %v", got, err)
	}
	if _, err := operator.Rollback("admission"); err != nil {
		t.Fatal(err)
	}
	if third.modules.Deciding() || first.modules.Deciding() {
		t.Error("a policy that was rolled back decides")
	}
	if _, err := first.commons.store.SetCommon(store.CommonRollout, first.modules.Number(), []byte(`{"of":"a later release"}`)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "readiness to say that it cannot follow", func() bool { return strings.Contains(readiness(t, third), "not followed") })
}

// TestKeyIsReplacedInACluster: the signature of a new key is loaded on one node, and each node has its module when it starts
// without the old key.
func TestKeyIsReplacedInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("two nodes that compile modules, and start twice")
	}
	url, dirs := postgrestest.URL(t), []string{t.TempDir(), t.TempDir()}
	old, oldPrivate, _ := ed25519.GenerateKey(rand.Reader)
	young, youngPrivate, _ := ed25519.GenerateKey(rand.Reader)
	first, _, operator := member(t, url, dirs[0], nil)
	second, _, _ := member(t, url, dirs[1], nil)
	wasm := example(t, "admission-c")
	digest := activate(t, operator, "admission-c", "").Digest
	for _, n := range []*node{first, second} {
		n.modules.Trust([]ed25519.PublicKey{old, young}, nil) // as a reload does
	}
	for _, key := range []ed25519.PrivateKey{oldPrivate, youngPrivate} {
		want := base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
		m, err := operator.LoadModule(admin.NewModule{Wasm: wasm, Signature: extensions.Sign(key, wasm)})
		if err != nil || m.SignedBy != want {
			t.Fatalf("%+v, %v", m, err)
		}
		waitFor(t, "the other node to have the signature", func() bool {
			m, err := second.modules.Module(digest)
			return err == nil && m.SignedBy == want
		})
	}
	for i, n := range []*node{first, second} {
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		n, _, _ := member(t, url, dirs[i], func(cfg *config.Config) {
			cfg.Modules.AllowUnsigned, cfg.Modules.TrustedKeys = false, []string{base64.StdEncoding.EncodeToString(young)}
		})
		<-n.modules.Ready()
		if m, err := n.modules.Module(digest); err != nil || m.State != extensions.StateActive {
			t.Errorf("node %d after its restart: %+v, %v", i, m, err)
		}
	}
}

// inputAt configures a price of the fast model.
func inputAt(input config.Price) func(*config.Config) {
	return func(cfg *config.Config) {
		m := cfg.Models[fastModel]
		m.Prices.Input = input
		cfg.Models[fastModel] = m
	}
}

// TestPricesOfACluster: a node with other prices in its configuration quotes at those of the
// store, and says so; a change on one node is in force on all.
func TestPricesOfACluster(t *testing.T) {
	url, dirs := postgrestest.URL(t), t.TempDir()
	first, _, operator := member(t, url, filepath.Join(dirs, "a"), inputAt(100))
	second, _, other := member(t, url, filepath.Join(dirs, "b"), inputAt(200))
	quoted := func(n *node, want abi.Nano) {
		t.Helper()
		waitFor(t, "the price", func() bool {
			p, err := n.modules.Prices(fastModel)
			return err == nil && p.Input == want
		})
	}
	quoted(second, 100)
	const note = "the configuration has others, of: " + fastModel
	if says := readiness(t, second); !strings.HasPrefix(says, "ready\n") || !strings.Contains(says, note) {
		t.Errorf("readiness of the node with other prices: %q", says)
	}
	if says := readiness(t, first); strings.Contains(says, note) {
		t.Errorf("readiness of the other node: %q", says)
	}
	before, now := prices(first.cfg), prices(first.cfg)
	now[fastModel] = abi.Prices{Input: 300}
	if err := first.setPrices(before, now); err != nil { // as a reload does
		t.Fatal(err)
	}
	p, unlisted := first.modules.Prices(fastModel) // at once, whatever else is followed
	if unlisted != nil || p.Input != 300 {
		t.Errorf("after a reload: %+v, %v", p, unlisted)
	}
	quoted(second, 300)
	earlier, number, unread := first.commons.store.Common(store.CommonPrices)
	all, err := other.ApplyPrices()
	if err = errors.Join(err, unread); err != nil || len(all) != len(second.cfg.Models) {
		t.Fatalf("%+v, %v", all, err)
	}
	quoted(first, 200)
	lose := fmt.Sprintf(`UPDATE common SET number = %d, value = '\x%x' WHERE name = '%s'`, number, earlier, store.CommonPrices)
	if err := postgrestest.Exec(t.Context(), url, lose); err != nil { // as a failover to a standby that is behind does
		t.Fatal(err)
	}
	quoted(first, 300)
	quoted(second, 300)
	if all, err = other.ApplyPrices(); err != nil {
		t.Fatal(err)
	}
	quoted(first, 200)
	if says := readiness(t, second); strings.Contains(says, note) {
		t.Errorf("with its prices applied: %q", says)
	}
	for _, p := range all {
		if !p.Same || p.Model == fastModel && p.Listed.InputNanoUSD != 200 {
			t.Errorf("%+v", p)
		}
	}
	if _, err := operator.Prices(); err != nil {
		t.Error(err)
	}
	if len(second.database.Differences()) == 0 {
		t.Error("the configurations are said to have the same prices")
	}
	first.apply(second.cfg, nil, nil) // as a reload does
	waitFor(t, "the node to be told that they have", func() bool { return len(second.database.Differences()) == 0 })
	if kept, err := first.store.KeptPrices(); err != nil || kept[fastModel].Input != 200 {
		t.Errorf("a crash would settle at %v, %v", kept[fastModel], err)
	}
}

// TestLackingNodes says who keeps a module from serving.
func TestLackingNodes(t *testing.T) {
	has := store.NodeReport{Modules: 5, Loaded: map[string]string{"m": "c"}}
	cannot := store.NodeReport{Modules: 5, Failed: map[string]string{"m": "not signed"}}
	for _, c := range []struct {
		reports map[string]store.NodeReport
		asked   int64
		nodes   string
		why     bool
	}{
		{map[string]store.NodeReport{"a": has}, 0, "", false},
		{map[string]store.NodeReport{"a": has, "b": {}}, 0, "b", false},
		{map[string]store.NodeReport{"b": {Loaded: map[string]string{"m": "another"}}, "a": {}}, 3, "a b", false},
		{map[string]store.NodeReport{"a": has, "b": cannot}, 0, "b", false}, // it was not asked yet
		{map[string]store.NodeReport{"a": has, "b": cannot}, 6, "b", false}, // it has not tried since
		{map[string]store.NodeReport{"a": has, "b": cannot}, 5, "b", true},
	} {
		nodes, why := lacking(c.reports, "m", "c", c.asked)
		if strings.Join(nodes, " ") != c.nodes || (why != "") != c.why || c.why && !strings.Contains(why, "not signed") {
			t.Errorf("%+v, asked %d: %v, %q", c.reports, c.asked, nodes, why)
		}
	}
}

// rest is what a store does that a test does not ask for.
type rest interface{ store.Common }

// silentStore has one value, and cannot say what the nodes report.
type silentStore struct {
	rest
	value  []byte
	number int64
}

func (s *silentStore) Common(string) ([]byte, int64, error) { return s.value, s.number, nil }

func (s *silentStore) SetCommon(_ string, before int64, value []byte) (int64, error) {
	s.value, s.number = value, before+1
	return s.number, nil
}

func (s *silentStore) Reports() (map[string]store.NodeReport, error) {
	return nil, errors.New("the database does not answer")
}

// TestApplyPricesOfNothing: a model that the configuration gives away is given away once its prices are applied.
func TestApplyPricesOfNothing(t *testing.T) {
	c := newCommons(&silentStore{value: []byte(`{"m":{"input":5}}`), number: 1}, "a", &node{})
	if err := c.setPrices(nil, map[string]abi.Prices{"m": {}}); err != nil {
		t.Fatal(err)
	}
	if all, _, err := c.readPrices(); err != nil || all["m"] != (abi.Prices{}) {
		t.Errorf("listed are %v, %v", all, err)
	}
}

// TestFollowedWithoutReports: nobody is told that all nodes follow who could not be told whether they do.
func TestFollowedWithoutReports(t *testing.T) {
	c := newCommons(&silentStore{}, "a", &node{})
	if late := c.awaitFollowed(t.Context(), 1, time.Now()); len(late) == 0 {
		t.Error("all follow, as far as nobody knows")
	}
}

// TestWhoLeavesWaitsForNoNode: a command whose client left waits no longer for other nodes, and changes nothing that it has not
// changed yet.
func TestWhoLeavesWaitsForNoNode(t *testing.T) {
	c := newCommons(&slowStore{}, "a", &node{})
	caller, leave := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- c.awaitLoaded(caller, "sha256:aa", "") }()
	go func() {
		if late := c.awaitFollowed(caller, 2, time.Now().Add(time.Hour)); len(late) == 0 {
			ended <- nil
			return
		}
		ended <- errors.New("late")
	}()
	select {
	case err := <-ended:
		t.Fatalf("while it waits: %v", err)
	case <-time.After(3 * askEvery):
	}
	leave()
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("all nodes are said to have it")
			}
		case <-time.After(30 * time.Second):
			t.Fatal("it still waits")
		}
	}
}

// slowStore has a node that never does what it is asked for.
type slowStore struct{ silentStore }

func (*slowStore) Reports() (map[string]store.NodeReport, error) {
	return map[string]store.NodeReport{"b": {}}, nil
}

func (*slowStore) AskModule(string) (int64, error) { return 1, nil }

// filingStore has module files, says which of them was read, and keeps none.
type filingStore struct {
	silentStore
	files []store.ModuleFile
	gone  string // a file that is listed, and removed then
	read  []string
}

func (s *filingStore) ModuleList() (all []store.ModuleFile, number int64, err error) {
	for _, m := range s.files {
		m.Wasm = nil
		all = append(all, m)
	}
	return append(all, store.ModuleFile{Digest: s.gone}), 7, nil
}

func (s *filingStore) ModuleWasm(digest string) ([]byte, error) {
	for _, m := range s.files {
		if m.Digest == digest {
			s.read = append(s.read, digest)
			return m.Wasm, nil
		}
	}
	return nil, store.ErrNotFound
}

// TestModuleFilesAreReadOnce: a start reads those files out of the database that its folder lacks, and no other; what lies
// beside a file it has is brought all the same.
func TestModuleFilesAreReadOnce(t *testing.T) {
	file := func(text string) store.ModuleFile {
		return store.ModuleFile{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), Wasm: []byte(text), Config: []byte("{}")}
	}
	one, two := file("one"), file("two")
	host, err := extensions.Open(extensions.Options{CacheDir: moduleCache, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	s := &filingStore{files: []store.ModuleFile{one, two}, gone: file("three").Digest}
	c := newCommons(s, "a", &node{modules: host, cfg: cfg})
	begin := func(reads ...string) {
		t.Helper()
		s.read = nil
		if err := errors.Join(c.copyFiles(), c.offerLacking()); err != nil || c.modulesSeen != 7 {
			t.Fatal(err, c.modulesSeen)
		}
		if !slices.Equal(s.read, reads) {
			t.Errorf("read %v, want %v", s.read, reads)
		}
		var have []store.ModuleFile
		err := extensions.Files(c.node.modulesDir(), nil, func(digest string, wasm, signature, config []byte) error {
			have = append(have, store.ModuleFile{Digest: digest, Wasm: wasm, Signature: signature, Config: config})
			return nil
		})
		want := slices.SortedFunc(slices.Values(s.files), func(a, b store.ModuleFile) int { return strings.Compare(a.Digest, b.Digest) })
		if err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("the folder has %+v, %v; want %+v", have, err, want)
		}
	}
	begin(one.Digest, two.Digest)
	begin()
	s.files[0].Signature, s.files[0].Config = []byte{7}, nil
	begin()
	damaged := filepath.Join(c.node.modulesDir(), strings.TrimPrefix(two.Digest, "sha256:")+".wasm")
	if err := os.WriteFile(damaged, []byte("tw"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin(two.Digest)
	s.files[1].Wasm = []byte("another")
	if err := os.Remove(damaged); err != nil {
		t.Fatal(err)
	}
	if err := c.copyFiles(); err == nil {
		t.Error("a file that is not what its digest says is taken")
	}
}

// keepingStore notes the file that it is to keep.
type keepingStore struct {
	silentStore
	kept store.ModuleFile
}

func (s *keepingStore) PutModule(m store.ModuleFile, _ bool) error {
	s.kept = m
	return nil
}

// TestOnlyTrustedSignaturesAreKept: loading what is in memory without its signature, or with a wrong one, leaves a good one in
// the database, which every node reads when it starts.
func TestOnlyTrustedSignaturesAreKept(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	for _, dir := range []string{t.TempDir(), ""} {
		host, err := extensions.Open(extensions.Options{Dir: dir, CacheDir: moduleCache, AllowUnsigned: true,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s := &keepingStore{}
		m, wasm := clusterModules{host, newCommons(s, "a", &node{modules: host}), t.Context()}, example(t, "admission-c")
		good := extensions.Sign(private, wasm)
		load := func(signature, want []byte, taken bool) {
			t.Helper()
			s.kept = store.ModuleFile{}
			if i, err := m.Load(t.Context(), wasm, signature, nil); (err == nil) != taken {
				t.Fatalf("%+v, %v", i, err)
			}
			if !bytes.Equal(s.kept.Signature, want) || (s.kept.Digest != "") != taken {
				t.Errorf("the database is given %x for %q, want %x", s.kept.Signature, s.kept.Digest, want)
			}
		}
		load(nil, nil, true)
		host.Trust([]ed25519.PublicKey{public}, nil)
		load(good, good, true)
		load(nil, good, true)
		load([]byte("wrong"), nil, false)
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	}
}

// droppingStore notes what it is to drop.
type droppingStore struct {
	silentStore
	dropped []string
}

func (s *droppingStore) DropModules(digests []string) error {
	s.dropped = digests
	return nil
}

// TestEveryRemovedModuleIsSwept: a rollout names each module that was ever removed, and the files of the last ones go, too, those of
// the node's own folder among them.
func TestEveryRemovedModuleIsSwept(t *testing.T) {
	var removed []string
	for i := range 250 {
		removed = append(removed, fmt.Sprintf("sha256:%064d", i))
	}
	state, err := json.Marshal(map[string]any{"removed": removed})
	if err != nil {
		t.Fatal(err)
	}
	s := &droppingStore{}
	dir := t.TempDir()
	file := filepath.Join(dir, strings.TrimPrefix(removed[249], "sha256:")+".wasm")
	if err := os.WriteFile(file, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, err := extensions.Open(extensions.Options{Dir: dir, State: state, Number: 1, CacheDir: moduleCache,
		Log: slog.New(slog.DiscardHandler), Keep: func(int64, []byte) (int64, error) { return 2, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if err := newCommons(s, "a", &node{modules: host}).sweepModules(); err != nil || !slices.Equal(s.dropped, removed) {
		t.Errorf("%d of %d files are dropped, %v", len(s.dropped), len(removed), err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file in the folder: %v", err)
	}
}
