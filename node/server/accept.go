package server

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// acceptWait is how long a listener that has no room for a connection waits
// before it tries again.
const acceptWait = 50 * time.Millisecond

// patient is a listener that outlives a process without free descriptors or
// memory: fasthttp takes every error of Accept for the end of the listener, and
// whoever opens connections enough could end the node. What it cannot accept
// waits in the kernel. Accept is called by one goroutine.
type patient struct {
	net.Listener
	log     *slog.Logger
	failing bool // and the log says so
}

// Accept returns the next connection, or the error that ends the listener.
func (p *patient) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		switch {
		case err == nil:
			if p.failing {
				p.failing = false
				p.log.Info("connections are accepted again", "listen", p.Addr().String())
			}
			return c, nil
		case !passing(err):
			return nil, err
		case !p.failing:
			p.failing = true
			p.log.Error("connections cannot be accepted; it is tried again until they can", "listen", p.Addr().String(), "error", err.Error())
		}
		time.Sleep(acceptWait)
	}
}

// passing says whether Accept failed for want of something that others give
// back, or for a connection that is gone.
func passing(err error) bool {
	for _, errno := range [...]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
