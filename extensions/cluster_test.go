package extensions

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// row is the one row that the hosts of a test share.
type row struct {
	mu     sync.Mutex
	number int64
	text   []byte
	away   error // what Keep gives instead of keeping
}

var errOutdated = errors.New("outdated")

func (r *row) keep(before int64, text []byte) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away != nil {
		return 0, r.away
	}
	if before != r.number {
		return 0, errOutdated
	}
	r.number, r.text = r.number+1, text
	return r.number, nil
}

// join opens a host of the cluster, with what the row says so far.
func (r *row) join(t *testing.T, dir string) *Host {
	t.Helper()
	h, _ := openTest(t, Options{Dir: dir, Keep: r.keep, State: r.text, Number: r.number})
	return h
}

// follow brings the row to hosts.
func (r *row) follow(t *testing.T, hosts ...*Host) {
	t.Helper()
	for _, h := range hosts {
		if err := h.Follow(r.number, r.text); err != nil {
			t.Error(err)
		}
	}
}

// bring loads a module on the first host, and brings it to the others.
func bring(t *testing.T, wasm []byte, first *Host, others ...*Host) string {
	t.Helper()
	digest := mustLoad(t, first, wasm)
	for _, h := range others {
		if err := h.Bring(wasm, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	return digest
}

// roles is who serves the chat slot: active, canary and its percent, shadow, previous.
func roles(h *Host) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.slot(SlotChat).now.Load()
	name := func(g *generation) string {
		if g == nil {
			return "-"
		}
		return g.manifest.Version
	}
	shadow := "-"
	if a.shadow != nil {
		shadow = fmt.Sprint(name(a.shadow.generation), " ", a.shadow.percent)
	}
	return fmt.Sprintf("%s, %s %d, %s, %s", name(a.active), name(a.canary), a.canaryPercent, shadow, name(a.previous))
}

// TestFollowRollout: what one host of a cluster changes, another one has when it has followed the
// row: every verb, in any order.
func TestFollowRollout(t *testing.T) {
	r := &row{}
	a, b := r.join(t, t.TempDir()), r.join(t, t.TempDir())
	one, two := bring(t, chatGuest(t, "1"), a, b), bring(t, chatGuest(t, "2"), b, a)
	verb := func(_ Info, err error) error { return err }
	for i, step := range []struct {
		do   func(h *Host) error
		want string
	}{
		{func(h *Host) error { return verb(h.Activate(one)) }, "1, - 0, -, native"},
		{func(h *Host) error { return verb(h.Canary(two, 30)) }, "1, 2 30, -, native"},
		{func(h *Host) error { return verb(h.Canary(two, 60)) }, "1, 2 60, -, native"},
		{func(h *Host) error { return verb(h.Rollback(SlotChat)) }, "1, - 0, -, native"},
		{func(h *Host) error { return verb(h.Shadow(two, 10)) }, "1, - 0, 2 10, native"},
		{func(h *Host) error { return verb(h.Shadow(two, 100)) }, "1, - 0, 2 100, native"},
		{func(h *Host) error { return verb(h.Shadow(two, 0)) }, "1, - 0, -, native"},
		{func(h *Host) error { return verb(h.Activate(two)) }, "2, - 0, -, 1"},
		{func(h *Host) error { return verb(h.Rollback(SlotChat)) }, "1, - 0, -, native"},
		{func(h *Host) error { return h.Remove(two) }, "1, - 0, -, native"},
	} {
		by, other := a, b
		if i%2 == 1 {
			by, other = b, a
		}
		if err := step.do(by); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		r.follow(t, other)
		if got, also := roles(by), roles(other); got != step.want || also != step.want || by.Number() != other.Number() {
			t.Errorf("step %d: %s and %s, want %s; rollouts %d and %d", i, got, also, step.want, by.Number(), other.Number())
		}
	}
	for _, h := range []*Host{a, b} {
		if _, err := h.Module(two); !errors.Is(err, ErrUnknownModule) {
			t.Errorf("a removed module: %v", err)
		}
		if got := h.Unneeded(); !slices.Equal(got, []string{two}) {
			t.Errorf("nobody needs %v, want %s", got, two)
		}
		h.mu.Lock()
		h.state.Charged = append(h.state.Charged, two)
		h.mu.Unlock()
		if got := h.Unneeded(); len(got) != 0 {
			t.Errorf("charges name it, and nobody needs %v", got)
		}
	}
	c := r.join(t, t.TempDir()) // it has no file yet
	if c.Absent() == "" {
		t.Error("a module without a file is not missing")
	}
	if err := c.Bring(chatGuest(t, "1"), nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := roles(c); got != "1, - 0, -, native" || c.Absent() != "" {
		t.Errorf("a host that joins: %s, %q", got, c.Absent())
	}
}

// TestFilesOfRemovedModulesGo: on every node of a cluster, also on one that was away, unless charges name the module. One that is
// loaded again is there again.
func TestFilesOfRemovedModulesGo(t *testing.T) {
	r := &row{}
	dir := t.TempDir()
	a, b := r.join(t, t.TempDir()), r.join(t, dir)
	one, two := bring(t, chatGuest(t, "1"), a, b), bring(t, chatGuest(t, "2"), a, b)
	charged := bring(t, chatGuest(t, "3"), a, b)
	want := func(there ...string) {
		t.Helper()
		for _, h := range []*Host{a, b} {
			if err := h.DropUnneeded(); err != nil {
				t.Error(err)
			}
			for _, digest := range []string{one, two, charged} {
				if _, err := os.Stat(h.folder.path(digest, extWasm)); (err == nil) != slices.Contains(there, digest) {
					t.Errorf("the file of %s: %v", digest, err)
				}
			}
		}
	}
	a.mu.Lock()
	a.state.Charged = append(a.state.Charged, charged)
	a.mu.Unlock()
	_, err := a.Activate(one)
	if err = errors.Join(err, a.Remove(charged), a.Remove(two)); err != nil {
		t.Fatal(err)
	}
	r.follow(t, b)
	want(one, charged)
	if got := mustLoad(t, a, chatGuest(t, "2")); got != two {
		t.Fatal(got)
	}
	if err := b.Note(two, chatGuest(t, "2"), nil, nil); err != nil {
		t.Fatal(err)
	}
	r.follow(t, b)
	want(one, two, charged)
	_ = b.Close()
	if err := a.Remove(two); err != nil {
		t.Fatal(err)
	}
	b = r.join(t, dir)
	want(one, charged)
}

// TestFilesThatGoMeanwhile: a visit of the files of a folder passes over what is removed while it goes on.
func TestFilesThatGoMeanwhile(t *testing.T) {
	f := folder{dir: t.TempDir()}
	var digests []string
	for _, version := range []string{"1", "2"} {
		wasm := chatGuest(t, version)
		digests = append(digests, digestOf(wasm))
		if err := f.keep(&module{digest: digestOf(wasm)}, wasm); err != nil {
			t.Fatal(err)
		}
	}
	visited := 0
	err := Files(f.dir, nil, func(digest string, _, _, _ []byte) error {
		visited++
		other := digests[0]
		if digest == other {
			other = digests[1]
		}
		return f.deleteFiles(other)
	})
	if err != nil || visited != 1 {
		t.Errorf("%d visits, %v", visited, err)
	}
}

// TestFilesBehindAnUnreadableOne: a file that cannot be read keeps nobody from those behind it.
func TestFilesBehindAnUnreadableOne(t *testing.T) {
	f := folder{dir: t.TempDir()}
	wasm := chatGuest(t, "1")
	unreadable := f.path(digestPrefix+strings.Repeat("0", 64), extWasm)
	if err := errors.Join(f.keep(&module{digest: digestOf(wasm)}, wasm), os.Mkdir(unreadable, 0o700)); err != nil {
		t.Fatal(err)
	}
	var visited []string
	err := Files(f.dir, nil, func(digest string, _, _, _ []byte) error {
		visited = append(visited, digest)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), unreadable) || !slices.Equal(visited, []string{digestOf(wasm)}) {
		t.Errorf("visited %v, %v", visited, err)
	}
}

// TestFollowWhatHasCome: a module whose file comes later than the change that wants it has its role after the next
// change, of another slot, whichever role that is.
func TestFollowWhatHasCome(t *testing.T) {
	for _, c := range []struct {
		do         func(h *Host, two string) error
		late, want string
	}{
		{func(h *Host, two string) error { _, err := h.Canary(two, 50); return err }, "1, - 50, -, native", "1, 2 50, -, native"},
		{func(h *Host, two string) error { _, err := h.Shadow(two, 50); return err }, "1, - 0, -, native", "1, - 0, 2 50, native"},
		{func(h *Host, two string) error {
			_, err := h.Activate(two)
			_, err2 := h.Activate(digestOf(chatGuest(t, "1")))
			return errors.Join(err, err2)
		}, "1, - 0, -, native", "1, - 0, -, 2"},
	} {
		r := &row{}
		a, b := r.join(t, t.TempDir()), r.join(t, t.TempDir())
		one, other := bring(t, chatGuest(t, "1"), a, b), bring(t, routedGuest("other", "1", "/o").bytes(t), a, b)
		two := mustLoad(t, a, chatGuest(t, "2"))
		_, err := a.Activate(one)
		if err = errors.Join(err, c.do(a, two)); err != nil {
			t.Fatal(err)
		}
		r.follow(t, b)
		if got := roles(b); got != c.late {
			t.Errorf("without its file: %s, want %s", got, c.late)
		}
		if err := b.Note(two, chatGuest(t, "2"), nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Activate(other); err != nil {
			t.Fatal(err)
		}
		r.follow(t, b)
		if got := roles(b); got != c.want || b.Absent() != "" {
			t.Errorf("with its file: %s, want %s; absent %q", got, c.want, b.Absent())
		}
	}
}

// TestNoStandIn: where nodes share what serves, a request that needs a module which is not in
// memory is refused, by the module's kind, and nothing else serves it.
func TestNoStandIn(t *testing.T) {
	r := &row{}
	a := r.join(t, t.TempDir())
	billing := billingGuest(t, "1", abi.Quote{Upper: 9, Minimum: 3}, abi.Charge{Total: 2, Lines: []abi.Line{line(1, 2, 2)}})
	one, two, paid := mustLoad(t, a, chatGuest(t, "1")), mustLoad(t, a, chatGuest(t, "2")), mustLoad(t, a, billing)
	for _, digest := range []string{one, paid} {
		if _, err := a.Activate(digest); err != nil {
			t.Fatal(err)
		}
	}
	b := r.join(t, t.TempDir())
	if tr := b.Translate(SlotChat, "x", "", abi.Facts{}); tr != nil {
		t.Errorf("%s translates", tr.Module())
	}
	in := abi.QuoteInput{Model: "core", Input: 1, OutputMax: 1}
	if q, err := b.Quote("r", in); err == nil || abi.AsError(err).Kind != abi.Overloaded {
		t.Errorf("a quote: %+v, %v", q, err)
	}
	if c, err := b.Rate("r", abi.ChargeInput{Model: "core", Prices: abi.Prices{Input: 1}}, nil); err != nil || !c.Provisional {
		t.Errorf("what was spent: %+v, %v, want a provisional charge", c, err)
	}
	for _, wasm := range [][]byte{billing, chatGuest(t, "1")} {
		if err := b.Bring(wasm, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if q, err := b.Quote("r", in); err != nil || q.Bounds().Upper != 9 || q.Provisional() {
		t.Errorf("with the module: %+v, %v", q, err)
	} else {
		q.Close()
	}
	if got := request(t, b, "x"); got != `{"by":"1"}` {
		t.Error(got)
	}
	if _, err := a.Canary(two, 50); err != nil {
		t.Fatal(err)
	}
	r.follow(t, b)
	served, refused := 0, 0
	for i := range 100 {
		if tr := b.Translate(SlotChat, fmt.Sprint("account", i), "", abi.Facts{}); tr == nil {
			refused++
		} else {
			served++
			tr.Close()
		}
	}
	if served == 0 || refused == 0 || !strings.HasPrefix(b.Absent(), "chat: ") {
		t.Errorf("%d served, %d refused, absent %q: want the canary's accounts refused", served, refused, b.Absent())
	}
}

// TestRolloutNotKept: a change that the cluster does not keep changes nothing on the host either.
func TestRolloutNotKept(t *testing.T) {
	r := &row{}
	a, b := r.join(t, t.TempDir()), r.join(t, t.TempDir())
	one, two := bring(t, chatGuest(t, "1"), a, b), bring(t, chatGuest(t, "2"), a, b)
	if _, err := a.Activate(one); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Activate(two); !errors.Is(err, errOutdated) { // it has not followed
		t.Errorf("beside another's change: %v", err)
	}
	if got := roles(b); got != "native, - 0, -, -" {
		t.Errorf("it has %s", got)
	}
	r.follow(t, b)
	r.away = errors.New("the database does not answer")
	if err := b.Remove(two); err == nil {
		t.Error("removed without the row")
	}
	for _, do := range []func() (Info, error){
		func() (Info, error) { return b.Activate(two) }, func() (Info, error) { return b.Canary(two, 10) },
		func() (Info, error) { return b.Shadow(two, 10) }, func() (Info, error) { return b.Rollback(SlotChat) },
	} {
		if _, err := do(); !errors.Is(err, r.away) {
			t.Errorf("without the row: %v", err)
		}
		if got := roles(b); got != "1, - 0, -, native" || b.Number() != 1 {
			t.Errorf("without the row it has %s, rollout %d", got, b.Number())
		}
	}
	r.away = nil
	if _, err := b.Activate(two); err != nil || roles(b) != "2, - 0, -, 1" {
		t.Errorf("with the row again: %v, %s", err, roles(b))
	}
}

// TestDemotionIsFollowed: a module that one host takes out of service is out on all.
func TestDemotionIsFollowed(t *testing.T) {
	r := &row{}
	a, b := r.join(t, t.TempDir()), r.join(t, t.TempDir())
	one, two := bring(t, chatGuest(t, "1"), a, b), bring(t, chatGuest(t, "2"), a, b)
	for _, digest := range []string{one, two} {
		if _, err := a.Activate(digest); err != nil {
			t.Fatal(err)
		}
	}
	r.follow(t, b)
	b.demote(b.slot(SlotChat).now.Load().active, "it faults")
	r.follow(t, a)
	for _, h := range []*Host{a, b} {
		if i, err := h.Module(two); err != nil || i.State != StateFailed || i.Error != "it faults" || !strings.HasPrefix(roles(h), "1, ") {
			t.Errorf("%s: %+v, %v", roles(h), i, err)
		}
	}
	if _, err := a.Activate(two); err != nil {
		t.Fatal(err)
	}
	r.follow(t, b)
	if i, err := b.Module(two); err != nil || i.State != StateActive || i.Error != "" {
		t.Errorf("chosen again: %+v, %v", i, err)
	}
}

// TestEnabledAgainAfterFailures: a module that fails and that nothing can replace serves on, and so
// it does when another node of the cluster has ended it and begun it again.
func TestEnabledAgainAfterFailures(t *testing.T) {
	wasm := routedGuest("one", "1", "/a").bytes(t)
	off := shippedModule{slot: "one", name: "one", off: true, digest: digestOf(wasm), wasm: func() ([]byte, error) { return wasm, nil }}
	r := &row{}
	join := func() *Host {
		h, _ := openWith(t, Options{Dir: t.TempDir(), Keep: r.keep, State: r.text, Number: r.number}, append(testShipped(), off))
		return h
	}
	a, b := join(), join()
	step := func(do func(name string) (Info, error), path string) {
		t.Helper()
		if _, err := do("one"); err != nil {
			t.Fatal(err)
		}
		r.follow(t, a)
		if got := routeAt(a, "/a/list"); got != path || a.Missing("one") || a.Absent() != "" {
			t.Errorf("the path is that of %q, want %q; absent %q", got, path, a.Absent())
		}
	}
	step(b.Enable, "one@1:/a/list")
	a.demote(a.slot("one").now.Load().active, "it faults")
	if i, err := a.Module(off.digest); err != nil || i.State != StateActive || i.Error != "it faults" {
		t.Errorf("%+v, %v", i, err)
	}
	step(b.Disable, "")
	step(b.Enable, "one@1:/a/list")
	if tr := a.Translate("one", "x", "", abi.Facts{}); tr == nil {
		t.Error("it does not serve")
	} else {
		tr.Close()
	}
}

// TestOnlyChangesWaitForTheRow: while a database does not say whether it keeps a change, requests whose faults take
// a module out of service go on, and so do readiness and who looks. The next change comes after that one.
func TestOnlyChangesWaitForTheRow(t *testing.T) {
	r := &row{}
	asked, answer := make(chan bool, 9), make(chan bool)
	h, _ := openTest(t, Options{Dir: t.TempDir(), Keep: func(before int64, text []byte) (int64, error) {
		asked <- true
		<-answer
		return r.keep(before, text)
	}})
	one := mustLoad(t, h, chatGuest(t, "1"))
	changed := make(chan error, 1)
	go func() {
		_, err := h.Activate(one)
		changed <- err
	}()
	<-asked
	free := h.mu.TryLock()
	if free {
		g := h.modules[one].generation
		h.mu.Unlock()
		for range breakerFaults {
			h.failed(g, abi.OpRequest, caller{}, guest.Faultf(guest.CauseTrap, "a fault"))
		}
		if got := roles(h); got != "native, - 0, -, -" || h.Absent() != "" || h.Number() != 0 || len(h.Modules()) == 0 {
			t.Errorf("before it is kept: %s, absent %q, rollout %d", got, h.Absent(), h.Number())
		}
	}
	close(answer)
	if err := <-changed; err != nil || !free {
		t.Fatalf("the change: %v; others go on meanwhile: %v", err, free)
	}
	h.background.Wait()
	if i, err := h.Module(one); err != nil || i.State != StateFailed || roles(h) != "native, - 0, -, -" || h.Number() != 2 {
		t.Errorf("after the faults: %+v, %v, %s, rollout %d", i, err, roles(h), h.Number())
	}
}
