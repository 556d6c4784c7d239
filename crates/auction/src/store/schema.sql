-- Money is in cents, time in seconds since the site opened.
CREATE TABLE site (opened_unix_s INTEGER NOT NULL, seed INTEGER NOT NULL, items INTEGER NOT NULL, users INTEGER NOT NULL);
CREATE TABLE categories (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE regions (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    nickname TEXT NOT NULL,
    first_name TEXT NOT NULL,
    last_name TEXT NOT NULL,
    email TEXT NOT NULL,
    password BLOB NOT NULL,
    region INTEGER NOT NULL REFERENCES regions,
    rating INTEGER NOT NULL,
    joined_s INTEGER NOT NULL
);
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    seller INTEGER NOT NULL REFERENCES users,
    category INTEGER NOT NULL REFERENCES categories,
    region INTEGER NOT NULL REFERENCES regions,
    quantity INTEGER NOT NULL CHECK (quantity >= 0),
    first_cents INTEGER NOT NULL,
    reserve_cents INTEGER,
    buy_now_cents INTEGER,
    bids INTEGER NOT NULL,
    highest_cents INTEGER,
    starts_s INTEGER NOT NULL,
    ends_s INTEGER NOT NULL
);
CREATE TABLE bids (
    id INTEGER PRIMARY KEY,
    item INTEGER NOT NULL REFERENCES items,
    bidder INTEGER NOT NULL REFERENCES users,
    quantity INTEGER NOT NULL,
    cents INTEGER NOT NULL,
    at_s INTEGER NOT NULL
);
CREATE TABLE purchases (
    id INTEGER PRIMARY KEY,
    item INTEGER NOT NULL REFERENCES items,
    buyer INTEGER NOT NULL REFERENCES users,
    quantity INTEGER NOT NULL,
    cents INTEGER NOT NULL,
    at_s INTEGER NOT NULL
);
CREATE TABLE comments (
    id INTEGER PRIMARY KEY,
    author INTEGER NOT NULL REFERENCES users,
    about INTEGER NOT NULL REFERENCES users,
    item INTEGER NOT NULL REFERENCES items,
    rating INTEGER NOT NULL,
    text TEXT NOT NULL,
    at_s INTEGER NOT NULL
);
