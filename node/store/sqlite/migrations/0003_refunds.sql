-- A refund is an adjustment that takes back all that its settlement charged.
ALTER TABLE ledger ADD COLUMN refund INTEGER NOT NULL DEFAULT 0 CHECK (refund = 0 OR refund = 1);

-- A settlement is refunded once.
CREATE UNIQUE INDEX ledger_refund ON ledger (settles) WHERE refund = 1;
