package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// supervisor is the service manager that started the node, where there is one: systemd with
// Type=notify. What it is told, and how, is in sd_notify(3). The zero value tells nobody.
type supervisor struct {
	to       *net.UnixConn
	watchdog time.Duration // it wants a sign of life this often; 0 is never
}

// findSupervisor looks for one in the environment.
func findSupervisor() (supervisor, error) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return supervisor{}, nil
	}
	to, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return supervisor{}, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	s := supervisor{to: to}
	if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		us, _ := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64) // none is 0
		s.watchdog = max(0, time.Duration(us)*time.Microsecond)
	}
	return s, nil
}

// say tells it a state, such as READY=1. A manager that does not listen any more is nobody: the end of the node does
// not wait for it.
func (s supervisor) say(state string) {
	if s.to != nil {
		_ = s.to.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = s.to.Write([]byte(state))
	}
}

// reloading says that a reload runs until the function that it returns is called.
func (s supervisor) reloading() (done func()) {
	s.say(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic().Microseconds()))
	return func() { s.say("READY=1") }
}

// extendEvery is how often a start asks for more time, extendBy how much each time: what systemd gives is from then on. One
// that is not over in extendMax hangs.
const extendEvery, extendBy, extendMax = 20 * time.Second, 60 * time.Second, 4 * time.Hour

// extend asks for more time at once and each time that every has passed, until the function that it returns is called, or
// it has asked for extendMax.
func (s supervisor) extend(every time.Duration) (done func()) {
	if s.to == nil {
		return func() {}
	}
	var asking sync.WaitGroup
	over := make(chan struct{})
	asking.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < extendMax; {
			s.say(extension(extendBy))
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	})
	return func() {
		close(over)
		asking.Wait()
	}
}

// extension asks for as much time, from now on, for what goes on. It shortens nothing.
func extension(by time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", by.Microseconds())
}

// live gives signs of life until done is closed, each after alive has returned: where it hangs,
// the manager starts the node anew.
func (s supervisor) live(alive func(), done <-chan struct{}) {
	if s.watchdog == 0 {
		return
	}
	tick := time.NewTicker(s.watchdog / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			alive()
			s.say("WATCHDOG=1")
		case <-done:
			return
		}
	}
}

func (s supervisor) close() {
	if s.to != nil {
		s.to.Close()
	}
}
