package postgres

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"corenode/node/store"
	"corenode/node/store/postgrestest"
)

// TestCommonIsChangedOnce: of nodes that replace the same value, one does, and the numbers rise by one.
func TestCommonIsChangedOnce(t *testing.T) {
	url := postgrestest.URL(t)
	var stores [3]*Store
	for i := range stores {
		stores[i] = dial(t, url, string(rune('a'+i)))
	}
	if value, number, err := stores[0].Common("x"); err != nil || number != 0 || len(value) != 0 {
		t.Fatalf("never set: %q, %d, %v", value, number, err)
	}
	const rounds = 10
	for before := range int64(rounds) {
		var won atomic.Int64
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				number, err := s.SetCommon("x", before, []byte{byte(before), byte(i)})
				if err == nil && number == before+1 {
					won.Add(1)
				} else if !errors.Is(err, store.ErrOutdated) {
					t.Errorf("%d, %v", number, err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d nodes changed number %d", won.Load(), before)
		}
	}
	value, number, err := stores[1].Common("x")
	if err != nil || number != rounds || value[0] != rounds-1 {
		t.Errorf("%v, %d, %v", value, number, err)
	}
	if again, err := stores[2].SetCommon("x", rounds-1, value); err != nil || again != rounds {
		t.Errorf("a change whose answer was lost: %d, %v", again, err)
	}
	if numbers, err := stores[0].Numbers(t.Context()); err != nil || !reflect.DeepEqual(numbers, map[string]int64{"x": rounds}) {
		t.Errorf("%v, %v", numbers, err)
	}
}

// TestModuleFiles: who asks for what changed after a number gets just that.
func TestModuleFiles(t *testing.T) {
	s := dial(t, postgrestest.URL(t), "a")
	since := func(after int64) (all []store.ModuleFile, number int64) {
		number, err := s.ModuleFiles(after, func(m store.ModuleFile) error {
			all = append(all, m)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all, number
	}
	one := store.ModuleFile{Digest: "sha256:1", Wasm: []byte{1}, Signature: []byte{}, Config: []byte(`{}`)}
	two := store.ModuleFile{Digest: "sha256:2", Wasm: []byte{2}, Signature: []byte{7}, Config: []byte{}}
	if err := errors.Join(s.PutModule(one, false), s.PutModule(two, true)); err != nil {
		t.Fatal(err)
	}
	two.Asked = true
	all, number := since(0)
	if !reflect.DeepEqual(all, []store.ModuleFile{one, two}) {
		t.Errorf("all: %+v", all)
	}
	list, last, err := s.ModuleList()
	for i := range list {
		list[i].Wasm, _ = s.ModuleWasm(list[i].Digest)
	}
	if err != nil || last != number || !reflect.DeepEqual(list, all) {
		t.Errorf("listed %+v, %d, %v", list, last, err)
	}
	if _, err := s.ModuleWasm("sha256:3"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the file of no module: %v", err)
	}
	asked, err := s.AskModule("sha256:1")
	if one.Asked = true; err != nil || asked <= number {
		t.Fatal(asked, err)
	}
	if all, last := since(number); !reflect.DeepEqual(all, []store.ModuleFile{one}) || last != asked {
		t.Errorf("since %d: %+v, %d", number, all, last)
	}
	two.Config = []byte(`{"n":1}`)
	if err := s.PutModule(two, false); err != nil {
		t.Fatal(err)
	}
	if all, _ := since(asked); !reflect.DeepEqual(all, []store.ModuleFile{two}) {
		t.Errorf("another configuration: %+v", all)
	}
	if err := s.Exec(`UPDATE modules SET asked = now() - interval '2 hours' WHERE digest = 'sha256:1'`); err != nil {
		t.Fatal(err)
	}
	if err := s.DropModules([]string{"sha256:1", "sha256:2", "sha256:3"}); err != nil {
		t.Fatal(err)
	}
	if all, _ := since(0); !reflect.DeepEqual(all, []store.ModuleFile{two}) {
		t.Errorf("when those were dropped that nobody asked for lately: %+v", all)
	}
	if _, err := s.AskModule("sha256:3"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown module: %v", err)
	}
}

// TestReportsOfLiveNodes: those count that renewed of late, whether they have reported or not.
func TestReportsOfLiveNodes(t *testing.T) {
	url := postgrestest.URL(t)
	a, b, c := dial(t, url, "a"), dial(t, url, "b"), dial(t, url, "c")
	said := store.NodeReport{Rollout: 3, Modules: 2, Loaded: map[string]string{"sha256:1": ""}, Failed: map[string]string{}}
	for _, s := range []*Store{a, b, c} {
		if err := s.Register(t.Context(), store.Presence{Home: s.node, Version: "v"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Report(said), c.Report(said)); err != nil {
		t.Fatal(err)
	}
	if err := a.Exec(`UPDATE nodes SET renewed = now() - interval '1 hour' WHERE id = 'c'`); err != nil {
		t.Fatal(err)
	}
	reports, err := a.Reports()
	if err != nil || !reflect.DeepEqual(reports, map[string]store.NodeReport{"a": said, "b": {}}) {
		t.Errorf("%+v, %v", reports, err)
	}
}

// TestModuleFilesAreDroppedInParts: of many that nobody needs a hundred go at a time, wherever they stand among those that
// have gone already.
func TestModuleFilesAreDroppedInParts(t *testing.T) {
	url := postgrestest.URL(t)
	s := dial(t, url, "a")
	if err := s.Exec(`INSERT INTO modules (digest, wasm, signature, config, number) SELECT 'old ' || i, '', '', '', 0
		FROM generate_series(1, 150) i`); err != nil {
		t.Fatal(err)
	}
	var old []string
	for i := range 300 { // of most there is nothing any more
		old = append(old, fmt.Sprint("old ", i-149))
	}
	for _, want := range []int64{50, 0} {
		if err := s.DropModules(old); err != nil {
			t.Fatal(err)
		}
		if n, err := postgrestest.Number(t.Context(), url, `SELECT count(*) FROM modules WHERE digest LIKE 'old %'`); n != want || err != nil {
			t.Errorf("%d old files are left, %v; want %d", n, err, want)
		}
	}
}
