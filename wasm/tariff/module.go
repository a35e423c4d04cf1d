package tariff

import (
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// New returns the module: the tariff behind the boundary of every billing policy.
func New() sdk.Handler { return sdk.BillingHandler(policy{}) }

// policy is the tariff as the boundary wants it. It has no configuration: the
// prices come with each input.
type policy struct{}

// Quote bounds the charge of a request; see the function Quote.
func (policy) Quote(in abi.QuoteInput) (abi.Quote, error) {
	upper, minimum, err := Quote(in.Prices, in.Input, in.OutputMax)
	return abi.Quote{Upper: upper, Minimum: minimum}, err
}

// Charge rates what a request used; see the function Rate.
func (policy) Charge(in abi.ChargeInput) (abi.Charge, error) { return Rate(in.Prices, in.Usage) }
