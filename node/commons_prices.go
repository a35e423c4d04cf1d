package main

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"corenode/node/store"
	"corenode/wasm/abi"
)

// changesMax bounds how often a change of the common prices is tried beside those of other nodes.
const changesMax = 10

// changePrices writes what change makes of the common prices. It must not mind being called again.
func (c *commons) changePrices(change func(all map[string]abi.Prices)) error {
	for try := 1; ; try++ {
		all, number, err := c.readPrices()
		if err != nil {
			return err
		}
		before := maps.Clone(all)
		change(all)
		if number > 0 && maps.Equal(before, all) {
			return nil
		}
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		if _, err = c.store.SetCommon(store.CommonPrices, number, text); !errors.Is(err, store.ErrOutdated) || try == changesMax {
			return err
		}
	}
}

func (c *commons) readPrices() (all map[string]abi.Prices, number int64, err error) {
	text, number, err := c.store.Common(store.CommonPrices)
	all = map[string]abi.Prices{}
	if err == nil && number > 0 {
		err = json.Unmarshal(text, &all)
	}
	return all, number, err
}

// beginPrices lists the prices of the store. Those of models that it does not know come from the
// configuration; of others the configuration changes nothing.
func (c *commons) beginPrices() error {
	own := prices(c.node.cfg)
	err := c.changePrices(func(all map[string]abi.Prices) {
		for model, p := range own {
			if _, known := all[model]; !known {
				all[model] = p
			}
		}
	})
	if err != nil {
		return err
	}
	all, number, err := c.readPrices()
	if err != nil {
		return err
	}
	c.listed.Store(&all)
	c.pricesSeen.Store(number)
	if others := c.otherPrices(); len(others) > 0 {
		c.log.Warn("the configuration has other prices than the cluster, whose are quoted; corenode prices says which", "models", others)
	}
	return nil
}

// takePrices quotes at the prices of the store from now on.
func (c *commons) takePrices() error {
	c.pricing.Lock()
	defer c.pricing.Unlock()
	all, number, err := c.readPrices()
	if err != nil {
		return err
	}
	before := c.listed.Load()
	if !maps.Equal(*before, all) {
		if err := c.node.listPrices(*before, all); err != nil {
			return err
		}
		c.listed.Store(&all)
		c.log.Info("the prices are those of the cluster", "number", number)
	}
	c.pricesSeen.Store(number)
	return nil
}

// setPrices gives the cluster the prices of the models whose own were others before, or none.
func (c *commons) setPrices(before, now map[string]abi.Prices) error {
	return c.changePrices(func(all map[string]abi.Prices) {
		for model, p := range now {
			if was, known := before[model]; !known || was != p {
				all[model] = p
			}
		}
	})
}

// otherPrices are the models whose prices in the configuration are not those that are quoted.
func (c *commons) otherPrices() (models []string) {
	listed := *c.listed.Load()
	for model, p := range prices(c.node.inForce()) {
		if listed[model] != p {
			models = append(models, model)
		}
	}
	slices.Sort(models)
	return models
}

// listed are the prices that the node quotes at.
func (n *node) listed() map[string]abi.Prices {
	if n.commons == nil {
		return prices(n.cfg)
	}
	return *n.commons.listed.Load()
}
