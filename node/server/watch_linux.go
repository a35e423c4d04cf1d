package server

import "golang.org/x/sys/unix"

// asked is the array that one poll call takes, kept between sweeps.
type asked struct{ fds []unix.PollFd }

// sweep calls gone for each socket whose client closed its side, with one
// system call. POLLRDHUP is seen behind unread bytes too.
func (a *asked) sweep(watches []*watch, gone func(*watch)) {
	a.fds = a.fds[:0]
	for _, e := range watches {
		fd := int32(e.fd)
		if e.hit {
			fd = -1 // ignored by poll
		}
		a.fds = append(a.fds, unix.PollFd{Fd: fd, Events: unix.POLLRDHUP})
	}
	n, err := unix.Poll(a.fds, 0)
	if err != nil || n == 0 {
		return // EINTR: the next sweep asks again
	}
	for i := range a.fds {
		if a.fds[i].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			gone(watches[i])
		}
	}
}
