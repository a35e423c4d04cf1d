//go:build unix && !linux

package server

import "golang.org/x/sys/unix"

// asked has no state where poll knows no POLLRDHUP.
type asked struct{}

// sweep peeks at each socket. A client that sent more before it left is seen
// only when those bytes are read, which is when the answer is written.
func (asked) sweep(watches []*watch, gone func(*watch)) {
	var b [1]byte
	for _, e := range watches {
		if e.hit {
			continue
		}
		n, _, err := unix.Recvfrom(e.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err == nil && n == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR {
			gone(e)
		}
	}
}
