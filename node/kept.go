package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"corenode/engine"
	"corenode/engine/keep"
)

// keptBuffer is how much of a kept cache is read or written at once.
const keptBuffer = 1 << 20

// errKeepTimeout ends the writing of a cache that takes too long.
var errKeepTimeout = errors.New("it took longer than limits.drain_timeout")

// kept are the prefix caches that outlive the node, a file for each model. They hold the
// tokens of prompts and answers: they are as private as the database is.
type kept struct {
	dir      string
	bytesMax int64 // of each; 0 keeps nothing
	log      *slog.Logger

	mu   sync.Mutex
	seen map[string]bool // models whose file was read or passed over. Guarded by mu
}

func newKept(dataDir string, bytesMax int64, log *slog.Logger) *kept {
	return &kept{dir: filepath.Join(dataDir, "kept"), bytesMax: bytesMax, log: log, seen: map[string]bool{}}
}

// clean removes what nobody will read: everything where nothing is kept, else what a writer left
// half done and what was kept of models that this node does not compute any more.
func (k *kept) clean(models iter.Seq[string]) error {
	if k.bytesMax == 0 {
		return os.RemoveAll(k.dir)
	}
	files, err := os.ReadDir(k.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	wanted := map[string]bool{}
	for model := range models {
		wanted[filepath.Base(k.path(model))] = true
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); ext == ".new" || ext == ".prefixes" && !wanted[f.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(k.dir, f.Name())))
		}
	}
	return err
}

// path is the file of a model, whose id may hold any characters.
func (k *kept) path(model string) string {
	return filepath.Join(k.dir, fmt.Sprintf("%.16x.prefixes", sha256.Sum256([]byte(model))))
}

// restore gives a model's first stepper what the last one kept. A stepper that is made after a
// failure begins with nothing, in case that what was kept is why.
func (k *kept) restore(model string, s *engine.Stepper) {
	k.mu.Lock()
	first := !k.seen[model]
	k.seen[model] = true
	k.mu.Unlock()
	if !first || k.bytesMax == 0 {
		return
	}
	started := time.Now()
	read, err := k.read(model, s)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, engine.ErrNoMemory):
	case err != nil && read.Pages == 0:
		k.log.Warn("the kept prefix cache is not used", "model", model, "error", err.Error())
	case err != nil:
		k.log.Warn("a part of the kept prefix cache is not used", "model", model, "pages", read.Pages, "error", err.Error())
	default:
		k.log.Info("the prefix cache is back", "model", model, "pages", read.Pages, "snapshots", read.Snapshots, "bytes", read.Bytes,
			"ms", time.Since(started).Milliseconds())
	}
}

func (k *kept) read(model string, s *engine.Stepper) (read keep.Read, err error) {
	f, err := os.Open(k.path(model))
	if err != nil {
		return read, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return read, err
	}
	return s.Restore(bufio.NewReaderSize(f, keptBuffer), info.Size())
}

// write keeps the cache of a model on its step loop. The file is complete or as it was.
func (k *kept) write(model string, s *engine.Stepper, deadline time.Time) {
	started := time.Now()
	pages, bytes, err := k.replace(model, s, deadline)
	switch {
	case errors.Is(err, engine.ErrNoMemory):
	case err != nil:
		k.log.Warn("the prefix cache is not kept", "model", model, "error", err.Error())
	default:
		k.log.Info("the prefix cache is kept", "model", model, "pages", pages, "bytes", bytes, "ms", time.Since(started).Milliseconds())
	}
}

func (k *kept) replace(model string, s *engine.Stepper, deadline time.Time) (pages int, bytes int64, err error) {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return 0, 0, err
	}
	path := k.path(model)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, 0, err
	}
	to := bufio.NewWriterSize(&untilWriter{to: f, until: deadline}, keptBuffer)
	if pages, err = s.Keep(to, k.bytesMax); err == nil {
		err = to.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if info, statErr := f.Stat(); statErr == nil {
		bytes = info.Size()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name()) // the next start removes it too
	}
	return pages, bytes, err
}

// keptSync is how many bytes may wait for the disk: its time counts against the deadline too.
const keptSync = 64 << 20

// untilWriter writes to a disk until a deadline.
type untilWriter struct {
	to interface {
		io.Writer
		Sync() error
	}
	until   time.Time
	waiting int // bytes that are not known to be on the disk
}

func (w *untilWriter) Write(b []byte) (int, error) {
	if w.waiting >= keptSync {
		if err := w.to.Sync(); err != nil {
			return 0, err
		}
		w.waiting = 0
	}
	if time.Now().After(w.until) {
		return 0, errKeepTimeout
	}
	n, err := w.to.Write(b)
	w.waiting += n
	return n, err
}

// keepCaches writes the prefix caches of all models of a drained node, while its sessions'
// pins still say what is worth most.
func (n *node) keepCaches() {
	if n.kept == nil || n.kept.bytesMax == 0 || n.tree == nil {
		return
	}
	deadline := time.Now().Add(n.cfg.Limits.DrainTimeout)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	for _, info := range n.catalog.infos {
		if n.catalog.engines[info.ID] == nil {
			continue
		}
		err := n.visitEngine(ctx, info.ID, func(s *engine.Stepper) { n.kept.write(info.ID, s, deadline) })
		if err != nil {
			n.log.Warn("the prefix cache is not kept", "model", info.ID, "error", err.Error())
		}
	}
}
