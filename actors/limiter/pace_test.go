package limiter

import (
	"testing"
	"time"

	"corenode/actors/limit"
)

// TestPace: one request a second is not busy; from two on, a need is twice what came in the last
// second, and it fades when nothing comes.
func TestPace(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	part := limit.Part{Permits: 1, Tokens: 1000, Money: 5_000_000}
	var p pace
	if need := p.need(now); need != (limit.Part{}) {
		t.Errorf("before anything: %+v", need)
	}
	p.saw(part, now)
	if need := p.need(now); need != (limit.Part{}) {
		t.Errorf("after one: %+v", need)
	}
	p.saw(part, now.Add(500*time.Millisecond))
	if need, want := p.need(now.Add(900*time.Millisecond)), (limit.Part{Permits: 4, Tokens: 4000, Money: 20_000_000}); need != want {
		t.Errorf("after two: %+v, want %+v", need, want)
	}
	for i := range 100 {
		p.saw(part, now.Add(time.Second+time.Duration(i)*10*time.Millisecond))
	}
	need := p.need(now.Add(2500 * time.Millisecond)) // half of the last second has 100 a second
	if want := (limit.Part{Permits: 100, Tokens: 100_000, Money: 500_000_000}); need != want {
		t.Errorf("half a second after 100: %+v, want %+v", need, want)
	}
	if need := p.need(now.Add(2899 * time.Millisecond)); need.Permits != 22 { // twice 10.1, rounded up
		t.Errorf("a tenth of a second of it: %+v", need)
	}
	if need := p.need(now.Add(4 * time.Second)); need != (limit.Part{}) {
		t.Errorf("after a pause: %+v", need)
	}
	huge := limit.Part{Permits: 1, Tokens: 1 << 62, Money: 1 << 62}
	for range 10 {
		p.saw(huge, now.Add(5*time.Second))
	}
	if need := p.need(now.Add(5 * time.Second)); need.Tokens < 1<<60 || need.Money < 1<<60 {
		t.Errorf("what does not fit: %+v", need)
	}
}
