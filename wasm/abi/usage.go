package abi

// Nano is money: nano-dollars, 1e-9 US dollar. All money is integer; the
// cheapest price is 8 nano-dollars per token, so every price is exact.
type Nano int64

// Input returns the true context total that price tiers test.
func (u Usage) Input() int64 { return u.InputUncached + u.CacheRead + u.CacheWrite }
