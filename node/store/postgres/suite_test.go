package postgres_test

import (
	"os"
	"testing"

	"corenode/node/store/postgres"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.Stop()
	os.Exit(code)
}

func open(t testing.TB, url, node string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(postgres.Config{URL: url, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// allow lets rows be changed and lets them name what is not there.
const allow = `ALTER TABLE ledger DISABLE TRIGGER ALL; ALTER TABLE ledger_counters DISABLE TRIGGER ALL;
	ALTER TABLE ledger_counters DROP CONSTRAINT ledger_counters_amount_check;
	ALTER TABLE counters DROP CONSTRAINT counters_account_id_fkey; ALTER TABLE balances DROP CONSTRAINT balances_account_id_fkey;
	ALTER TABLE usage DROP CONSTRAINT usage_account_id_fkey; ALTER TABLE keys DROP CONSTRAINT keys_account_id_fkey;
	ALTER TABLE ledger ALTER id SET DEFAULT nextval('ledger_id'), ALTER place SET DEFAULT 0, ALTER request_id SET DEFAULT '',
	ALTER key_id SET DEFAULT '', ALTER model SET DEFAULT '', ALTER amount SET DEFAULT 0, ALTER held SET DEFAULT 0,
	ALTER input_uncached SET DEFAULT 0, ALTER cache_read SET DEFAULT 0, ALTER cache_write SET DEFAULT 0, ALTER output SET DEFAULT 0,
	ALTER reasoning SET DEFAULT 0, ALTER tier SET DEFAULT 0, ALTER reason SET DEFAULT '', ALTER module_digest SET DEFAULT '',
	ALTER input_hash SET DEFAULT '', ALTER charge_input SET DEFAULT '', ALTER provisional SET DEFAULT false, ALTER settles SET DEFAULT 0,
	ALTER refund SET DEFAULT false, ALTER note SET DEFAULT '', ALTER replica SET DEFAULT '', ALTER upstream_request_id SET DEFAULT '',
	ALTER usage_source SET DEFAULT '';`

// harms are those of the suite that this database says in other words, or cannot suffer.
var harms = map[string]string{
	`UPDATE ledger SET charge_input = x'00' WHERE kind = 'settlement'`: `UPDATE ledger SET charge_input = '\x00' WHERE kind = 'settlement'`,
	`DELETE FROM ledger WHERE kind = 'checkpoint'`:                     ``, // ids may have gaps: a transaction that fails leaves one
	`UPDATE keys SET account_id = 'acct_x'`:                            ``, // the database itself holds this rule
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Home {
		url := postgrestest.URL(t)
		return storetest.Home{Dir: t.TempDir(), Allow: allow, Harms: harms,
			Open: func(t testing.TB) storetest.Store { return open(t, url, "one") }}
	})
}
