-- Times are nanoseconds since 1970, UTC.

CREATE TABLE projects (
    num         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    platform    TEXT    NOT NULL,
    external_id TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    registered  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    UNIQUE (platform, external_id)
) STRICT;

CREATE TABLE relations (
    num           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    source        INTEGER NOT NULL REFERENCES projects (num),
    target        INTEGER NOT NULL REFERENCES projects (num),
    relation_type TEXT    NOT NULL,
    metadata      TEXT    NOT NULL,
    valid_from    INTEGER NOT NULL,
    valid_to      INTEGER CHECK (valid_to >= valid_from),
    UNIQUE (source, target, relation_type, valid_from)
) STRICT;

CREATE INDEX relations_by_target ON relations (target);

CREATE TABLE resources (
    num     INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES projects (num),
    type    TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    UNIQUE (project, type, id)
) STRICT;

-- The events as they came. seq is the order of arrival.
CREATE TABLE events (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE,
    project     INTEGER NOT NULL REFERENCES projects (num),
    resource    INTEGER NOT NULL REFERENCES resources (num),
    type        TEXT    NOT NULL,
    time        INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    body        BLOB    NOT NULL
) STRICT;

CREATE INDEX events_by_resource ON events (resource);
CREATE INDEX events_by_project ON events (project, seq);

-- Events in whose place one with the same id came that knows more.
CREATE TABLE replaced_events (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    replaced_at INTEGER NOT NULL,
    body        BLOB    NOT NULL
) STRICT;
