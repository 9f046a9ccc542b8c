-- Keys that a rotation has replaced: who still has one is refused, and told why.
CREATE TABLE former_keys (
  name        TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  retired     INTEGER NOT NULL,
  PRIMARY KEY (name, fingerprint)
) STRICT, WITHOUT ROWID;
