-- reader 3
-- What requests have of their accounts, so that a batch of any node decides who is admitted. A binary that
-- knows nothing of it would admit past it: it is the last reader that is raised with an expanding step.

-- Of all open requests together. What nodes have by grants is in grants, beside it. shorts counts the requests
-- that have less than their upper bound: money that comes back is theirs first. The bucket is in parts of a token
-- at a time, -1 = full.
ALTER TABLE balances
  ADD COLUMN permits   bigint NOT NULL DEFAULT 0,
  ADD COLUMN held      bigint NOT NULL DEFAULT 0,
  ADD COLUMN shorts    bigint NOT NULL DEFAULT 0,
  ADD COLUMN arrivals  bigint NOT NULL DEFAULT 0,
  ADD COLUMN capacity  bigint NOT NULL DEFAULT -1,
  ADD COLUMN parts     bigint NOT NULL DEFAULT 0,
  ADD COLUMN bucket_at bigint NOT NULL DEFAULT 0,
  ADD COLUMN overshot  bigint NOT NULL DEFAULT 0; -- store.Verification has what that counts

-- held is what the ledger's row says; reserved what the request has now, of upper.
-- fence is its node's. taken and key_taken are tokens of buckets, until its end (gone) corrects them.
ALTER TABLE open_holds
  ADD COLUMN reserved  bigint NOT NULL DEFAULT 0,
  ADD COLUMN upper     bigint NOT NULL DEFAULT 0,
  ADD COLUMN fence     bigint NOT NULL DEFAULT 0,
  ADD COLUMN permit    boolean NOT NULL DEFAULT false,
  ADD COLUMN gone      boolean NOT NULL DEFAULT true,
  ADD COLUMN taken     bigint NOT NULL DEFAULT 0,
  ADD COLUMN arrival   bigint NOT NULL DEFAULT 0,
  ADD COLUMN key_id    text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN key_held  bigint NOT NULL DEFAULT 0,
  ADD COLUMN key_taken bigint NOT NULL DEFAULT 0,
  ADD COLUMN claimed   timestamptz NOT NULL DEFAULT '-infinity'; -- by a node that settles it for one that is gone

UPDATE open_holds o SET reserved = o.held, upper = o.held, key_id = l.key_id, key_held = CASE WHEN l.key_id = '' THEN 0 ELSE o.held END
  FROM ledger l WHERE l.id = o.hold_id;
UPDATE balances b SET held = h.held FROM (SELECT account_id, sum(held)::bigint AS held FROM open_holds GROUP BY 1) h
  WHERE h.account_id = b.account_id;

-- Of requests that cost nothing: they have no hold.
CREATE TABLE open_permits (
  request_id text PRIMARY KEY,
  account_id text NOT NULL,
  node       text NOT NULL,
  fence      bigint NOT NULL
);

CREATE TABLE key_buckets ( -- of keys that have a limit
  key_id     text COLLATE "C" PRIMARY KEY,
  account_id text NOT NULL,
  capacity   bigint NOT NULL,
  parts      bigint NOT NULL,
  bucket_at  bigint NOT NULL
);
CREATE INDEX key_buckets_account ON key_buckets (account_id);

-- given, moved and back are all that a grant ever had, what requests took of it, and what was returned.
CREATE TABLE grants (
  account_id    text NOT NULL REFERENCES accounts (id),
  node          text COLLATE "C" NOT NULL,
  fence         bigint NOT NULL,
  number        bigint NOT NULL,
  until         bigint NOT NULL,
  wanted        boolean NOT NULL,
  given_permits bigint NOT NULL,
  given_tokens  bigint NOT NULL,
  given_money   bigint NOT NULL,
  moved_permits bigint NOT NULL,
  moved_tokens  bigint NOT NULL,
  moved_money   bigint NOT NULL,
  back_permits  bigint NOT NULL,
  back_tokens   bigint NOT NULL,
  back_money    bigint NOT NULL,
  PRIMARY KEY (account_id, node)
) WITH (fillfactor = 50);
CREATE INDEX grants_node ON grants (node);

ALTER TABLE nodes
  ADD COLUMN IF NOT EXISTS state text NOT NULL DEFAULT 'up',
  ADD COLUMN IF NOT EXISTS fenced timestamptz NOT NULL DEFAULT now(); -- when the fence rose last
