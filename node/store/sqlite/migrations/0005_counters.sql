-- What a row has to do with the counters of a billing module: a hold has amount of them, a
-- settlement took amount of that, an adjustment gives back -amount. most is what the account
-- might take in the period, as the quote said. Amounts of 0 have no row.
CREATE TABLE ledger_counters (
  entry_id INTEGER NOT NULL REFERENCES ledger (id),
  name     TEXT NOT NULL CHECK (name <> ''),
  period   TEXT NOT NULL CHECK (period <> ''),
  most     INTEGER NOT NULL CHECK (most >= 0),
  amount   INTEGER NOT NULL CHECK (amount <> 0),
  PRIMARY KEY (entry_id, name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER ledger_counters_no_update BEFORE UPDATE ON ledger_counters
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER ledger_counters_no_delete BEFORE DELETE ON ledger_counters
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- What was used of each counter, kept in the transactions of settlements and adjustments, and
-- the largest limit that they named.
CREATE TABLE counters (
  account_id TEXT NOT NULL REFERENCES accounts (id),
  name       TEXT NOT NULL,
  period     TEXT NOT NULL,
  used       INTEGER NOT NULL CHECK (used >= 0),
  most       INTEGER NOT NULL,
  PRIMARY KEY (account_id, period, name)
) STRICT, WITHOUT ROWID;
