-- Times are Unix nanoseconds, 0 = never. Money is nano-dollars. Absent text is ''.

CREATE TABLE settings (
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE accounts (
  id                TEXT PRIMARY KEY,
  name              TEXT NOT NULL UNIQUE,
  unlimited         INTEGER NOT NULL CHECK (unlimited IN (0, 1)),
  disabled          INTEGER NOT NULL CHECK (disabled IN (0, 1)),
  concurrency       INTEGER NOT NULL CHECK (concurrency >= 0),
  tokens_per_minute INTEGER NOT NULL CHECK (tokens_per_minute >= 0),
  models            TEXT NOT NULL, -- JSON array; [] means all
  created           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The sum of each account's ledger amounts, kept in the transaction that adds the rows.
CREATE TABLE balances (
  account_id TEXT PRIMARY KEY REFERENCES accounts (id),
  amount     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
  id         TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES accounts (id),
  hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  hint       TEXT NOT NULL,
  created    INTEGER NOT NULL,
  expires    INTEGER NOT NULL,
  revoked    INTEGER NOT NULL,
  last_used  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX keys_account ON keys (account_id);

-- Conditions on the ledger are chains of comparisons: an IN list of constants
-- builds a temporary index on every insert, which takes longer than the insert.
CREATE TABLE ledger (
  id             INTEGER PRIMARY KEY,
  kind           TEXT NOT NULL CHECK (kind = 'hold' OR kind = 'settlement' OR kind = 'checkpoint' OR kind = 'topup' OR kind = 'adjustment'),
  account_id     TEXT NOT NULL REFERENCES accounts (id),
  request_id     TEXT NOT NULL DEFAULT '',
  key_id         TEXT NOT NULL DEFAULT '',
  model          TEXT NOT NULL DEFAULT '',
  time           INTEGER NOT NULL,
  amount         INTEGER NOT NULL DEFAULT 0,
  held           INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
  input_uncached INTEGER NOT NULL DEFAULT 0 CHECK (input_uncached >= 0),
  cache_read     INTEGER NOT NULL DEFAULT 0 CHECK (cache_read >= 0),
  cache_write    INTEGER NOT NULL DEFAULT 0 CHECK (cache_write >= 0),
  output         INTEGER NOT NULL DEFAULT 0 CHECK (output >= 0),
  reasoning      INTEGER NOT NULL DEFAULT 0 CHECK (reasoning BETWEEN 0 AND output),
  tier           INTEGER NOT NULL DEFAULT 0,
  reason         TEXT NOT NULL DEFAULT '' CHECK (reason = '' OR reason = 'finished' OR reason = 'cancelled' OR reason = 'crashed' OR reason = 'error'),
  module_digest  TEXT NOT NULL DEFAULT '',
  input_hash     TEXT NOT NULL DEFAULT '',
  provisional    INTEGER NOT NULL DEFAULT 0 CHECK (provisional BETWEEN 0 AND 1),
  settles        INTEGER NOT NULL DEFAULT 0,
  note           TEXT NOT NULL DEFAULT '',
  CHECK (amount = 0 OR (kind <> 'hold' AND kind <> 'checkpoint')),
  CHECK (kind <> 'settlement' OR amount <= 0)
) STRICT;

CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- A request is held once and settled once.
CREATE UNIQUE INDEX ledger_once ON ledger (request_id, kind) WHERE kind = 'hold' OR kind = 'settlement';

-- An account's statement. Holds and checkpoints move no money and are left
-- out: indexing them costs 4 us of CPU a row and nobody lists them by account.
CREATE INDEX ledger_account ON ledger (account_id, id) WHERE kind <> 'hold' AND kind <> 'checkpoint';

-- The holds without a settlement, with the last checkpoint of each (0 = none).
-- Derived from the ledger and kept in the same transactions.
CREATE TABLE open_holds (
  request_id    TEXT PRIMARY KEY,
  account_id    TEXT NOT NULL,
  held          INTEGER NOT NULL,
  hold_id       INTEGER NOT NULL,
  checkpoint_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Top-ups that were asked for under a key are done once, however often they are asked for.
CREATE TABLE idempotency (
  key        TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  amount     INTEGER NOT NULL,
  entry_id   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
