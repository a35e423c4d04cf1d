package limiter

import (
	"math"
	"time"

	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// paceWindow is the time over which a limiter sees how busy its account is, busyFrom how many
// requests in it ask for a grant, and grantWindows for how many times that time a grant should last.
const (
	paceWindow   = time.Second
	busyFrom     = 2
	grantWindows = 2
)

// pace is what an account asked for lately. The zero pace has seen nothing.
type pace struct {
	began     time.Time // of the window that runs
	now, last window    // what came in it, and in the one before
	latest    time.Time
}

// window is what came in a window.
type window struct {
	requests int
	part     limit.Part
}

// saw notes a request that takes a part.
func (p *pace) saw(part limit.Part, at time.Time) {
	p.move(at)
	p.now.requests++
	p.now.part = p.now.part.Plus(part).Atmost(limit.Part{Permits: math.MaxInt32, Tokens: needMax, Money: needMax})
	p.latest = at
}

// move begins the window of a time.
func (p *pace) move(at time.Time) {
	switch age := at.Sub(p.began); {
	case age < paceWindow:
	case age < 2*paceWindow:
		p.last, p.now, p.began = p.now, window{}, p.began.Add(paceWindow)
	default:
		p.last, p.now, p.began = window{}, window{}, at
	}
}

// need is what a grant should cover from a time on; nothing where the account is not busy. What
// came in the window before counts as far as that reaches into the last paceWindow.
func (p *pace) need(at time.Time) limit.Part {
	p.move(at)
	part := int64(paceWindow-at.Sub(p.began)) * 1000 / int64(paceWindow)         // in thousandths
	share := func(n int64) int64 { return n/1000*part + (n%1000*part+999)/1000 } // rounded up, to one
	if int64(p.now.requests)*1000+share(int64(p.last.requests)*1000) < busyFrom*1000 {
		return limit.Part{}
	}
	sum := func(now, last int64) int64 { return grantWindows * min(now+share(last), needMax) }
	return limit.Part{
		Permits: int(sum(int64(p.now.part.Permits), int64(p.last.part.Permits))),
		Tokens:  sum(p.now.part.Tokens, p.last.part.Tokens),
		Money:   abi.Nano(sum(int64(p.now.part.Money), int64(p.last.part.Money))),
	}
}

// needMax keeps all arithmetic within an int64.
const needMax = 1 << 60
