package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"corenode/node/store"
	"corenode/node/store/postgres"
	"corenode/node/store/sqlite"
)

// renewEvery is how often the node tells a database elsewhere that it runs, renewMax how long it waits for that.
const renewEvery, renewMax = time.Second, 2 * time.Second

// openStore opens where the node keeps its rows: a database that nodes share, or the data
// folder. Either way the folder is this node's alone until it closes.
func (n *node) openStore() error {
	if n.cfg.Store.URL == "" {
		if store.Shares(n.cfg.DataDir) {
			return fmt.Errorf("the rows of the node in %s are in PostgreSQL: set store.url, or name another data_dir", n.cfg.DataDir)
		}
		s, err := sqlite.Open(n.cfg.DataDir)
		if err != nil {
			return err
		}
		n.store = s
		n.onClose(slog.LevelError, "close the store", s.Close)
		return nil
	}
	lock, err := store.LockFolder(n.cfg.DataDir)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, func() { lock.Close() }) // the kernel does it too
	id, err := store.NodeID(n.cfg.DataDir)
	if err != nil {
		return err
	}
	password, err := postgres.ReadPassword(n.cfg.Store.PasswordFile)
	if err != nil {
		return fmt.Errorf("store.password_file: %w", err)
	}
	s, err := postgres.Open(postgres.Config{URL: n.cfg.Store.URL, Password: password, Node: id})
	if err != nil {
		return err
	}
	n.store, n.database = s, &database{renew: s.Renew}
	n.onClose(slog.LevelError, "close the store", s.Close)
	home, err := homeOf(n.cfg.DataDir)
	if err == nil {
		err = s.Register(home, version)
	}
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { n.database.watch(stopped) })
	n.closers = append(n.closers, func() {
		close(stopped)
		watching.Wait()
	})
	return nil
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

// database knows whether a database elsewhere answers, and whether this node still is who it says there.
type database struct {
	renew func(context.Context) error
	away  atomic.Pointer[error] // of the last renewal; nil when it was taken
}

// watch renews again and again until stopped is closed.
func (d *database) watch(stopped <-chan struct{}) {
	ticks := time.NewTicker(renewEvery)
	defer ticks.Stop()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), renewMax)
		err := d.renew(ctx)
		cancel()
		if err == nil {
			d.away.Store(nil)
		} else {
			d.away.Store(&err)
		}
		select {
		case <-ticks.C:
		case <-stopped:
			return
		}
	}
}

// ready says why the database is of no use now.
func (d *database) ready() error {
	if err := d.away.Load(); err != nil {
		return *err
	}
	return nil
}
