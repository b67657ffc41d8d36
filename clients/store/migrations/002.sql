-- The states and keys of the end-to-end encryption. A client without it has no row.
CREATE TABLE sealing(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
