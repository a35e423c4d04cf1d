-- reader 3
-- What is the same on every node. number rises with each change of a row.
CREATE TABLE common (
  name   text COLLATE "C" PRIMARY KEY,
  number bigint NOT NULL,
  value  bytea NOT NULL
);

-- The module files. number is that of common's 'modules' when the row was changed last; asked is when
-- the nodes were last asked to have it in memory. No file is ever deleted: charges may name it.
CREATE TABLE modules (
  digest    text COLLATE "C" PRIMARY KEY,
  wasm      bytea NOT NULL,
  signature bytea NOT NULL,
  config    bytea NOT NULL,
  number    bigint NOT NULL,
  asked     timestamptz
);

CREATE INDEX modules_number ON modules (number);

-- What each node says of itself, as JSON.
CREATE TABLE node_reports (
  node   text COLLATE "C" PRIMARY KEY,
  report jsonb NOT NULL
);
