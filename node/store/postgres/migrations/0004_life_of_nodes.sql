-- reader 3
-- Where each node is in its life. fenced is when the fence before the present one ended; known are the changes that
-- the node has applied: a change is, whose transaction is visible in it.
ALTER TABLE nodes
  ADD COLUMN IF NOT EXISTS state         text NOT NULL DEFAULT 'up'
    CHECK (state IN ('starting', 'up', 'draining', 'fenced', 'gone')),
  ADD COLUMN IF NOT EXISTS fenced        timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN IF NOT EXISTS started       timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN IF NOT EXISTS address       text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS models        text[] NOT NULL DEFAULT '{}',
  ADD COLUMN IF NOT EXISTS models_digest text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS prices_digest text NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS drain         boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS known         pg_snapshot;

-- What nodes that keep a copy read again. Who follows keeps the snapshot of its last read, and asks for the rows
-- whose transactions were not visible in it. Old rows are replaced by one of the topic 'all'.
CREATE TABLE changes (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      xid8 NOT NULL DEFAULT pg_current_xact_id(),
  time    timestamptz NOT NULL DEFAULT now(),
  topic   text NOT NULL,
  subject text NOT NULL
);

CREATE INDEX changes_at ON changes (at);
CREATE INDEX changes_time ON changes (time);
CREATE INDEX changes_subject ON changes (topic, subject);
