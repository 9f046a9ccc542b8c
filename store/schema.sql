CREATE TABLE products (
	product_id  TEXT PRIMARY KEY,
	name        TEXT NOT NULL,
	maker       TEXT NOT NULL,
	description TEXT NOT NULL,
	price_cents INTEGER NOT NULL CHECK (price_cents BETWEEN 0 AND 999999999)
) STRICT;

CREATE TABLE addresses (
	address_ref TEXT PRIMARY KEY,
	label       TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (
	sid          TEXT PRIMARY KEY,
	cookie_hash  TEXT NOT NULL UNIQUE,
	cart_version INTEGER NOT NULL,
	expires_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE cart_lines (
	sid        TEXT NOT NULL REFERENCES sessions,
	product_id TEXT NOT NULL REFERENCES products,
	quantity   INTEGER NOT NULL CHECK (quantity BETWEEN 1 AND 99),
	PRIMARY KEY (sid, product_id)
) STRICT;

-- At most one checkout a session: preparing another replaces it, ordering ends it.
CREATE TABLE checkouts (
	sid         TEXT PRIMARY KEY REFERENCES sessions,
	checkout_id TEXT NOT NULL UNIQUE,
	document    TEXT NOT NULL -- JSON, as it was answered
) STRICT;

CREATE TABLE orders (
	order_id    TEXT PRIMARY KEY,
	sid         TEXT NOT NULL REFERENCES sessions,
	checkout_id TEXT NOT NULL UNIQUE,
	jti         TEXT NOT NULL UNIQUE REFERENCES dispatch_ledger,
	total_cents INTEGER NOT NULL,
	document    TEXT NOT NULL -- JSON, as it was answered
) STRICT;
