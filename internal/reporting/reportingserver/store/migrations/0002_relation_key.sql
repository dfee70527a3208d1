-- Relations of one type between the same projects are told apart by a key.

CREATE TABLE keyed_relations (
    num           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    source        INTEGER NOT NULL REFERENCES projects (num),
    target        INTEGER NOT NULL REFERENCES projects (num),
    relation_type TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    metadata      TEXT    NOT NULL,
    valid_from    INTEGER NOT NULL,
    valid_to      INTEGER CHECK (valid_to >= valid_from),
    UNIQUE (source, target, relation_type, key, valid_from)
) STRICT;

INSERT INTO keyed_relations (num, id, source, target, relation_type, key, metadata, valid_from, valid_to)
SELECT num, id, source, target, relation_type, '', metadata, valid_from, valid_to FROM relations;

DROP TABLE relations;
ALTER TABLE keyed_relations RENAME TO relations;
CREATE INDEX relations_by_target ON relations (target);
