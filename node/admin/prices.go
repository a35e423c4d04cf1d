package admin

import (
	"slices"
	"strings"

	"corenode/wasm/abi"
)

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

// Unserved says for people which of some models the node does not serve: a mistyped id is taken, since another node may
// serve it, or this one tomorrow. It says nothing when all are served, or no node runs.
func (c *Client) Unserved(models []string) string {
	if len(models) == 0 {
		return ""
	}
	served, unknown := c.Prices()
	if unknown != nil { // no node runs
		return ""
	}
	var ids, missing []string
	for _, m := range served {
		ids = append(ids, m.Model)
	}
	for _, id := range models {
		if !slices.Contains(ids, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "The node does not serve " + strings.Join(missing, ", ") + ". It serves " + strings.Join(ids, ", ") + "."
}
