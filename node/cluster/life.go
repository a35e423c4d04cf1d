// Package cluster is the life of a node among others that share its store.
//
// Life decides and does not wait: it says until when a node may admit, by its own monotonic
// clock, from when its renewals were sent and answered. Member is what waits: it registers,
// renews, follows what others changed, and asks Life. Pins tell the certificates of nodes that
// compute for each other.
//
// A node is lent things (grants of accounts) under a fence, for as long as it renews. Two clocks bound
// that, and they are never compared: the store counts a node out that was silent for the lease,
// and the node itself stops before, a margin earlier, counted from when it sent its last renewal
// that was answered. So whatever is slow, paused or cut off, a node has stopped by the time that others
// count on it.
//
// starting -> up -> draining -> gone, and from any of the first three to fenced and back: a
// node whose renewals ended, or whose fence is gone, admits nothing and finishes what runs. When
// it is heard again it registers anew, and reads what changed meanwhile before it admits.
package cluster

import (
	"time"

	"corenode/node/store"
)

// Times bound how long a node may count on what it last heard.
type Times struct {
	Lease  time.Duration // how long the store counts a node as live after a renewal
	Margin time.Duration // how much earlier a node stops by itself
}

// TimesOf are those of a lease: the margin is a tenth.
func TimesOf(lease time.Duration) Times { return Times{Lease: lease, Margin: lease / 10} }

// Life is where one node is. Times are of a monotonic clock. The zero value with Times has not registered.
type Life struct {
	Times

	serving, draining bool
	fenced            bool // no fence: none was made yet, or somebody said that it is gone
	registered        bool // once at least
	// until is the end of what the last answered renewal gives.
	until time.Time
	// since is when the renewals began that followed each other without a gap; zero is none.
	since time.Time
	// gaps counts the times at which others may have counted the node out. What it knew before
	// the latest is old: fresh says that it has followed the changes since.
	gaps  int
	fresh bool
}

// Registers says whether the next step is to register: there is no fence to renew.
func (l *Life) Registers() bool { return !l.registered || l.fenced }

// Registered says that a registration that was sent then was answered: the node has a new fence.
func (l *Life) Registered(sent time.Time) {
	l.registered, l.fenced = true, false
	l.since = sent
	l.gap()
	l.until = sent.Add(l.Lease - l.Margin)
}

// Renewed says that a renewal that was sent then is answered now.
func (l *Life) Renewed(sent, now time.Time) {
	if l.fenced {
		return
	}
	if !now.Before(l.until) { // there was a time in which it was not live
		l.since = sent
		l.gap()
	}
	if until := sent.Add(l.Lease - l.Margin); until.After(l.until) {
		l.until = until
	}
}

// Lost says that the fence is gone.
func (l *Life) Lost() {
	l.fenced, l.since = true, time.Time{}
	l.gap()
}

func (l *Life) gap() {
	l.gaps++
	l.fresh = false
}

// Gaps is what Followed wants of the moment before the changes were read.
func (l *Life) Gaps() int { return l.gaps }

// Followed says that all changes were applied that there were at a moment with so many gaps.
func (l *Life) Followed(gaps int) { l.fresh = l.fresh || gaps == l.gaps }

// Serves says that the node has started.
func (l *Life) Serves() { l.serving = true }

// Drains says that the node takes no more.
func (l *Life) Drains() { l.draining = true }

// Until is the moment from which the node admits nothing unless it hears more; zero is now already.
func (l *Life) Until() time.Time {
	if l.fenced || !l.registered || !l.fresh {
		return time.Time{}
	}
	return l.until
}

// Admits says whether the node may admit requests, as far as the others are concerned.
func (l *Life) Admits(now time.Time) bool { return now.Before(l.Until()) }

// Silence says how long ago the last renewal was sent that was answered, and whether admission ended since
// none was after it.
func (l *Life) Silence(now time.Time) (silent time.Duration, over bool) {
	return now.Sub(l.until) + l.Lease - l.Margin, !l.Registers() && !now.Before(l.until)
}

// Fences says whether the node may count others out that were silent. It may once its own renewals
// were answered for a lease: who comes back after an outage of the store finds others that were
// as silent as itself, and gives them the time to be heard.
func (l *Life) Fences(now time.Time) bool {
	return !l.fenced && !l.since.IsZero() && now.Before(l.until) && now.Sub(l.since) >= l.Lease
}

// Claims is the state that the node gives itself when it registers or renews.
func (l *Life) Claims() store.NodeState {
	switch {
	case l.draining:
		return store.NodeDraining
	case l.serving:
		return store.NodeUp
	}
	return store.NodeStarting
}

// State is how the node is.
func (l *Life) State(now time.Time) store.NodeState {
	if l.registered && !l.Admits(now) {
		return store.NodeFenced
	}
	return l.Claims()
}
