package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"corenode/extensions"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// lookEvery is how often a node looks whether what nodes have in common has changed, lookMax
// how long it waits for the answer.
const lookEvery, lookMax = 500 * time.Millisecond, 5 * time.Second

// offerAgain is the pause after a policy that ships could not be offered to the store.
const offerAgain = 30 * time.Second

// sweepModulesEvery is how often files of modules are removed that nobody needs.
const sweepModulesEvery = time.Hour

// commons is what this node has in common with the others on its database: prices, module files,
// and which modules serve. The rows are the truth; the node follows their numbers.
type commons struct {
	store store.Common
	id    string // of this node
	node  *node
	log   *slog.Logger
	woken chan struct{} // has room for one: look now
	// asked are told what came of the next look that begins; each has room for it. ended is closed when run is over.
	asked chan chan error
	ended chan struct{}

	peers peers
	lags  atomic.Pointer[error] // why the last rollout is not followed; nil, or of nil, when it is

	// Owned by run, and by what comes before it in the start:
	modulesSeen int64
	reported    store.NodeReport
	failed      map[string]string // modules that could not be loaded, and why
	away        bool              // the last look failed, and the log says so
	behind      error             // why the last look did not follow all that the store has; nil when it did
	swept       time.Time         // when files of modules were last removed that nobody needs

	pricing    sync.Mutex                            // one change of the listed prices at a time
	listed     atomic.Pointer[map[string]abi.Prices] // what the store lists; replaced with pricing held, as is its number
	pricesSeen atomic.Int64
}

func newCommons(s store.Common, id string, n *node) *commons {
	c := &commons{store: s, id: id, node: n, log: n.log, woken: make(chan struct{}, 1), failed: map[string]string{},
		asked: make(chan chan error), ended: make(chan struct{})}
	c.listed.Store(&map[string]abi.Prices{})
	return c
}

// modulesDir is where a node has the files of modules: its own, or copies of those in the store.
func (n *node) modulesDir() string { return filepath.Join(n.cfg.DataDir, "modules") }

// prepare brings what is common to this node, before its modules are opened. Where the store has
// no modules yet, those of this folder are the first.
func (c *commons) prepare() (state []byte, number int64, err error) {
	if err := c.beginPrices(); err != nil {
		return nil, 0, err
	}
	state, number, err = c.store.Common(store.CommonRollout)
	if err == nil && number == 0 {
		state, number, err = c.offerFolder()
	}
	if err != nil {
		return nil, 0, err
	}
	if err = c.copyFiles(); err == nil {
		err = c.store.Report(store.NodeReport{Rollout: number}) // of its life before nothing holds
	}
	return state, number, err
}

// copyFiles brings the module files of the store into the folder. Each that the folder lacks is a call of its own, so
// that many, or a slow link, keep no node from starting; look brings what changes meanwhile.
func (c *commons) copyFiles() error {
	all, number, err := c.store.ModuleList()
	if err != nil {
		return err
	}
	for _, m := range all {
		read := func() ([]byte, error) { return c.store.ModuleWasm(m.Digest) }
		err := extensions.KeepFile(c.node.modulesDir(), m.Digest, read, m.Signature, m.Config)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // another node removed it since: nobody needs it
			return err
		}
	}
	c.modulesSeen = number
	return nil
}

// offerFolder makes this folder's modules those of the cluster. Of nodes that start at once, one's are.
func (c *commons) offerFolder() (state []byte, number int64, err error) {
	dir := c.node.modulesDir()
	if state, err = extensions.FolderState(dir); err != nil {
		return nil, 0, err
	}
	if err := c.offerFiles(nil); err != nil {
		return nil, 0, err
	}
	if state == nil {
		state = []byte("{}")
	}
	number, err = c.store.SetCommon(store.CommonRollout, 0, state)
	if errors.Is(err, store.ErrOutdated) {
		return c.store.Common(store.CommonRollout)
	}
	return state, number, err
}

