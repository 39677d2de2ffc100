"""ddm_datasets, ddm_members, ddm_files, ddm_replicas: the catalogue of data management.

Files are named by two lists, of datasets and of LFNs; every verb is one statement however many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import rows_of
from jedi.taskbuffer.scheduling.patterns import like

_TREE = text("""
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
_LIST = text(
    _LISTED.format(
        wanted="(SELECT dataset_id, name FROM ddm_datasets WHERE name = ANY(:names))",
        key="dataset_id",
    )
)
_PLAIN = "f.dataset_id = (SELECT dataset_id FROM ddm_datasets WHERE name = :name)"
# Without a collation: in the order of the index, so that a part costs what it returns.
_PART = text(f"""
SELECT CAST(:name AS text) AS name, {_FILE} FROM ddm_files f
WHERE {_PLAIN} AND f.lfn > :after ORDER BY f.lfn LIMIT :limit
""")
_COUNT = text(f"SELECT count(*) FROM ddm_files f WHERE {_PLAIN}")
_FIND = text(_LISTED.format(wanted=_WANTED, key="dataset_id, lfn"))
_PUT_FILES = text("""
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


def tree(tx: Connection, names: Collection[str]) -> list[CatalogueDataset]:
    """These datasets and all below them, in no order. Unknown names are left out."""
    return rows_of(CatalogueDataset, tx.execute(_TREE, {"names": list(names)}))


_FIND_DATASETS = text("""
SELECT name, state FROM ddm_datasets WHERE name LIKE :name ORDER BY name COLLATE "C"
""")


class FoundDataset(NamedTuple):
    """A dataset found by its name."""

    name: str
    state: Literal["open", "closed"]


def find_datasets(tx: Connection, pattern: str) -> list[FoundDataset]:
    """Datasets by name, of which `*` stands for anything."""
    return rows_of(FoundDataset, tx.execute(_FIND_DATASETS, {"name": like(pattern)}))


_PUT_DATASET = text("""
INSERT INTO ddm_datasets AS d (name, state, is_container)
VALUES (:name, :state, :container) ON CONFLICT (name) DO UPDATE
SET state = excluded.state WHERE d.is_container = excluded.is_container
""")


def put_dataset(tx: Connection, name: str, state: str, *, container: bool) -> bool:
    """Make a dataset, or set the state of the one there is; False if that is of the other kind."""
    done = tx.execute(_PUT_DATASET, {"name": name, "state": state, "container": container})
    return done.rowcount == 1


_CLOSE = text("UPDATE ddm_datasets SET state = 'closed' WHERE name = :name")


def close(tx: Connection, name: str) -> bool:
    """Close a dataset; False if there is none."""
    done = tx.execute(_CLOSE, {"name": name})
    return done.rowcount == 1


_DELETE_DATASET = text("DELETE FROM ddm_datasets WHERE name = :name")


def delete_dataset(tx: Connection, name: str) -> None:
    """Forget a dataset with its files, or a container with its list of members."""
    tx.execute(_DELETE_DATASET, {"name": name})


_LOCK_MEMBERS = text("LOCK TABLE ddm_members IN SHARE ROW EXCLUSIVE MODE")


def lock_members(tx: Connection) -> None:
    """Nobody else changes containers before this transaction ends: two changes at once, each fine
    by itself, could close a circle."""
    tx.execute(_LOCK_MEMBERS)


_ADD_MEMBERS = text("""
INSERT INTO ddm_members (container_id, member, position)
SELECT d.dataset_id, a.member, a.nr + (SELECT coalesce(max(m.position), 0)
FROM ddm_members m WHERE m.container_id = d.dataset_id) FROM ddm_datasets d,
  unnest(CAST(:names AS text[])) WITH ORDINALITY a(member, nr)
WHERE d.name = :container ON CONFLICT DO NOTHING
""")


def add_members(tx: Connection, container: str, names: Sequence[str]) -> None:
    """Add those names behind the members there are which are none yet."""
    tx.execute(_ADD_MEMBERS, {"container": container, "names": list(names)})


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


def list_files(tx: Connection, names: Collection[str]) -> list[CatalogueFile]:
    """All files of plain datasets, in no order."""
    return rows_of(CatalogueFile, tx.execute(_LIST, {"names": list(names)}))


def list_part(tx: Connection, name: str, after: str | None, limit: int) -> list[CatalogueFile]:
    """Up to `limit` files of a plain dataset, in the database's order of LFNs: the first ones, or
    those after an LFN."""
    values = {"name": name, "after": after or "", "limit": limit}
    return rows_of(CatalogueFile, tx.execute(_PART, values))


def count_files(tx: Connection, name: str) -> int:
    """The number of files of a plain dataset."""
    return int(tx.scalar(_COUNT, {"name": name}) or 0)


def find_files(tx: Connection, names: Sequence[str], lfns: Sequence[str]) -> list[CatalogueFile]:
    """The known ones of the named files."""
    return rows_of(CatalogueFile, tx.execute(_FIND, {"names": list(names), "lfns": list(lfns)}))


_REPLICAS = text("""
SELECT r.endpoint, count(*) AS files, CAST(sum(f.size) AS bigint) AS size
FROM ddm_datasets d JOIN ddm_files f USING (dataset_id)
  JOIN ddm_replicas r USING (file_id) WHERE d.name = ANY(:names)
GROUP BY r.endpoint
""")


class EndpointShare(NamedTuple):
    """The number and bytes of files that an endpoint holds."""

    endpoint: str
    files: int
    size: int


def replicas(tx: Connection, names: Collection[str]) -> list[EndpointShare]:
    """The parts of plain datasets, taken together, that endpoints hold."""
    return rows_of(EndpointShare, tx.execute(_REPLICAS, {"names": list(names)}))


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
    return int(tx.execute(_PUT_FILES, values).scalar_one())


_NOTE_EVENTS = text("""
UPDATE ddm_files f SET nevents = c.nevents FROM unnest(CAST(:names AS text[]),
  CAST(:lfns AS text[]), CAST(:nevents AS bigint[])) c(name, lfn, nevents)
  JOIN ddm_datasets d USING (name)
WHERE f.dataset_id = d.dataset_id AND f.lfn = c.lfn
""")


def note_events(
    tx: Connection, names: Sequence[str], lfns: Sequence[str], nevents: Sequence[int | None]
) -> None:
    """Note the numbers of events of files."""
    tx.execute(_NOTE_EVENTS, {"names": list(names), "lfns": list(lfns), "nevents": list(nevents)})


_COPIES = text("""
SELECT d.name, f.lfn, r.endpoint, r.expires_at FROM ddm_replicas r
  JOIN ddm_files f USING (file_id) JOIN ddm_datasets d USING (dataset_id)
WHERE r.expires_at IS NOT NULL
""")


class ExpiringReplica(NamedTuple):
    """A replica of a file of a dataset (`name`) that expires."""

    name: str
    lfn: str
    endpoint: str
    expires_at: datetime


def copies(tx: Connection) -> list[ExpiringReplica]:
    """The replicas that are not to stay."""
    return rows_of(ExpiringReplica, tx.execute(_COPIES))


_DROP_COPIES = text("""
DELETE FROM ddm_replicas r USING ddm_files f JOIN ddm_datasets d USING (dataset_id)
WHERE r.file_id = f.file_id AND r.endpoint = :endpoint AND r.expires_at IS NOT NULL
  AND d.name = :name AND f.lfn = ANY(:lfns)
""")
_KEEP_COPIES = text("""
UPDATE ddm_replicas r SET expires_at = NULL FROM ddm_files f JOIN ddm_datasets d USING (dataset_id)
WHERE r.file_id = f.file_id AND r.endpoint = :endpoint AND r.expires_at IS NOT NULL
  AND d.name = :name AND f.lfn = ANY(:lfns)
""")


def forget_copies(
    tx: Connection, endpoint: str, name: str, lfns: Collection[str], *, gone: bool
) -> None:
    """Replicas of a dataset's files at an endpoint are `gone`, or stay for good."""
    values = {"endpoint": endpoint, "name": name, "lfns": list(lfns)}
    tx.execute(_DROP_COPIES if gone else _KEEP_COPIES, values)


_REMOVE_ALL = text("""
DELETE FROM ddm_files f USING ddm_datasets d WHERE d.name = :name AND f.dataset_id = d.dataset_id
""")
_REMOVE = text("""
DELETE FROM ddm_files f USING ddm_datasets d WHERE d.name = :name AND f.dataset_id = d.dataset_id
  AND f.lfn = ANY(CAST(:lfns AS text[]))
""")


def remove_files(tx: Connection, name: str, lfns: Collection[str] | None) -> None:
    """Forget these files of a dataset; None: all of them."""
    if lfns is None:
        tx.execute(_REMOVE_ALL, {"name": name})
    else:
        tx.execute(_REMOVE, {"name": name, "lfns": list(lfns)})
