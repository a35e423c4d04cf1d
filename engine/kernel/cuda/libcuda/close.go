//go:build cuda && linux

package libcuda

import (
	"fmt"
	"sync"
	"time"

	"corenode/engine/kernel/cuda"
)

// closeMax bounds the destruction of a context: the driver may wait in it for a kernel that does not end.
const closeMax = 20 * time.Second

// place is a GPU as Open names it.
type place struct {
	library string
	index   int
}

// leftBehind is the contexts of this process whose destruction did not end in time. Each is waited for by a goroutine
// of its own, which ends with the driver's call, or with the process.
type leftBehind struct {
	mu    sync.Mutex // guards ended
	ended map[place][]<-chan struct{}
}

// left is that of the process, since the driver's own state is: what is called beside a hanging destruction may hang, too.
var left = leftBehind{ended: map[place][]<-chan struct{}{}}

// add notes a context that is being destroyed still.
func (l *leftBehind) add(at place, ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[at] = append(l.ended[at], ended)
}

// await returns when no context of a GPU is being destroyed, or after a time with an error.
func (l *leftBehind) await(at place, most time.Duration) error {
	late := time.NewTimer(most)
	defer late.Stop()
	for ended := l.next(at); ended != nil; ended = l.next(at) {
		select {
		case <-ended:
		case <-late.C:
			return &cuda.Error{Code: cuda.Fault, Op: "open", Sticky: true,
				Msg: "a context that was given up is not destroyed yet: only a new process may get the device back"}
		}
	}
	return nil
}

// next is one that is being destroyed, nil for none.
func (l *leftBehind) next(at place) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ended[at]) > 0 {
		select {
		case <-l.ended[at][0]:
			l.ended[at] = l.ended[at][1:]
		default:
			return l.ended[at][0]
		}
	}
	return nil
}

// Close destroys the context with all that is in it, also of a device that is lost. One that the driver does not
// destroy in time is left behind, and its memory with it.
func (d *device) Close() error { return d.closeWithin(closeMax) }

func (d *device) closeWithin(most time.Duration) error {
	if d.context == 0 {
		return nil
	}
	context := d.context
	d.context, d.host = 0, nil
	ended, said := make(chan struct{}), make(chan status, 1)
	go func() {
		defer close(ended)
		said <- d.lib.do(cuCtxDestroy, context)
	}()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case s := <-said:
		if d.lost != nil {
			return nil // it says again what was said
		}
		return d.lib.fail("close", s)
	case <-late.C:
		left.add(d.place, ended)
		return &cuda.Error{Code: cuda.Fault, Op: "close", Sticky: true,
			Msg: fmt.Sprintf("not done after %v: the context is left behind", most)}
	}
}
