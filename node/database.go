package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"corenode/node/cluster"
	"corenode/node/config"
	"corenode/node/server"
	"corenode/node/store"
	"corenode/node/store/postgres"
	"corenode/node/store/sqlite"
)

// joinMax bounds each word with a database elsewhere while the node starts.
const joinMax = 20 * time.Second

// openStore opens where the node keeps its rows, as they are: a database that nodes share, or the data
// folder. Either way the folder is this node's alone until it closes.
func (n *node) openStore() error {
	open := n.openDatabase
	if n.cfg.Store.URL == "" {
		open = n.openFolder
	}
	err := open()
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w: stop it, or name another folder with --data-dir", err)
	}
	return err
}

func (n *node) openFolder() error {
	if err := wantNoCluster(n.cfg.DataDir); err != nil {
		return err
	}
	s, err := sqlite.OpenAsItIs(n.cfg.DataDir)
	if err != nil {
		return err
	}
	n.store = s
	n.onClose(slog.LevelError, "close the store", s.Close)
	return nil
}

func (n *node) openDatabase() error {
	lock, err := store.LockFolder(n.cfg.DataDir)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, func() { lock.Close() }) // the kernel does it too
	if hasDatabase(n.cfg.DataDir) {
		return fmt.Errorf("store.url is set, and %s has rows of its own, in %s: move them with corenode store migrate, or, "+
			"if they are there or are not wanted, move %[2]s* away", n.cfg.DataDir, sqlite.DatabaseName)
	}
	id, err := store.NodeID(n.cfg.DataDir)
	if err != nil {
		return err
	}
	n.sayOpenToGroup("store.password_file", n.cfg.Store.PasswordFile)
	password := postgres.PasswordOf("store.password_file", n.cfg.Store.PasswordFile)
	s, err := postgres.OpenAsItIs(postgres.Config{URL: n.cfg.Store.URL, Password: password, Node: id, Lease: n.lease})
	if err != nil {
		return err
	}
	n.store, n.commons = s, newCommons(s, id, n)
	n.onClose(slog.LevelError, "close the store", s.Close)
	return nil
}

// migrate brings the database up to the schema of this program, and makes this node one of those that share it.
func (n *node) migrate() error {
	m, err := n.store.(interface {
		Migrate() (store.Migration, error)
	}).Migrate()
	if err != nil {
		return err
	}
	if m.Changed() {
		n.log.Warn(m.String())
	}
	s, shared := n.store.(*postgres.Store)
	if !shared {
		return nil
	}
	if err := store.JoinCluster(n.cfg.DataDir, n.commons.id); err != nil {
		return err
	}
	n.warnOfReplicas(s)
	return n.join(n.commons.id, s)
}

// wantNoCluster refuses a folder without store.url whose rows are elsewhere.
func wantNoCluster(dir string) error {
	switch {
	case !store.InCluster(dir):
		return nil
	case hasDatabase(dir):
		return fmt.Errorf("%s has rows of its own, in %s, and a node.id, which says that they are in PostgreSQL: if they are, "+
			"set store.url and move %[2]s* away; if no node ever ran on it with store.url and no move went through, remove node.id",
			dir, sqlite.DatabaseName)
	}
	return fmt.Errorf("the rows of the node in %s are in PostgreSQL: set store.url, or name another data_dir", dir)
}

func hasDatabase(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, sqlite.DatabaseName))
	return !errors.Is(err, fs.ErrNotExist)
}

// warnOfReplicas says that charges may be lost, where a failover may lose a commit.
func (n *node) warnOfReplicas(s *postgres.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), joinMax)
	defer cancel()
	if replicas, err := s.LosingReplicas(ctx); err == nil && replicas > 0 {
		n.log.Warn("the database has replicas, and no commit waits for one: after a failover charges may be missing, "+
			"and limits be exceeded; set synchronous_standby_names", "replicas", replicas)
	}
}

