"""jedi_folders and jedi_folder_jobs: folders of registries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import rows_of


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A folder, and the ids of its jobs in the order in which they came."""

    path: str
    jobs: list[int]


_ALL = text("""
SELECT path, array_remove(array_agg(job ORDER BY j.change, j.place), NULL) AS jobs
FROM (
  SELECT guid, path FROM jedi_folders
  WHERE guid = :guid AND path COLLATE "C" > :after ORDER BY path COLLATE "C" LIMIT :limit) f
  LEFT JOIN jedi_folder_jobs j USING (guid, path)
GROUP BY path ORDER BY path COLLATE "C"
""")


def of_registry(
    tx: Connection, guid: str, after: str = "", limit: int | None = None
) -> list[JobFolder]:  # fmt: skip
    """The folders of a registry whose paths come after one, with their jobs. None: all."""
    values = {"guid": guid, "after": after, "limit": limit}
    return rows_of(JobFolder, tx.execute(_ALL, values))


_MAKE = text("""
INSERT INTO jedi_folders (guid, path) SELECT :guid, unnest(CAST(:paths AS text[]))
ON CONFLICT DO NOTHING
""")


def make(tx: Connection, guid: str, paths: Sequence[str]) -> None:
    """Make folders unless they exist."""
    tx.execute(_MAKE, {"guid": guid, "paths": list(paths)})


_REMOVE = text("""
WITH links AS (
  DELETE FROM jedi_folder_jobs
  WHERE guid = :guid AND (path = :path OR starts_with(path, :path || '/')))
DELETE FROM jedi_folders WHERE guid = :guid AND (path = :path OR starts_with(path, :path || '/'))
""")


def remove(tx: Connection, guid: str, path: str) -> bool:
    """Remove a folder with those in it; False: there is none."""
    return tx.execute(_REMOVE, {"guid": guid, "path": path}).rowcount > 0


_PUT = text("""
INSERT INTO jedi_folder_jobs (guid, path, job, change, place)
SELECT :guid, n.path, n.id, :change, n.place
FROM unnest(CAST(:paths AS text[]), CAST(:ids AS bigint[])) WITH ORDINALITY AS n (path, id, place)
ON CONFLICT DO NOTHING
""")


def put(
    tx: Connection, guid: str, paths: Sequence[str], ids: Sequence[int], change: int
) -> None:  # fmt: skip
    """Links from folders to jobs, a path and an id each."""
    tx.execute(_PUT, {"guid": guid, "paths": list(paths), "ids": list(ids), "change": change})


_TAKE_OUT = text("""
DELETE FROM jedi_folder_jobs
WHERE guid = :guid AND path = :path AND job = ANY(CAST(:ids AS bigint[]))
""")


def take_out(tx: Connection, guid: str, path: str, ids: Sequence[int]) -> None:
    """Take links away."""
    tx.execute(_TAKE_OUT, {"guid": guid, "path": path, "ids": list(ids)})
