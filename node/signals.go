package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signals are what the system tells a node. SIGTERM and SIGINT stop it. A
// hangup does so too where a terminal is its standard input; elsewhere it asks
// for a reload. The others keep what Go does with them: SIGQUIT writes all
// stacks and ends the process, SIGUSR1 and SIGUSR2 do nothing.
type signals struct {
	stop       chan os.Signal // has room for the first, its repeat and the one that ends a drain
	hangup     chan os.Signal // apart, so that many displace no stop; more of them are one
	hangupEnds bool           // a hangup stops
	first      stopSignal     // to stop. Owned by who waits for the drain, then by endDrain
}

// repeatMax is how long after the first signal to stop the same once more is its repeat: who tells a process and then its group,
// as timeout does, sends it two within milliseconds. People are slower.
const repeatMax = 500 * time.Millisecond

// stopSignal is a signal to stop, and when it was seen; never, once it was repeated. Without one none came.
type stopSignal struct {
	signal os.Signal
	at     time.Time
}

// isRepeated says whether a signal after the first is not a second one but the first once more: the same, or the one that comes with
// the hangup of a session that ends.
func (s stopSignal) isRepeated(signal os.Signal, at time.Time) bool {
	return (s.signal == signal || s.signal == syscall.SIGHUP) && at.Sub(s.at) < repeatMax
}

// watchSignals takes the signals over; until close none of them ends the process by itself.
func watchSignals() *signals {
	// Who read the log or the greeting may be gone, and a file that reached the
	// limit of its size (ulimit -f) is an error of its write, as a full disk is.
	signal.Ignore(fileSignals...)
	// A terminal that hung up does not say any more that it is one. Who started
	// the node so that it ignores hangups (nohup) means it to outlive its terminal.
	s := &signals{stop: make(chan os.Signal, 3), hangup: make(chan os.Signal, 1),
		hangupEnds: isTerminal(os.Stdin) && !signal.Ignored(syscall.SIGHUP)}
	signal.Notify(s.stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(s.hangup, syscall.SIGHUP)
	return s
}

func (s *signals) close() {
	signal.Stop(s.stop)
	signal.Stop(s.hangup)
}

// endDrain ends the process at a second signal to stop. A hangup is none: a
// terminal that is closed often sends two. Nor is the first one once more. The
// first one says nothing new where an operator began the drain.
func (s *signals) endDrain(log *slog.Logger, reload func(), lines *logWriter) {
	for {
		select {
		case <-s.hangup:
			if !s.hangupEnds {
				reload()
			}
		case got := <-s.stop:
			switch now := time.Now(); {
			case s.first.signal == nil:
				s.first = stopSignal{got, now}
				log.Info("draining already", "signal", got.String())
			case s.first.isRepeated(got, now):
				s.first.at = time.Time{} // a third one ends the process, whenever the three are seen
			default:
				log.Warn("killed while draining")
				lines.Close()
				os.Exit(1)
			}
		}
	}
}
