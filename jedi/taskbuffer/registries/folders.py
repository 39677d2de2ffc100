"""jedi_folders and jedi_folder_jobs: folders of registries."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A folder, and the ids of its jobs in the order in which they came."""

    path: str
    jobs: list[int]


OF_REGISTRY = returns(JobFolder)("""
-- The folders of a registry whose paths come after one, with their jobs. None: all.
SELECT path, array_remove(array_agg(job ORDER BY j.change, j.place), NULL) AS jobs
FROM (
  SELECT guid, path FROM jedi_folders
  WHERE guid = :guid AND path COLLATE "C" > :after ORDER BY path COLLATE "C" LIMIT :limit) f
  LEFT JOIN jedi_folder_jobs j USING (guid, path)
GROUP BY path ORDER BY path COLLATE "C"
""")


MAKE = changes("""
-- Make folders unless they exist.
INSERT INTO jedi_folders (guid, path) SELECT :guid, unnest(CAST(:paths AS text[]))
ON CONFLICT DO NOTHING
""")


_REMOVE = changes("""
WITH links AS (
  DELETE FROM jedi_folder_jobs
  WHERE guid = :guid AND (path = :path OR starts_with(path, :path || '/')))
DELETE FROM jedi_folders WHERE guid = :guid AND (path = :path OR starts_with(path, :path || '/'))
""")


def remove(tx: Connection, guid: str, path: str) -> bool:
    """Remove a folder with those in it; False: there is none."""
    return _REMOVE.run(tx, guid=guid, path=path) > 0


PUT = changes("""
-- Links from folders to jobs, a path and an id each.
INSERT INTO jedi_folder_jobs (guid, path, job, change, place)
SELECT :guid, n.path, n.id, :change, n.place
FROM unnest(CAST(:paths AS text[]), CAST(:ids AS bigint[])) WITH ORDINALITY AS n (path, id, place)
ON CONFLICT DO NOTHING
""")


TAKE_OUT = changes("""
-- Take links away.
DELETE FROM jedi_folder_jobs
WHERE guid = :guid AND path = :path AND job = ANY(CAST(:ids AS bigint[]))
""")
