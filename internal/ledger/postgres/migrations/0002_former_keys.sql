-- Keys that a rotation has replaced: who still has one is refused, and told why.
CREATE TABLE former_keys (
  name        TEXT COLLATE "C" NOT NULL,
  fingerprint TEXT COLLATE "C" NOT NULL,
  retired     BIGINT NOT NULL,
  PRIMARY KEY (name, fingerprint)
);
