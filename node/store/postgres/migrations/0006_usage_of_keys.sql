-- reader 3
-- What one key was charged in a month, however many its account has. Writers wait while it is made. Where there is a lot of usage an
-- operator makes it before, CONCURRENTLY.
CREATE INDEX IF NOT EXISTS usage_key ON usage (account_id, key_id, day);
