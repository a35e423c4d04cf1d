-- reader 3
-- The node that was called; empty in rows of a release before, and of a data folder.
ALTER TABLE audit ADD COLUMN IF NOT EXISTS node text NOT NULL DEFAULT '';
