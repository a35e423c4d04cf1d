package abi

// Nano is money: nano-dollars, 1e-9 US dollar. All money is integer; the
// cheapest price is 8 nano-dollars per token, so every price is exact.
type Nano int64

// Usage is what one request cost in tokens, in the one normal form that both
// protocols' usage objects are views of. Invariant: no field is negative;
// Reasoning <= Output.
type Usage struct {
	InputUncached int64 // prompt tokens computed for this request
	CacheRead     int64 // prompt tokens served from the prefix cache
	CacheWrite    int64 // prompt tokens billed for writing the cache; always 0 today
	Output        int64 // tokens produced, reasoning included
	Reasoning     int64 // the part of Output that is thinking; never billed apart
}

// Input returns the true context total that price tiers test.
func (u Usage) Input() int64 { return u.InputUncached + u.CacheRead + u.CacheWrite }
