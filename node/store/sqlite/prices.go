package sqlite

import (
	"encoding/json"

	"corenode/wasm/abi"
)

// KeptPrices implements store.Store.
func (s *Store) KeptPrices() (prices map[string]abi.Prices, err error) {
	err = s.read.viewEach(`SELECT value FROM settings WHERE name = 'prices'`, func(r row) error {
		return json.Unmarshal(r.blob(0), &prices)
	})
	return prices, wrapped(err, "read the kept prices")
}

// KeepPrices implements store.Store.
func (s *Store) KeepPrices(prices map[string]abi.Prices) error {
	text, err := json.Marshal(prices)
	if err == nil {
		err = s.write.transaction(func() error {
			return s.write.exec(`INSERT INTO settings (name, value) VALUES ('prices', ?)
				ON CONFLICT (name) DO UPDATE SET value = excluded.value`, text)
		})
	}
	return wrapped(err, "keep the prices")
}
