"""jedi_drafts: jobs and templates of registries. Each change is fenced by status and version, below
the lease of `registries.change`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns


@dataclass(frozen=True, slots=True)
class Draft:
    """A job or template of a registry. `document`: JSON; NULL in lists."""

    id: int
    kind: str
    status: str
    name: str
    comment: str
    version: int
    change: int
    submissions: int
    backend: str | None
    backend_id: str | None
    backend_status: str | None
    cursor: str | None
    complete: bool
    reason: str | None
    counts: dict[str, int]
    created: datetime
    submitted: datetime | None
    ended: datetime | None
    document: str | None


_COLUMNS = """
id, kind, status, name, comment, version, change, submissions, backend, backend_id, backend_status,
  cursor, complete, reason, counts, created, submitted, ended
"""

CHANGED = returns(Draft)(f"""
-- Records that changed after `since`, or with it and with ids above `after`, in this order; a
-- record that changes meanwhile comes later. Without documents.
SELECT {_COLUMNS}, CAST(NULL AS text) AS document FROM jedi_drafts
WHERE guid = :guid AND kind = :kind AND change >= :since
  AND (change > :since OR id > CAST(:after AS bigint))
ORDER BY change, id LIMIT :limit
""")


REMOVED = returns(int)("""
-- Ids above `after` that were removed after `since`.
SELECT id FROM jedi_removed_drafts
WHERE guid = :guid AND kind = :kind AND change > :since AND id > :after
ORDER BY id LIMIT :limit
""")


WHOLE = returns(Draft)(f"""
-- The records that there are of some ids.
SELECT {_COLUMNS}, document FROM jedi_drafts
WHERE guid = :guid AND kind = :kind AND id = ANY(CAST(:ids AS bigint[])) ORDER BY id
""")


SOME = returns(Draft)(f"""
-- The same without documents.
SELECT {_COLUMNS}, CAST(NULL AS text) AS document FROM jedi_drafts
WHERE guid = :guid AND kind = :kind AND id = ANY(CAST(:ids AS bigint[])) ORDER BY id
""")


CREATE = changes("""
-- New records, with ids from `first` on.
INSERT INTO jedi_drafts (guid, kind, id, name, comment, document, change)
SELECT :guid, :kind, :first + n.nr - 1, n.name, n.comment, n.document, :change
FROM unnest(CAST(:names AS text[]), CAST(:comments AS text[]), CAST(:documents AS text[]))
  WITH ORDINALITY AS n (name, comment, document, nr)
""")


_WRITE = changes("""
UPDATE jedi_drafts SET document = :document, version = version + 1, change = :change
WHERE guid = :guid AND kind = :kind AND id = :id AND status = 'new' AND version = :version
""")


def write(
    tx: Connection, guid: str, kind: str, id: int, document: str, version: int, change: int
) -> bool:
    """A new document of a new record at this version; False: it is not such a one."""
    values = {
        "guid": guid,
        "kind": kind,
        "id": id,
        "document": document,
        "version": version,
        "change": change,
    }
    return _WRITE.run(tx, **values) > 0


ANNOTATE = changes("""
-- Set name and comment; None leaves them.
UPDATE jedi_drafts SET name = coalesce(CAST(:name AS text), name),
  comment = coalesce(CAST(:comment AS text), comment), change = :change
WHERE guid = :guid AND kind = :kind AND id = :id
""")


REMOVE = changes("""
-- Remove records with their subjobs and links.
WITH gone AS (
  DELETE FROM jedi_drafts WHERE guid = :guid AND kind = :kind AND id = ANY(CAST(:ids AS bigint[]))
  RETURNING guid, kind, id),
units AS (
  DELETE FROM jedi_subjobs u USING gone g
  WHERE g.kind = 'job' AND u.guid = g.guid AND u.job = g.id),
links AS (
  DELETE FROM jedi_folder_jobs f USING gone g
  WHERE g.kind = 'job' AND f.guid = g.guid AND f.job = g.id)
