package admin

import "corenode/wasm/abi"

// TokenPrices are what one token of each kind costs.
type TokenPrices struct {
	InputNanoUSD       abi.Nano `json:"input_nano_usd"`
	CachedInputNanoUSD abi.Nano `json:"cached_input_nano_usd"`
	OutputNanoUSD      abi.Nano `json:"output_nano_usd"`
}

// ModelPrices are those of one model. Where nodes share a database, what is listed is the same on
// all of them, whatever the configuration of each says.
type ModelPrices struct {
	Model      string      `json:"model"`
	Listed     TokenPrices `json:"listed"`     // what requests are quoted
	Configured TokenPrices `json:"configured"` // what this node's configuration says
	Same       bool        `json:"same"`
}

// Prices are what a node lists.
type Prices interface {
	// Prices are those of its models, by their ids.
	Prices() []ModelPrices
	// ApplyPrices lists the prices of this node's configuration on every node.
	ApplyPrices() error
}

func listPrices(a *API, _ call) (list[ModelPrices], error) {
	return list[ModelPrices]{Data: a.live.Prices()}, nil
}

func applyPrices(a *API, c call) (shown list[ModelPrices], err error) {
	if err := a.live.ApplyPrices(); err != nil {
		return shown, err
	}
	return listPrices(a, c)
}

// Prices are what the node lists, by model.
func (c *Client) Prices() ([]ModelPrices, error) { return c.prices("GET", "/prices") }

// ApplyPrices lists the prices of the node's configuration on all nodes of its database.
func (c *Client) ApplyPrices() ([]ModelPrices, error) { return c.prices("POST", "/prices/apply") }

func (c *Client) prices(method, path string) ([]ModelPrices, error) {
	var all list[ModelPrices]
	err := c.roundTrip(method, Root+path, nil, nil, &all)
	return all.Data, err
}
