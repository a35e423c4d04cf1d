package server

import (
	"sync"
	"time"
)

// watcher asks every in-flight socket, a few times a second, whether its client
// has left. It works where nothing is being written or read: in the queue, in
// prefill, and for answers that do not stream. A client that shut down only its
// sending side counts as gone.
//
// A descriptor is asked only between add and remove, and remove runs on the
// goroutine that closes the connection, so a reused number is never asked.
type watcher struct {
	mu      sync.Mutex
	watches []*watch // Guarded by mu; bounded by the connections
	asked   asked    // Guarded by mu; the platform's scratch space

	quit chan struct{}
	done chan struct{}
}

// watch is one in-flight socket.
type watch struct {
	fd    int
	left  func() // called at most once, under the watcher's lock: it must not block
	index int    // in watches, -1 when removed
	hit   bool
}

// newWatcher starts the sweeping goroutine; stop ends it.
func newWatcher(every time.Duration) *watcher {
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{})}
	go w.run(every)
	return w
}

func (w *watcher) run(every time.Duration) {
	defer close(w.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.sweep()
		case <-w.quit:
			return
		}
	}
}

func (w *watcher) stop() {
	close(w.quit)
	<-w.done
}

// add begins to watch a socket; fd -1 is a connection that cannot be watched.
func (w *watcher) add(fd int, left func()) *watch {
	e := &watch{fd: fd, left: left, index: -1}
	if fd < 0 {
		return e
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.index = len(w.watches)
	w.watches = append(w.watches, e)
	return e
}

// remove ends watching; when it returns, left has run or never will.
func (w *watcher) remove(e *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.index < 0 {
		return
	}
	end := len(w.watches) - 1
	moved := w.watches[end]
	w.watches[e.index], moved.index = moved, e.index
	w.watches[end] = nil
	w.watches = w.watches[:end]
	e.index = -1
}

func (w *watcher) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watches) == 0 {
		return
	}
	w.asked.sweep(w.watches, func(e *watch) {
		if !e.hit {
			e.hit = true
			e.left()
		}
	})
}