INSERT INTO jedi_removed_drafts (guid, kind, id, change) SELECT guid, kind, id, :change FROM gone
""")


_BEGIN = changes("""
UPDATE jedi_drafts SET status = 'submitting', submissions = submissions + 1, backend = :backend,
  change = :change, backend_id = NULL, backend_status = NULL, cursor = NULL, reason = NULL,
  submitted = NULL, ended = NULL
WHERE guid = :guid AND kind = 'job' AND id = :id AND status = 'new' AND version = :version
""")


def begin(tx: Connection, guid: str, id: int, version: int, backend: str, change: int) -> bool:
    """new -> submitting, at this version; False: it is not such a one."""
    values = {"guid": guid, "id": id, "version": version, "backend": backend, "change": change}
    return _BEGIN.run(tx, **values) > 0


_ACCEPT = changes("""
UPDATE jedi_drafts SET status = :status, backend_id = :backend_id, reason = NULL, change = :change,
  submitted = jedi_now(),
  complete = EXISTS (SELECT FROM jedi_subjobs u WHERE u.guid = :guid AND u.job = :id),
  counts = coalesce((SELECT jsonb_object_agg(c.status, c.n) FROM (
    SELECT u.status, count(*) AS n FROM jedi_subjobs u
    WHERE u.guid = :guid AND u.job = :id AND NOT u.superseded GROUP BY u.status) c), '{}')
WHERE guid = :guid AND kind = 'job' AND id = :id AND status IN ('submitting', 'unknown')
  AND submissions = coalesce(CAST(:submission AS bigint), submissions)
""")


def accept(
    tx: Connection,
    guid: str,
    id: int,
    status: str,
    backend_id: str,
    submission: int | None,
    change: int,
) -> bool:
    """A submission arrived, with the subjobs that are stored; False: none waits for this answer."""
    values = {
        "guid": guid,
        "id": id,
        "status": status,
        "backend_id": backend_id,
        "submission": submission,
        "change": change,
    }
    return _ACCEPT.run(tx, **values) > 0


_GIVE_UP = changes("""
UPDATE jedi_drafts SET status = :status, reason = :reason, counts = '{}', complete = true,
  change = :change, backend = CASE WHEN :status = 'new' THEN NULL ELSE backend END,
  ended = CASE WHEN :status = 'failed' THEN jedi_now() END
WHERE guid = :guid AND kind = 'job' AND id = :id AND status IN ('submitting', 'unknown')
  AND submissions = coalesce(CAST(:submission AS bigint), submissions)
""")


def give_up(
    tx: Connection,
    guid: str,
    id: int,
    status: str,
    reason: str,
    submission: int | None,
    change: int,
) -> bool:
    """A submission did not arrive, or nobody knows; False: none waits for this answer."""
    values = {
        "guid": guid,
        "id": id,
        "status": status,
        "reason": reason,
        "submission": submission,
        "change": change,
    }
    return _GIVE_UP.run(tx, **values) > 0


JUDGE = changes("""
-- The status of an ended job by the merge of its outputs.
UPDATE jedi_drafts SET status = :status, reason = :reason, change = :change
WHERE guid = :guid AND kind = 'job' AND id = :id
""")


NOTE = changes("""
-- New states of jobs, column by column.
UPDATE jedi_drafts d SET status = n.status, backend_status = n.backend_status, cursor = n.cursor,
  complete = n.complete, reason = n.reason, counts = CAST(n.counts AS jsonb), change = :change,
  ended = CASE WHEN n.ended THEN coalesce(d.ended, jedi_now()) END
FROM unnest(CAST(:ids AS bigint[]), CAST(:statuses AS text[]), CAST(:backend_statuses AS text[]),
  CAST(:cursors AS text[]), CAST(:completes AS bool[]), CAST(:reasons AS text[]),
  CAST(:counts AS text[]), CAST(:ends AS bool[]))
  AS n (id, status, backend_status, cursor, complete, reason, counts, ended)
WHERE d.guid = :guid AND d.kind = 'job' AND d.id = n.id
""")
