-- Who changed what on the admin listener. Rows are added and never changed.
CREATE TABLE audit (
  id         INTEGER PRIMARY KEY,
  time       INTEGER NOT NULL,
  operator   TEXT NOT NULL,
  method     TEXT NOT NULL,
  path       TEXT NOT NULL, -- of the verb, with its segment in braces
  target     TEXT NOT NULL, -- that segment
  account_id TEXT NOT NULL,
  key_id     TEXT NOT NULL,
  status     INTEGER NOT NULL
) STRICT;

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE INDEX audit_operator ON audit (operator, id);