// join makes this node one of those that share a store.
func (n *node) join(id string, s *postgres.Store) error {
	home, err := homeOf(n.cfg.DataDir)
	if err != nil {
		return err
	}
	d := &database{id: id, rows: s}
	d.said.Store(&store.Presence{Home: home, Version: version})
	d.sayPrices(n.cfg)
	c := cluster.Config{Nodes: s, Log: n.log, Presence: func() store.Presence { return *d.said.Load() }, Drain: n.Drain}
	if n.pause != nil {
		c.Pause = n.pause
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinMax)
	defer cancel()
	if d.Member, err = cluster.Join(ctx, c); err != nil {
		return err
	}
	n.database = d
	stopped := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { d.Run(stopped) })
	n.closers = append(n.closers, func() {
		close(stopped)
		running.Wait()
	})
	return nil
}

// followAccounts reads all accounts and keys, and again what other nodes change of them.
func (n *node) followAccounts() (err error) {
	var from store.Position
	if n.database != nil { // what changes while they are read is read again
		ctx, cancel := context.WithTimeout(context.Background(), joinMax)
		defer cancel()
		if from, err = n.database.rows.Position(ctx); err != nil {
			return err
		}
	}
	if n.keys, err = server.OpenKeyring(n.store, n.log); err != nil || n.database == nil {
		return err
	}
	n.database.Handle(store.TopicAccount, n.keys.Follow)
	n.database.Follow(from)
	return nil
}

// await returns when the other nodes know what this one is, so that its first request is admitted; or after a while.
func (d *database) await() {
	for end := time.Now().Add(joinMax); d.Admits() != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// homeOf names a data folder among those of all machines.
func homeOf(dir string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(dir)
	return host + ":" + path, err
}

// database is a database elsewhere, and the life of this node among those that share it.
type database struct {
	*cluster.Member
	id   string
	rows *postgres.Store
	said atomic.Pointer[store.Presence] // what the node says of itself
}

// ID implements admin.Cluster.
func (d *database) ID() string { return d.id }

// Nodes implements admin.Cluster.
func (d *database) Nodes(after string, limit int) ([]store.Node, error) {
	return d.rows.Nodes(after, limit)
}

// Grants implements admin.Cluster.
func (d *database) Grants() ([]store.NodeGrant, error) { return d.rows.Grants() }

// AskDrain implements admin.Cluster.
func (d *database) AskDrain(id string) error { return d.rows.AskDrain(id) }

// Spread implements admin.Cluster.
func (d *database) Spread(ctx context.Context, accountID string) ([]string, error) {
	return d.Member.Spread(ctx, store.TopicAccount, accountID)
}

// say changes what the node says of itself. One goroutine does at a time.
func (d *database) say(change func(*store.Presence)) {
	p := *d.said.Load()
	change(&p)
	d.said.Store(&p)
}

// sayPrices says which prices the configuration has.
func (d *database) sayPrices(cfg *config.Config) {
	d.say(func(p *store.Presence) { p.PricesDigest = digest(prices(cfg)) })
}

// meetNodes has the tree follow what other nodes change, tells them what this one serves, and waits until they know it.
func (n *node) meetNodes() error {
	if n.database == nil {
		return nil
	}
	n.database.Handle(store.TopicAccount, n.followed)
	n.sayModels()
	n.database.await()
	return nil
}

// sayModels says what is served, and where.
func (n *node) sayModels() {
	type served struct {
		ID                       string
		ContextLength, OutputMax int
	}
	var all []served
	for _, info := range n.catalog.infos {
		all = append(all, served{info.ID, info.ContextLength, info.OutputMax})
	}
	n.database.say(func(p *store.Presence) {
		p.Models, p.ModelsDigest, p.Address = n.catalog.ids(), digest(all), n.public.Addr().String()
	})
}

// digest is the same for equal values, on every node.
func digest(value any) string {
	text, err := json.Marshal(value) // of a map in the order of its keys
	if err != nil {
		panic(fmt.Sprintf("digest of %T: %v", value, err))
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:16]
}

// differences says what other nodes have otherwise than this one.
func (n *node) differences() []string {
	if n.database == nil {
		return nil
	}
	return append(n.database.Differences(), n.commons.notes()...)
}
