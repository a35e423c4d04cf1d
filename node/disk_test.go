package main

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/wasm/abi"
)

// smallDisk mounts a file system of its own for a data folder.
func smallDisk(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=0700,size="+size, "tmpfs", dir).CombinedOutput()
	if err != nil {
		t.Skipf("no small disk without the right to mount one: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fill leaves no byte free on the disk of dir, and returns what makes room again.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	rand.Read(block)
	written := 0
	for len(block) > 0 {
		n, err := f.Write(block)
		if written += n; err != nil {
			block = block[:len(block)/2] // ever less, until nothing fits
		}
	}
	t.Logf("%d bytes fill the disk", written)
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// outage is a run of TestFullDisk.
type outage struct {
	*crash
	h   *http.Client
	who struct{ id, key string }
}

// ask runs one short request and keeps its receipt.
func (o *outage) ask(e errand) receipt {
	r := e.run(o.t, o.h, o.node.base, moments{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.receipts = append(o.receipts, r)
	return r
}

func (o *outage) short(rnd *mathrand.Rand, stream bool) errand {
	return errand{account: o.who.id, key: o.who.key, path: paths[rnd.IntN(len(paths))], model: fastModel,
		prompt: "short", stream: stream, maxTokens: 1 + rnd.IntN(9)}
}

// TestFullDisk fills the disk under a node that works: requests go on, their rows
// go to the spill journal, and when that has no room for more new ones are 503
// with Retry-After, never 401 and never free. When there is room again, or after
// a kill in the outage and a start with room, every charge is in the ledger.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("kill %t", kill), func(t *testing.T) {
			if !kill && os.Getenv("CORENODE_CRASH_ROUNDS") == "" {
				t.Skip("set CORENODE_CRASH_ROUNDS; the usual run has the other one")
			}
			disk := smallDisk(t, "24m")
			o := &outage{h: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
				crash: &crash{t: t, books: newBooks(), acked: map[string]abi.Nano{},
					rnd: mathrand.New(mathrand.NewPCG(uint64(time.Now().UnixNano()), 1)), node: newChild(t, filepath.Join(disk, "data"), "")}}
			defer o.h.CloseIdleConnections()
			o.node.start()
			o.who.id, o.who.key = o.node.account(admin.NewAccount{Name: "works", Balance: admin.Amount{USD: "1000"}})
			_, cold := o.node.account(admin.NewAccount{Name: "cold", Balance: admin.Amount{USD: "1000"}})
			if r := o.ask(o.short(o.rnd, false)); !r.told {
				t.Fatalf("before the outage: %+v", r)
			}
			running := o.longStreams(4)
			free := fill(t, disk)
			o.duringOutage(cold, kill)
			if kill {
				o.node.kill()
				running.Wait()
				if err := o.node.tryStart(); err != nil {
					t.Logf("it does not start on the full disk: %.300v", err)
				}
				o.node.kill()
				free()
				o.node.start()
			} else {
				running.Wait()
				o.allTold()
				free()
				o.back()
			}
			o.check()
			if r := o.ask(o.short(o.rnd, true)); !r.told {
				t.Errorf("after the outage: %+v", r)
			}
			o.check()
		})
	}
}

// longStreams starts streams and returns when their output has begun.
func (o *outage) longStreams(n int) *sync.WaitGroup {
	var running, begun sync.WaitGroup
	begun.Add(n)
	for i := range n {
		running.Go(func() {
			e := errand{account: o.who.id, key: o.who.key, path: paths[i%len(paths)], model: slowModel, stream: true,
				prompt: "a long story", maxTokens: 1500}
			began := sync.OnceFunc(begun.Done)
			defer began()
			o.askWith(e, moments{began: began})
		})
	}
	begun.Wait()
	return &running
}

func (o *outage) askWith(e errand, m moments) {
	r := e.run(o.t, o.h, o.node.base, m)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.receipts = append(o.receipts, r)
}

// duringOutage asks: until the journal has no room, and then some more, or a little.
func (o *outage) duringOutage(cold string, whole bool) {
	t := o.t
	t.Helper()
	var mu sync.Mutex
	var load sync.WaitGroup
	served, refused, began := 0, 0, time.Now()
	for i := range 8 {
		rnd := mathrand.New(mathrand.NewPCG(o.rnd.Uint64(), uint64(i)))
		load.Go(func() {
			for n := 0; ; n++ {
				r := o.ask(o.short(rnd, n%2 == 0))
				if !r.told {
					refusedFor(t, r)
				}
				mu.Lock()
				if r.told {
					served++ // maybe after some were refused: a stream that ends makes room
				} else {
					refused++
				}
				enough := refused >= 20 || served > 5000 || !whole && served > 80
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	load.Wait()
	t.Logf("in the outage %d were served and %d refused, within %v", served, refused, time.Since(began))
	if served == 0 || whole != (refused >= 20) {
		t.Errorf("%d served and %d refused: the journal was not used, or never full; the node logged:\n%s", served, refused, tailOf(o.node.log()))
	}
	e := o.short(o.rnd, false)
	e.key = cold
	refusedFor(t, e.run(t, o.h, o.node.base, moments{}))
	e.key = "sk-nobody"
	if r := e.run(t, o.h, o.node.base, moments{}); r.status != http.StatusUnauthorized {
		t.Errorf("an unknown key: %+v", r)
	}
	if _, err := o.node.admin.TopUp(o.who.id, admin.TopUp{Amount: admin.Amount{USD: "1"}, Note: "in the outage"}); err == nil {
		t.Error("a top-up was acknowledged though the disk is full")
	}
}

// refusedFor checks a refusal that says that the node cannot keep books now.
func refusedFor(t *testing.T, r receipt) {
	t.Helper()
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusServiceUnavailable || err != nil || seconds < 1 || !strings.Contains(r.failure, "overloaded") {
		t.Errorf("stream %t on %s: status %d, Retry-After %q, %d events, %s", r.stream, r.path, r.status, r.header.Get("Retry-After"), r.events, r.failure)
	}
}

// allTold: what was admitted before and during the outage was served to its end.
func (o *outage) allTold() {
	for _, r := range o.receipts {
		if !r.told && r.status == http.StatusOK {
			o.t.Errorf("admitted and not served: %+v", r)
		}
	}
}

// back waits until the node has replayed its journal.
func (o *outage) back() {
	o.t.Helper()
	waitFor(o.t, "the journal's replay", func() bool { return o.ask(o.short(o.rnd, false)).told })
	waitFor(o.t, "the ledger's peace", func() bool {
		v, err := o.node.admin.VerifyLedger()
		return err == nil && v.OpenHolds == 0
	})
}
