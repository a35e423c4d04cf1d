-- reader 1
-- The nodes that ever ran on this database. fence rises with each start of a node; home is where its data
-- folder is; renewed is by this server's clock, as everything that is compared between nodes.
CREATE TABLE nodes (
  id      text COLLATE "C" PRIMARY KEY,
  fence   bigint NOT NULL,
  home    text NOT NULL,
  version text NOT NULL,
  renewed timestamptz NOT NULL
);
