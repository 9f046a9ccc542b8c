-- Everything is keyed by workspace first. Times are milliseconds since 1970 UTC,
-- except an event's timestamp, which is kept as the text that was hashed. Text
-- compares by bytes whatever the database's collation is.
--
-- Sessions of the ledger end commits with synchronous_commit = on. The tables
-- that are updated in place leave room in their pages, so that an update whose
-- indexed columns stay the same touches no index.

CREATE TABLE subjects (
  workspace  TEXT COLLATE "C" NOT NULL,
  kind       TEXT COLLATE "C" NOT NULL,
  id         TEXT COLLATE "C" NOT NULL,
  revision   BIGINT NOT NULL CHECK (revision > 0),
  sequence   BIGINT NOT NULL,
  head       TEXT COLLATE "C" NOT NULL,
  state      BYTEA NOT NULL CHECK (length(state) BETWEEN 1 AND 32768),
  attributes BYTEA NOT NULL, -- digest of the rows in attributes: an unchanged set costs no write
  due        BIGINT,
  updated    BIGINT,
  PRIMARY KEY (workspace, kind, id)
) WITH (fillfactor = 70);
ALTER TABLE subjects ALTER COLUMN state SET STORAGE EXTERNAL; -- compressing costs more than it saves
CREATE INDEX subjects_due ON subjects (due) WHERE due IS NOT NULL;

CREATE TABLE attributes (
  workspace TEXT COLLATE "C" NOT NULL,
  kind      TEXT COLLATE "C" NOT NULL,
  id        TEXT COLLATE "C" NOT NULL,
  name      TEXT COLLATE "C" NOT NULL,
  value     TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (workspace, kind, id, name)
);
-- A hash of the value: a B-tree refuses keys of some thousand bytes.
CREATE INDEX attributes_value ON attributes (workspace, kind, name, hashtextextended(value, 0), id);

CREATE TABLE events (
  workspace     TEXT COLLATE "C" NOT NULL,
  kind          TEXT COLLATE "C" NOT NULL,
  subject       TEXT COLLATE "C" NOT NULL,
  sequence      BIGINT NOT NULL CHECK (sequence > 0),
  id            TEXT COLLATE "C" NOT NULL,
  type          TEXT COLLATE "C" NOT NULL,
  data          BYTEA NOT NULL,
  timestamp     TEXT COLLATE "C" NOT NULL,
  previous_hash TEXT COLLATE "C" NOT NULL,
  hash          TEXT COLLATE "C" NOT NULL,
  signature     TEXT COLLATE "C" NOT NULL,
  key_id        TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (workspace, kind, subject, sequence)
);
ALTER TABLE events ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE idempotency (
  workspace    TEXT COLLATE "C" NOT NULL,
  principal    TEXT COLLATE "C" NOT NULL,
  key          TEXT COLLATE "C" NOT NULL,
  fingerprint  TEXT COLLATE "C" NOT NULL,
  subject_kind TEXT COLLATE "C" NOT NULL,
  subject_id   TEXT COLLATE "C" NOT NULL,
  object       TEXT COLLATE "C" NOT NULL,
  sequence     BIGINT NOT NULL,
  PRIMARY KEY (workspace, principal, key)
);

CREATE TABLE spent_permits (
  workspace    TEXT COLLATE "C" NOT NULL,
  permit       TEXT COLLATE "C" NOT NULL,
  subject_kind TEXT COLLATE "C" NOT NULL,
  subject_id   TEXT COLLATE "C" NOT NULL,
  fate         TEXT COLLATE "C" NOT NULL,
  cause        TEXT COLLATE "C" NOT NULL,
  execution    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (workspace, permit)
);

CREATE TABLE credentials (
  workspace  TEXT COLLATE "C" NOT NULL,
  hash       TEXT COLLATE "C" NOT NULL,
  kind       TEXT COLLATE "C" NOT NULL,
  subject    TEXT COLLATE "C" NOT NULL,
  generation BIGINT NOT NULL,
  origin     TEXT COLLATE "C" NOT NULL,
  expires    BIGINT NOT NULL,
  PRIMARY KEY (workspace, hash)
);

CREATE TABLE texts (
  workspace  TEXT COLLATE "C" NOT NULL,
  kind       TEXT COLLATE "C" NOT NULL,
  subject    TEXT COLLATE "C" NOT NULL,
  commitment TEXT COLLATE "C" NOT NULL,
  salt       BYTEA NOT NULL,
  text       BYTEA NOT NULL, -- may hold U+0000, which TEXT cannot
  PRIMARY KEY (workspace, kind, subject, commitment)
);

CREATE TABLE blobs (
  workspace TEXT COLLATE "C" NOT NULL,
  hash      TEXT COLLATE "C" NOT NULL,
  type      TEXT COLLATE "C" NOT NULL,
  bytes     BYTEA NOT NULL,
  expires   BIGINT,
  PRIMARY KEY (workspace, hash)
);
ALTER TABLE blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE INDEX blobs_expires ON blobs (expires) WHERE expires IS NOT NULL;

CREATE TABLE sealed (
  workspace TEXT COLLATE "C" NOT NULL,
  kind      TEXT COLLATE "C" NOT NULL,
  subject   TEXT COLLATE "C" NOT NULL,
  name      TEXT COLLATE "C" NOT NULL,
  bytes     BYTEA NOT NULL,
  PRIMARY KEY (workspace, kind, subject, name)
);

-- Facts of the installation, of no workspace.
CREATE TABLE fingerprints (
  name        TEXT COLLATE "C" PRIMARY KEY,
  fingerprint TEXT COLLATE "C" NOT NULL
);

CREATE TABLE probe (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  at  BIGINT NOT NULL
);
