-- What a billing module was given, byte for byte, so that a charge can be
-- computed again; empty for rows that no module charged.
ALTER TABLE ledger ADD COLUMN charge_input BLOB NOT NULL DEFAULT x'';

-- Charges that wait to be rated again. Few rows: an index of the others would cost.
CREATE INDEX ledger_provisional ON ledger (id) WHERE provisional = 1;

-- The adjustments of a settlement.
CREATE INDEX ledger_settles ON ledger (settles) WHERE settles > 0;
