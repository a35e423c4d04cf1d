-- What accounts used and were charged, by day (UTC, counted from 1970), model and key: sums over
-- settlements and adjustments by the day of the row, kept in the transaction that adds them.
CREATE TABLE usage (
  account_id     TEXT NOT NULL REFERENCES accounts (id),
  day            INTEGER NOT NULL,
  model          TEXT NOT NULL,
  key_id         TEXT NOT NULL,
  requests       INTEGER NOT NULL,
  input_uncached INTEGER NOT NULL,
  cache_read     INTEGER NOT NULL,
  cache_write    INTEGER NOT NULL,
  output         INTEGER NOT NULL,
  reasoning      INTEGER NOT NULL,
  charged        INTEGER NOT NULL,
  PRIMARY KEY (account_id, day, model, key_id)
) STRICT, WITHOUT ROWID;

INSERT INTO usage SELECT account_id, time / 86400000000000 AS day, model, key_id, sum(kind = 'settlement'),
  sum(iif(kind = 'settlement', input_uncached, 0)), sum(iif(kind = 'settlement', cache_read, 0)),
  sum(iif(kind = 'settlement', cache_write, 0)), sum(iif(kind = 'settlement', output, 0)),
  sum(iif(kind = 'settlement', reasoning, 0)), -sum(amount)
FROM ledger WHERE kind = 'settlement' OR kind = 'adjustment' GROUP BY account_id, day, model, key_id;

-- Statements are read by time: the account's, and that of all accounts.
DROP INDEX ledger_account;
CREATE INDEX ledger_account ON ledger (account_id, time) WHERE kind <> 'hold' AND kind <> 'checkpoint';
CREATE INDEX ledger_time ON ledger (time) WHERE kind <> 'hold' AND kind <> 'checkpoint';
