-- What the events say, in a form that usage can be added up from without reading
-- them. All of it can be made again from the events.

-- Resources whose spans and findings have to be made anew.
CREATE TABLE stale (
    resource INTEGER PRIMARY KEY REFERENCES resources (num),
    project  INTEGER NOT NULL REFERENCES projects (num)
) STRICT;

CREATE INDEX stale_by_project ON stale (project);

INSERT INTO stale (resource, project) SELECT num, project FROM resources;

-- 0: the event only counts something and says nothing of what its resource is.
ALTER TABLE events ADD COLUMN tells INTEGER NOT NULL DEFAULT 1;

-- What resources can be at a time: there are few of them.
CREATE TABLE shapes (
    num     INTEGER PRIMARY KEY,
    type    TEXT NOT NULL,
    state   TEXT NOT NULL,
    size    TEXT NOT NULL, -- JSON
    unknown TEXT NOT NULL, -- JSON
    UNIQUE (type, state, size, unknown)
) STRICT;

-- begins <= time < ends; a span that has not ended ends with the last number.
CREATE TABLE spans (
    project  INTEGER NOT NULL,
    resource INTEGER NOT NULL,
    begins   INTEGER NOT NULL,
    ends     INTEGER NOT NULL,
    shape    INTEGER NOT NULL,
    PRIMARY KEY (project, resource, begins)
) STRICT, WITHOUT ROWID;

CREATE TABLE findings (
    project  INTEGER NOT NULL,
    resource INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    time     INTEGER NOT NULL,
    code     TEXT    NOT NULL,
    PRIMARY KEY (project, resource, n)
) STRICT, WITHOUT ROWID;

-- Counters of events, one row for each. amount is a decimal.
CREATE TABLE counts (
    resource INTEGER NOT NULL,
    time     INTEGER NOT NULL,
    event    INTEGER NOT NULL, -- its seq
    counter  TEXT    NOT NULL,
    amount   TEXT    NOT NULL,
    project  INTEGER NOT NULL,
    PRIMARY KEY (resource, time, event, counter)
) STRICT, WITHOUT ROWID;

CREATE INDEX counts_by_project ON counts (project, time, resource, counter, amount);
