package sqlite

import (
	"corenode/actors/account"
	"corenode/wasm/abi"
)

// OwnHolds implements store.Store: all are of the one node.
func (s *Store) OwnHolds() ([]account.Entry, error) { return s.OpenHolds() }

// OpenHolds implements store.Store.
func (s *Store) OpenHolds() ([]account.Entry, error) { return s.openHolds(``) }

// AccountHolds implements store.Store.
func (s *Store) AccountHolds(accountID string) ([]account.Entry, error) {
	return s.openHolds(`WHERE o.account_id = ?`, accountID)
}

func (s *Store) openHolds(where string, args ...any) ([]account.Entry, error) {
	var holds []account.Entry
	err := s.read.view(func() error {
		err := s.read.each(`SELECT h.id, h.account_id, h.request_id, h.key_id, h.model, h.time, h.held, h.module_digest, h.provisional,
				coalesce(c.input_uncached, 0), coalesce(c.cache_read, 0), coalesce(c.cache_write, 0),
				coalesce(c.output, 0), coalesce(c.reasoning, 0)
			FROM open_holds o JOIN ledger h ON h.id = o.hold_id LEFT JOIN ledger c ON c.id = o.checkpoint_id `+where+`
			ORDER BY h.id`, func(r row) error {
			holds = append(holds, account.Entry{
				ID: r.num(0), Kind: account.Hold, AccountID: r.text(1), RequestID: r.text(2), KeyID: r.text(3),
				Model: r.text(4), Time: r.time(5), Held: abi.Nano(r.num(6)),
				ModuleDigest: r.text(7), Provisional: r.flag(8), Usage: abi.Usage{InputUncached: r.num(9), CacheRead: r.num(10),
					CacheWrite: r.num(11), Output: r.num(12), Reasoning: r.num(13)},
			})
			return nil
		}, args...)
		if err != nil {
			return err
		}
		return s.read.withCounters(holds)
	})
	return holds, wrapped(err, "read open holds")
}