// offerFiles keeps in the store what the folder has and had does not name.
func (c *commons) offerFiles(had map[string]bool) error {
	return extensions.Files(c.node.modulesDir(), had, func(digest string, wasm, signature, config []byte) error {
		return c.store.PutModule(store.ModuleFile{Digest: digest, Wasm: wasm, Signature: signature, Config: config}, false)
	})
}

// followCommons begins to follow, until the node closes. A node that starts does, since others wait
// for it when they change what serves.
func (n *node) followCommons() {
	if n.commons == nil {
		return
	}
	stopped := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() { n.commons.run(stopped) })
	following.Go(func() { n.commons.offerShipped(stopped) })
	n.database.Handle(store.TopicCommons, n.commons.catchUp)
	n.closers = append(n.closers, func() {
		close(stopped)
		following.Wait()
	})
}

// run follows until stopped is closed.
func (c *commons) run(stopped <-chan struct{}) {
	defer close(c.ended)
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	var asked chan error // of who waits for this look
	for {
		err := c.look()
		if asked != nil {
			asked <- c.behind
			asked = nil
		}
		switch {
		case err != nil && !c.away:
			c.log.Error("what nodes have in common cannot be followed; it is tried again until it can", "error", err.Error())
		case err == nil && c.away:
			c.log.Info("what nodes have in common is followed again")
		}
		c.away = err != nil
		select {
		case <-ticks.C:
		case <-c.woken:
		case asked = <-c.asked:
		case <-stopped:
			return
		}
	}
}

// catchUp waits for a look that begins now, and says why it did not follow all. A node that was counted out admits nothing before one
// did: nobody waited for it when prices or what serves changed. What a look cannot bring into memory keeps nobody out: then the node
// refuses what needs it, as one that starts does.
func (c *commons) catchUp([]string) error {
	late := time.After(lookMax) // accounts are to be followed meanwhile: it is called again
	looked := make(chan error, 1)
	select {
	case c.asked <- looked:
	case <-c.ended:
		return store.ErrClosed
	case <-late:
		return errLooking
	}
	select {
	case err := <-looked:
		return err
	case <-c.ended:
		return store.ErrClosed
	case <-late:
		return errLooking
	}
}

var errLooking = errors.New("prices and modules are still being brought")

// offerShipped keeps the policies in the store that ship with this program, as they come to the folder, until stopped is closed: their
// charges are replayed by nodes that ship others. No look waits for it: a file may take long.
func (c *commons) offerShipped(stopped <-chan struct{}) {
	offered, said := -1, "" // how often one had come to the folder at the last offer; what the log knows to be wrong
	for {
		kept, err := c.node.modules.KeepShipped()
		if kept != offered {
			if away := c.offerLacking(); away == nil {
				offered = kept
			} else {
				err = errors.Join(err, away)
			}
		}
		pause := lookEvery
		switch {
		case err != nil:
			if pause = offerAgain; err.Error() != said { // a file that cannot be read stays so, and hides nothing that comes later
				said = err.Error()
				c.log.Error("the modules that ship are not kept for replays on other nodes; it is tried again until they are",
					"error", said)
			}
		case said != "":
			said = ""
			c.log.Info("the modules that ship are kept for replays on other nodes")
		}
		select {
		case <-time.After(pause):
		case <-stopped:
			return
		}
	}
}

// offerLacking keeps in the store what the folder has, the store lacks and somebody may need.
func (c *commons) offerLacking() error {
	had := map[string]bool{}
	for _, digest := range c.node.modules.Unneeded() {
		had[digest] = true
	}
	all, _, err := c.store.ModuleList()
	if err != nil {
		return err
	}
	for _, m := range all {
		had[m.Digest] = true
	}
	return c.offerFiles(had)
}

