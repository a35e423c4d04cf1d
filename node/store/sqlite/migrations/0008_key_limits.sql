-- What a key may do beside its account: the models (JSON array, [] means all), tokens per minute and
-- nano-dollars of a calendar month (UTC), where 0 is no limit. What it was charged in a month is in usage.
ALTER TABLE keys ADD COLUMN models TEXT NOT NULL DEFAULT '[]';
ALTER TABLE keys ADD COLUMN tokens_per_minute INTEGER NOT NULL DEFAULT 0 CHECK (tokens_per_minute >= 0);
ALTER TABLE keys ADD COLUMN budget INTEGER NOT NULL DEFAULT 0 CHECK (budget >= 0);

CREATE INDEX keys_budget ON keys (account_id) WHERE budget > 0;
