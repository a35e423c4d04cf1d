package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// TestCrashImage copies the files of a running store, as a power cut would
// leave them, and opens the copy: what Append returned for is there.
func TestCrashImage(t *testing.T) {
	dir, image := t.TempDir(), t.TempDir()
	s := open(t, dir)
	a := storetest.MustCreate(t, s, "a", 1000).ID
	storetest.MustAppend(t, s, storetest.Hold(a, "r1", 10), storetest.Checkpoint(a, "r1", 4), storetest.Hold(a, "r2", 10),
		storetest.Settlement(a, "r2", -7))
	for _, name := range []string{DatabaseName, DatabaseName + "-wal"} { // -shm is rebuilt
		copyFile(t, filepath.Join(dir, name), filepath.Join(image, name))
	}
	after := open(t, image)
	storetest.WantBalance(t, after, a, 993, 10)
	holds, err := after.OpenHolds()
	if err != nil || len(holds) != 1 || holds[0].RequestID != "r1" || holds[0].Usage.Output != 4 || holds[0].Held != 10 {
		t.Errorf("open holds %+v, %v", holds, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk lets SQLite refuse new pages, as a full disk would. What was
// durable stays, and the store works again when there is room.
func TestFullDisk(t *testing.T) {
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 1_000_000).ID
	pages, err := s.write.number(`PRAGMA page_count`)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(pages int64) {
		if err := s.write.db.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages + 2)
	settled, full := 0, false
	for i := 0; i < 1000 && !full; i++ {
		id := fmt.Sprintf("r%d", i)
		switch err := s.Append([]account.Entry{storetest.Hold(a, id, 5), storetest.Settlement(a, id, -1)}); {
		case err == nil:
			settled++
		case errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrNotFound):
			t.Fatal(err)
		default:
			full = true
		}
	}
	if !full || settled == 0 {
		t.Fatalf("%d requests settled, full: %v", settled, full)
	}
	storetest.WantBalance(t, s, a, 1_000_000-abi.Nano(settled), 0)
	limit(1 << 30)
	storetest.MustAppend(t, s, storetest.Hold(a, "after", 5), storetest.Settlement(a, "after", -1))
	storetest.WantBalance(t, s, a, 1_000_000-abi.Nano(settled)-1, 0)
}

// BenchmarkAppend writes batches, half holds and half settlements of 32
// accounts, as a loaded node does. It reports durable rows and CPU. Request
// ids that rise with time keep the index of requests at its right edge.
func BenchmarkAppend(b *testing.B) {
	cases := []struct {
		ids  string
		step uint64
		rows int
	}{{"rising", 1, 2}, {"rising", 1, 64}, {"rising", 1, 512}, {"random", 0x9e3779b97f4a7c15, 64}}
	for _, ids := range cases {
		rows := ids.rows
		b.Run(fmt.Sprintf("ids=%s/rows=%d", ids.ids, rows), func(b *testing.B) {
			s := open(b, b.TempDir())
			var accounts []string
			for i := range 32 {
				accounts = append(accounts, storetest.MustCreate(b, s, fmt.Sprintf("a%d", i), 1e15).ID)
			}
			batch := make([]account.Entry, 0, rows)
			n := 0
			start := cpuTime(b)
			for b.Loop() {
				batch = batch[:0]
				for range rows / 2 {
					a, id := accounts[n%32], fmt.Sprintf("req_%016x", uint64(n)*ids.step)
					n++
					batch = append(batch, storetest.Hold(a, id, 1000), storetest.Settlement(a, id, -900))
				}
				if err := s.Append(batch); err != nil {
					b.Fatal(err)
				}
			}
			total := float64(b.N) * float64(rows)
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/total, "cpu-us/row")
			b.ReportMetric(total/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