// wake makes run look now.
func (c *commons) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// look takes what has changed, and says of this node what has.
func (c *commons) look() error {
	ctx, cancel := context.WithTimeout(context.Background(), lookMax)
	defer cancel()
	numbers, err := c.store.Numbers(ctx)
	if c.behind = err; err != nil {
		return err
	}
	err = c.take(numbers)
	if err == nil && time.Since(c.swept) > sweepModulesEvery && numbers[store.CommonRollout] == c.node.modules.Number() {
		c.swept, err = time.Now(), c.sweepModules()
	}
	return errors.Join(err, c.report(), c.followPeers())
}

// take follows what the store has, by its numbers. What serves is not followed without the files that came before it: nothing would
// bring those into memory later.
func (c *commons) take(numbers map[string]int64) error {
	var prices, files, lags error
	if numbers[store.CommonPrices] != c.pricesSeen.Load() { // also lower: a failover may have lost the last change
		prices = c.takePrices()
	}
	if n := numbers[store.CommonModules]; n > c.modulesSeen {
		files = c.takeModules()
	}
	if numbers[store.CommonRollout] > c.node.modules.Number() {
		if lags = files; lags == nil {
			lags = c.takeRollout()
		}
	}
	c.lags.Store(&lags)
	c.behind = errors.Join(prices, lags)
	return errors.Join(prices, cmp.Or(files, lags))
}

// sweepModules removes files that nobody needs from the store, and then from the folder. It goes by a rollout that is the present one; a
// module that was loaded again since was asked for, and stays in the store, which brings it to the folder again. A rollout names all
// that were ever removed.
func (c *commons) sweepModules() error {
	digests := c.node.modules.Unneeded()
	if len(digests) == 0 {
		return nil
	}
	if err := c.store.DropModules(digests); err != nil {
		return err
	}
	return c.node.modules.DropUnneeded()
}

// takeModules brings what changed of the module files, and into memory what is asked for.
func (c *commons) takeModules() error {
	var asked []store.ModuleFile
	number, err := c.store.ModuleFiles(c.modulesSeen, func(m store.ModuleFile) error {
		if m.Asked {
			asked = append(asked, m)
		}
		return c.node.modules.Note(m.Digest, m.Wasm, m.Signature, m.Config)
	})
	if err != nil {
		return err
	}
	for _, m := range asked {
		delete(c.failed, m.Digest)
		if err := c.node.modules.Bring(m.Wasm, m.Signature, m.Config); err != nil {
			c.failed[m.Digest] = err.Error()
			c.log.Error("a module that another node loaded does not load here", "module", m.Digest, "error", err.Error())
		}
	}
	c.modulesSeen = number
	return nil
}

func (c *commons) takeRollout() error {
	state, number, err := c.store.Common(store.CommonRollout)
	if err != nil {
		return err
	}
	return c.node.modules.Follow(number, state)
}

// report tells the other nodes what is so here, if that has changed.
func (c *commons) report() error {
	now := store.NodeReport{Rollout: c.node.modules.Number(), Modules: c.modulesSeen,
		Loaded: map[string]string{}, Failed: maps.Clone(c.failed)}
	for _, m := range c.node.modules.Held() {
		now.Loaded[m.Digest] = m.Config
	}
	c.peers.describe(&now)
	if reflect.DeepEqual(now, c.reported) {
		return nil
	}
	err := c.store.Report(now)
	if err == nil {
		c.reported = now
	}
	return err
}

// ready says what of the cluster this node cannot serve.
func (c *commons) ready() error {
	if lags := c.lags.Load(); lags != nil && *lags != nil {
		return fmt.Errorf("what serves in the cluster is not followed: %w", *lags)
	}
	if absent := c.node.modules.Absent(); absent != "" {
		return fmt.Errorf("a module that should serve is not in memory: %s", absent)
	}
	return nil
}

// notes are what operators are told of a node that is ready.
func (c *commons) notes() []string {
	if others := c.otherPrices(); len(others) > 0 {
		return []string{"the listed prices are quoted, and the configuration has others, of: " + strings.Join(others, ", ") +
			" (corenode prices)"}
	}
	return nil
}
