-- reader 1
-- The tables of node/store/sqlite, whose migrations explain them. Times are Unix nanoseconds, 0 = never.
-- Money is nano-dollars. Absent text is ''. What is sorted or paged by is compared byte by byte.

CREATE TABLE settings (
  name  text PRIMARY KEY,
  value bytea NOT NULL
);

CREATE TABLE accounts (
  id                text PRIMARY KEY,
  name              text COLLATE "C" NOT NULL UNIQUE,
  unlimited         boolean NOT NULL,
  disabled          boolean NOT NULL,
  concurrency       bigint NOT NULL CHECK (concurrency >= 0),
  tokens_per_minute bigint NOT NULL CHECK (tokens_per_minute >= 0),
  models            text NOT NULL,
  created           bigint NOT NULL
);

CREATE TABLE balances (
  account_id text PRIMARY KEY REFERENCES accounts (id),
  amount     bigint NOT NULL
) WITH (fillfactor = 50); -- each batch changes rows in place

CREATE TABLE keys (
  id                text COLLATE "C" PRIMARY KEY,
  account_id        text NOT NULL REFERENCES accounts (id),
  hash              bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
  hint              text NOT NULL,
  created           bigint NOT NULL,
  expires           bigint NOT NULL,
  revoked           bigint NOT NULL,
  last_used         bigint NOT NULL,
  models            text NOT NULL DEFAULT '[]',
  tokens_per_minute bigint NOT NULL DEFAULT 0 CHECK (tokens_per_minute >= 0),
  budget            bigint NOT NULL DEFAULT 0 CHECK (budget >= 0)
);

CREATE INDEX keys_account ON keys (account_id);

CREATE SEQUENCE ledger_id;

-- place orders rows as DESIGN.md says. account_id is no reference: every batch looks its accounts up,
-- and a lock of each on every row would cost more. No account is ever deleted.
CREATE TABLE ledger (
  id                  bigint PRIMARY KEY,
  place               bigint NOT NULL,
  kind                text NOT NULL CHECK (kind IN ('hold', 'settlement', 'checkpoint', 'topup', 'adjustment')),
  account_id          text NOT NULL,
  request_id          text NOT NULL,
  key_id              text NOT NULL,
  model               text NOT NULL,
  time                bigint NOT NULL,
  amount              bigint NOT NULL,
  held                bigint NOT NULL CHECK (held >= 0),
  input_uncached      bigint NOT NULL CHECK (input_uncached >= 0),
  cache_read          bigint NOT NULL CHECK (cache_read >= 0),
  cache_write         bigint NOT NULL CHECK (cache_write >= 0),
  output              bigint NOT NULL CHECK (output >= 0),
  reasoning           bigint NOT NULL CHECK (reasoning BETWEEN 0 AND output),
  tier                bigint NOT NULL,
  reason              text NOT NULL CHECK (reason IN ('', 'finished', 'cancelled', 'crashed', 'error')),
  module_digest       text NOT NULL,
  input_hash          text NOT NULL,
  charge_input        bytea NOT NULL,
  provisional         boolean NOT NULL,
  settles             bigint NOT NULL,
  refund              boolean NOT NULL,
  note                text NOT NULL,
  replica             text NOT NULL,
  upstream_request_id text NOT NULL,
  usage_source        text NOT NULL,
  CHECK (amount = 0 OR kind NOT IN ('hold', 'checkpoint')),
  CHECK (kind <> 'settlement' OR amount <= 0)
);

CREATE UNIQUE INDEX ledger_once ON ledger (request_id, kind) WHERE kind = 'hold' OR kind = 'settlement';
CREATE UNIQUE INDEX ledger_refund ON ledger (settles) WHERE refund;
CREATE INDEX ledger_settles ON ledger (settles) WHERE settles > 0;
CREATE INDEX ledger_provisional ON ledger (id) WHERE provisional;
CREATE INDEX ledger_order ON ledger (place, id);
CREATE INDEX ledger_account ON ledger (account_id, time, id) WHERE kind <> 'hold' AND kind <> 'checkpoint';
CREATE INDEX ledger_time ON ledger (time, id) WHERE kind <> 'hold' AND kind <> 'checkpoint';

CREATE TABLE ledger_counters (
  entry_id bigint NOT NULL REFERENCES ledger (id),
  name     text COLLATE "C" NOT NULL CHECK (name <> ''),
  period   text COLLATE "C" NOT NULL CHECK (period <> ''),
  most     bigint NOT NULL CHECK (most >= 0),
  amount   bigint NOT NULL CHECK (amount <> 0),
  PRIMARY KEY (entry_id, name)
);

CREATE TABLE open_holds (
  request_id    text PRIMARY KEY,
  account_id    text NOT NULL,
  held          bigint NOT NULL,
  hold_id       bigint NOT NULL,
  checkpoint_id bigint NOT NULL,
  node          text NOT NULL -- which one runs the request
);

CREATE INDEX open_holds_account ON open_holds (account_id) INCLUDE (held);

CREATE TABLE counters (
  account_id text NOT NULL REFERENCES accounts (id),
  name       text COLLATE "C" NOT NULL,
  period     text COLLATE "C" NOT NULL,
  used       bigint NOT NULL CHECK (used >= 0),
  most       bigint NOT NULL,
  PRIMARY KEY (account_id, period, name)
);

CREATE TABLE usage (
  account_id     text NOT NULL REFERENCES accounts (id),
  day            bigint NOT NULL,
  model          text COLLATE "C" NOT NULL,
  key_id         text COLLATE "C" NOT NULL,
  requests       bigint NOT NULL,
  input_uncached bigint NOT NULL,
  cache_read     bigint NOT NULL,
  cache_write    bigint NOT NULL,
  output         bigint NOT NULL,
  reasoning      bigint NOT NULL,
  charged        bigint NOT NULL,
  PRIMARY KEY (account_id, day, model, key_id)
);

CREATE TABLE idempotency (
  key        text PRIMARY KEY,
  account_id text NOT NULL,
  amount     bigint NOT NULL,
  entry_id   bigint NOT NULL
);

CREATE TABLE audit (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  time       bigint NOT NULL,
  operator   text NOT NULL,
  method     text NOT NULL,
  path       text NOT NULL,
  target     text NOT NULL,
  account_id text NOT NULL,
  key_id     text NOT NULL,
  status     bigint NOT NULL
);

CREATE INDEX audit_operator ON audit (operator, id);

CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger EXECUTE FUNCTION append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_counters EXECUTE FUNCTION append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION append_only();

-- What is added to a transaction's number to give its place; see DESIGN.md.
CREATE TABLE places (
  since bigint NOT NULL
);
INSERT INTO places VALUES (0);

CREATE FUNCTION place() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT pg_current_xact_id()::text::bigint + (SELECT since FROM places)';

-- Rows with a place below the horizon are all there is below it: who writes one has ended.
CREATE FUNCTION horizon() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT since FROM places)';
