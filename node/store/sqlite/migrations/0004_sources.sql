-- Which server elsewhere answered, what it calls the request, and who counted its tokens.
ALTER TABLE ledger ADD COLUMN replica TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN upstream_request_id TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN usage_source TEXT NOT NULL DEFAULT '';
