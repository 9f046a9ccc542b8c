-- Everything is keyed by workspace first. Times are milliseconds since 1970 UTC,
-- except an event's timestamp, which is kept as the text that was hashed.

CREATE TABLE subjects (
  workspace  TEXT NOT NULL,
  kind       TEXT NOT NULL,
  id         TEXT NOT NULL,
  revision   INTEGER NOT NULL CHECK (revision > 0),
  sequence   INTEGER NOT NULL,
  head       TEXT NOT NULL,
  state      BLOB NOT NULL CHECK (length(state) BETWEEN 1 AND 32768),
  attributes BLOB NOT NULL, -- digest of the rows in attributes: an unchanged set costs no write
  due        INTEGER,
  updated    INTEGER,
  PRIMARY KEY (workspace, kind, id)
) STRICT;
CREATE INDEX subjects_due ON subjects (due) WHERE due IS NOT NULL;

CREATE TABLE attributes (
  workspace TEXT NOT NULL,
  kind      TEXT NOT NULL,
  id        TEXT NOT NULL,
  name      TEXT NOT NULL,
  value     TEXT NOT NULL,
  PRIMARY KEY (workspace, kind, id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX attributes_value ON attributes (workspace, kind, name, value, id);

-- A rowid table: the newest events of all chains share the last pages, so that
-- a group of commits flushes few of them.
CREATE TABLE events (
  workspace     TEXT NOT NULL,
  kind          TEXT NOT NULL,
  subject       TEXT NOT NULL,
  sequence      INTEGER NOT NULL CHECK (sequence > 0),
  id            TEXT NOT NULL,
  type          TEXT NOT NULL,
  data          BLOB NOT NULL,
  timestamp     TEXT NOT NULL,
  previous_hash TEXT NOT NULL,
  hash          TEXT NOT NULL,
  signature     TEXT NOT NULL,
  key_id        TEXT NOT NULL,
  PRIMARY KEY (workspace, kind, subject, sequence)
) STRICT;

CREATE TABLE idempotency (
  workspace    TEXT NOT NULL,
  principal    TEXT NOT NULL,
  key          TEXT NOT NULL,
  fingerprint  TEXT NOT NULL,
  subject_kind TEXT NOT NULL,
  subject_id   TEXT NOT NULL,
  object       TEXT NOT NULL,
  sequence     INTEGER NOT NULL,
  PRIMARY KEY (workspace, principal, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE spent_permits (
  workspace    TEXT NOT NULL,
  permit       TEXT NOT NULL,
  subject_kind TEXT NOT NULL,
  subject_id   TEXT NOT NULL,
  fate         TEXT NOT NULL,
  cause        TEXT NOT NULL,
  execution    TEXT NOT NULL,
  PRIMARY KEY (workspace, permit)
) STRICT, WITHOUT ROWID;

CREATE TABLE credentials (
  workspace  TEXT NOT NULL,
  hash       TEXT NOT NULL,
  kind       TEXT NOT NULL,
  subject    TEXT NOT NULL,
  generation INTEGER NOT NULL,
  origin     TEXT NOT NULL,
  expires    INTEGER NOT NULL,
  PRIMARY KEY (workspace, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE texts (
  workspace  TEXT NOT NULL,
  kind       TEXT NOT NULL,
  subject    TEXT NOT NULL,
  commitment TEXT NOT NULL,
  salt       BLOB NOT NULL,
  text       BLOB NOT NULL,
  PRIMARY KEY (workspace, kind, subject, commitment)
) STRICT;

CREATE TABLE blobs (
  workspace TEXT NOT NULL,
  hash      TEXT NOT NULL,
  type      TEXT NOT NULL,
  bytes     BLOB NOT NULL,
  expires   INTEGER,
  PRIMARY KEY (workspace, hash)
) STRICT;
CREATE INDEX blobs_expires ON blobs (expires) WHERE expires IS NOT NULL;

CREATE TABLE sealed (
  workspace TEXT NOT NULL,
  kind      TEXT NOT NULL,
  subject   TEXT NOT NULL,
  name      TEXT NOT NULL,
  bytes     BLOB NOT NULL,
  PRIMARY KEY (workspace, kind, subject, name)
) STRICT;

-- Facts of the installation, of no workspace.
CREATE TABLE fingerprints (
  name        TEXT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE probe (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  at  INTEGER NOT NULL
) STRICT;
