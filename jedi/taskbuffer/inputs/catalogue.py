"""ddm_datasets, ddm_members, ddm_files, ddm_replicas: the catalogue of data management.

Files are named by two lists, of datasets and of LFNs; every verb is one statement however many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.scheduling.patterns import like

_FILE = """
f.lfn, f.size, f.adler32, f.guid, f.nevents, f.boundary, f.lumiblock, ARRAY(
  SELECT r.endpoint FROM ddm_replicas r WHERE r.file_id = f.file_id
) AS endpoints
"""
_LISTED = f"SELECT d.name, {_FILE} FROM {{wanted}} d JOIN ddm_files f USING ({{key}})"
_WANTED = """(
  SELECT dataset_id, name, lfn FROM ddm_datasets JOIN (
    SELECT unnest(CAST(:names AS text[])) AS name, unnest(CAST(:lfns AS text[])) AS lfn
  ) w USING (name))"""
_PLAIN = "f.dataset_id = (SELECT dataset_id FROM ddm_datasets WHERE name = :name)"
_COUNT = returns(int)(f"SELECT count(*) FROM ddm_files f WHERE {_PLAIN}")
_PUT_FILES = returns(int)("""
WITH arrived AS (
  SELECT d.dataset_id, a.lfn, a.size, a.adler32, a.guid, a.nevents, a.boundary,
    a.lumiblock
  FROM unnest(CAST(:names AS text[]), CAST(:lfn AS text[]), CAST(:size AS bigint[]),
    CAST(:adler32 AS text[]), CAST(:guid AS text[]), CAST(:nevents AS bigint[]),
    CAST(:boundary AS bigint[]), CAST(:lumiblock AS int[])
  ) a(name, lfn, size, adler32, guid, nevents, boundary, lumiblock) JOIN ddm_datasets d USING (name)
  WHERE NOT d.is_container FOR KEY SHARE OF d  -- a dataset deleted at this moment has no row
), f AS (
  INSERT INTO ddm_files AS f (dataset_id, lfn, size, adler32, guid, nevents, boundary, lumiblock)
  SELECT * FROM arrived ORDER BY dataset_id, lfn
  ON CONFLICT (dataset_id, lfn) DO UPDATE SET nevents = coalesce(f.nevents, excluded.nevents)
    WHERE (f.size, f.adler32) = (excluded.size, excluded.adler32)
  RETURNING file_id
), r AS (
  INSERT INTO ddm_replicas (file_id, endpoint, expires_at) SELECT file_id, :endpoint, :until FROM f
  ON CONFLICT DO NOTHING
)
SELECT count(*) FROM f
""")


class CatalogueDataset(NamedTuple):
    """A dataset of the catalogue; a container has members."""

    name: str
    state: Literal["open", "closed"]
    is_container: bool
    members: list[str]


TREE = returns(CatalogueDataset)("""
-- These datasets and all below them, in no order. Unknown names are left out.
WITH RECURSIVE tree(name) AS (
  SELECT unnest(CAST(:names AS text[]))
  UNION
  SELECT m.member FROM tree JOIN ddm_datasets d USING (name)
  JOIN ddm_members m ON m.container_id = d.dataset_id
)
SELECT d.name, d.state, d.is_container, ARRAY(
  SELECT m.member FROM ddm_members m WHERE m.container_id = d.dataset_id ORDER BY m.position
) AS members
FROM tree JOIN ddm_datasets d USING (name)
""")


class FoundDataset(NamedTuple):
    """A dataset found by its name."""

    name: str
    state: Literal["open", "closed"]


_FIND_DATASETS = returns(FoundDataset)("""
SELECT name, state FROM ddm_datasets WHERE name LIKE :name AND name COLLATE "C" > :after
ORDER BY name COLLATE "C" LIMIT :limit
""")


def find(tx: Connection, pattern: str, after: str, limit: int | None) -> list[FoundDataset]:
    """The first datasets behind a name, by names of which `*` stands for anything."""
    return _FIND_DATASETS.rows(tx, name=like(pattern), after=after, limit=limit)


_PUT_DATASET = changes("""
INSERT INTO ddm_datasets AS d (name, state, is_container)
VALUES (:name, :state, :container) ON CONFLICT (name) DO UPDATE
SET state = excluded.state WHERE d.is_container = excluded.is_container
""")


def put_dataset(tx: Connection, name: str, state: str, *, container: bool) -> bool:
    """Make a dataset, or set the state of the one there is; False if that is of the other kind."""
    return _PUT_DATASET.run(tx, name=name, state=state, container=container) == 1


_CLOSE = changes("UPDATE ddm_datasets SET state = 'closed' WHERE name = :name")


def close(tx: Connection, name: str) -> bool:
    """Close a dataset; False if there is none."""
    return _CLOSE.run(tx, name=name) == 1


DELETE_DATASET = changes("""
-- Forget a dataset with its files, or a container with its list of members.
DELETE FROM ddm_datasets WHERE name = :name
""")


LOCK_MEMBERS = changes("""
-- Nobody else changes containers before this transaction ends: two changes at once, each fine by
-- itself, could close a circle.
LOCK TABLE ddm_members IN SHARE ROW EXCLUSIVE MODE
""")


ADD_MEMBERS = changes("""
-- Add those names behind the members there are which are none yet.
INSERT INTO ddm_members (container_id, member, position)
SELECT d.dataset_id, a.member, a.nr + (SELECT coalesce(max(m.position), 0)
FROM ddm_members m WHERE m.container_id = d.dataset_id) FROM ddm_datasets d,
  unnest(CAST(:names AS text[])) WITH ORDINALITY a(member, nr)
WHERE d.name = :container ON CONFLICT DO NOTHING
""")


class CatalogueFile(NamedTuple):
    """A file of a dataset (`name`) with its replicas."""

    name: str
    lfn: str
    size: int
    adler32: str
    guid: str
    nevents: int | None
    boundary: int | None
    lumiblock: int | None
    endpoints: list[str]


FIND = returns(CatalogueFile)(f"""
-- The known ones of the named files.
{_LISTED.format(wanted=_WANTED, key="dataset_id, lfn")}""")


# Without a collation: in the order of the index, so that a part costs what it returns.
_PART = returns(CatalogueFile)(f"""
SELECT CAST(:name AS text) AS name, {_FILE} FROM ddm_files f
WHERE {_PLAIN} AND f.lfn > :after ORDER BY f.lfn LIMIT :limit
""")


_NAMED = "(SELECT dataset_id, name FROM ddm_datasets WHERE name = ANY(:names))"
LIST = returns(CatalogueFile)(f"""
-- All files of plain datasets, in no order.
{_LISTED.format(wanted=_NAMED, key="dataset_id")}""")


def list_part(tx: Connection, name: str, after: str | None, limit: int) -> list[CatalogueFile]:
    """Up to `limit` files of a plain dataset, in the database's order of LFNs: the first ones, or
    those after an LFN."""
    values = {"name": name, "after": after or "", "limit": limit}
    return _PART.rows(tx, **values)


def count_files(tx: Connection, name: str) -> int:
    """The number of files of a plain dataset."""
    return int(_COUNT.row(tx, name=name) or 0)


class EndpointShare(NamedTuple):
    """The number and bytes of files that an endpoint holds."""

    endpoint: str
    files: int
    size: int


REPLICAS = returns(EndpointShare)("""
-- The parts of plain datasets, taken together, that endpoints hold.
SELECT r.endpoint, count(*) AS files, CAST(sum(f.size) AS bigint) AS size
FROM ddm_datasets d JOIN ddm_files f USING (dataset_id)
  JOIN ddm_replicas r USING (file_id) WHERE d.name = ANY(:names)
GROUP BY r.endpoint
""")


def put_files(
    tx: Connection,
    endpoint: str,
    names: Sequence[str],
    files: Mapping[str, Sequence[Any]],
    until: datetime | None = None,
) -> int:
    """Note files as lying at an endpoint: of these datasets, with the columns lfn, size, adler32,
    guid, nevents, boundary and lumiblock; those that were not there before stay until then. How
    many were noted: a file whose dataset is gone, or that is known with other content, is not."""
    values = {"endpoint": endpoint, "until": until, "names": list(names), **files}
    return int(_PUT_FILES.value(tx, **values))


NOTE_EVENTS = changes("""
-- Note the numbers of events of files.
UPDATE ddm_files f SET nevents = c.nevents FROM unnest(CAST(:names AS text[]),
  CAST(:lfns AS text[]), CAST(:nevents AS bigint[])) c(name, lfn, nevents)
  JOIN ddm_datasets d USING (name)
WHERE f.dataset_id = d.dataset_id AND f.lfn = c.lfn
""")


class ExpiringReplica(NamedTuple):
    """A replica of a file of a dataset (`name`) that expires."""

    name: str
    lfn: str
    endpoint: str
    expires_at: datetime


COPIES = returns(ExpiringReplica)("""
-- The replicas that are not to stay.
SELECT d.name, f.lfn, r.endpoint, r.expires_at FROM ddm_replicas r
  JOIN ddm_files f USING (file_id) JOIN ddm_datasets d USING (dataset_id)
WHERE r.expires_at IS NOT NULL
""")


_DROP_COPIES = changes("""
DELETE FROM ddm_replicas r USING ddm_files f JOIN ddm_datasets d USING (dataset_id)
WHERE r.file_id = f.file_id AND r.endpoint = :endpoint AND r.expires_at IS NOT NULL
  AND d.name = :name AND f.lfn = ANY(:lfns)
""")
_KEEP_COPIES = changes("""
UPDATE ddm_replicas r SET expires_at = NULL FROM ddm_files f JOIN ddm_datasets d USING (dataset_id)
WHERE r.file_id = f.file_id AND r.endpoint = :endpoint AND r.expires_at IS NOT NULL
  AND d.name = :name AND f.lfn = ANY(:lfns)
""")


def forget_copies(
    tx: Connection, endpoint: str, name: str, lfns: Collection[str], *, gone: bool
) -> None:
    """Replicas of a dataset's files at an endpoint are `gone`, or stay for good."""
    values = {"endpoint": endpoint, "name": name, "lfns": list(lfns)}
    (_DROP_COPIES if gone else _KEEP_COPIES).run(tx, **values)


_REMOVE_ALL = changes("""
DELETE FROM ddm_files f USING ddm_datasets d WHERE d.name = :name AND f.dataset_id = d.dataset_id
""")
_REMOVE = changes("""
DELETE FROM ddm_files f USING ddm_datasets d WHERE d.name = :name AND f.dataset_id = d.dataset_id
  AND f.lfn = ANY(CAST(:lfns AS text[]))
""")


def remove_files(tx: Connection, name: str, lfns: Collection[str] | None) -> None:
    """Forget these files of a dataset; None: all of them."""
    if lfns is None:
        _REMOVE_ALL.run(tx, name=name)
    else:
        _REMOVE.run(tx, name=name, lfns=list(lfns))
