"""jedi_dataset_contents: input files come in, get lost, are found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, text

FED_COLUMNS = (
    "datasetid", "jeditaskid", "type", "scope", "status", "proc_status", "keeptrack",
    "maxattempt", "maxfailure", "lfn", "guid", "fsize", "checksum", "nevents",
    "startevent", "endevent", "firstevent",
)  # fmt: skip
"""The columns of a line given to `feed`, in order; the others get their defaults."""


@dataclass(frozen=True, slots=True)
class Known:
    """LFNs of a dataset's rows; `gone` are those that are lost or missing."""

    lfns: frozenset[str]
    gone: frozenset[str]


NOTHING = Known(frozenset(), frozenset())


def known(tx: Connection, dataset_ids: Sequence[int]) -> dict[int, Known]:
    """What is there of datasets that have rows, in one statement: one text a dataset, because
    100,000 rows cost three times as much."""
    rows = tx.execute(
        text(
            "SELECT datasetid, string_agg(lfn, E'\\n') AS lfns, string_agg(lfn, E'\\n') "
            "FILTER (WHERE status IN ('lost', 'missing')) AS gone FROM jedi_dataset_contents "
            "WHERE datasetid = ANY(:ids) GROUP BY datasetid"
        ),
        {"ids": list(dataset_ids)},
    )
    return {
        row.datasetid: Known(
            frozenset(row.lfns.split("\n")), frozenset((row.gone or "").split("\n")) - {""}
        )
        for row in rows
    }


def feed(tx: Connection, blocks: Iterable[str]) -> None:
    """COPY rows, given as blocks of lines in PostgreSQL's text format with FED_COLUMNS."""
    copy = f"COPY jedi_dataset_contents ({', '.join(FED_COLUMNS)}) FROM STDIN"
    cursor: Any = tx.connection.cursor()  # psycopg's own
    with cursor, cursor.copy(copy) as stream:
        for block in blocks:
            stream.write(block)


_LOSE = """
WITH u AS (
  UPDATE jedi_dataset_contents c SET status = 'lost', proc_status = 'failed'
  FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[])) AS g(id, lfn)
  WHERE c.datasetid = g.id AND c.lfn = g.lfn
    AND c.status IN ('ready', 'pending', 'staging', 'waiting')
  RETURNING c.datasetid
)
SELECT datasetid, count(*) AS files FROM u GROUP BY datasetid
"""
_FIND = """
WITH u AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready'
  FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[])) AS g(id, lfn)
  WHERE c.datasetid = g.id AND c.lfn = g.lfn AND c.status IN ('lost', 'missing')
  RETURNING c.datasetid
)
SELECT datasetid, count(*) AS files FROM u GROUP BY datasetid
"""


def lose(tx: Connection, files: Mapping[int, Iterable[str]]) -> dict[int, int]:
    """Files that left the listing of their dataset before anybody used them are lost; how many,
    by dataset."""
    return _mark(tx, _LOSE, files)


def find_again(tx: Connection, files: Mapping[int, Iterable[str]]) -> dict[int, int]:
    """Lost or missing files that the listing names again are ready; how many, by dataset."""
    return _mark(tx, _FIND, files)


def _mark(tx: Connection, statement: str, files: Mapping[int, Iterable[str]]) -> dict[int, int]:
    pairs = [(dataset_id, lfn) for dataset_id, some in files.items() for lfn in some]
    if not pairs:
        return {}
    values = {"ids": [pair[0] for pair in pairs], "lfns": [pair[1] for pair in pairs]}
    return {row.datasetid: row.files for row in tx.execute(text(statement), values)}


@dataclass(frozen=True, slots=True)
class Fed:
    """What a look-up changed in a dataset: rows added, files gone (less those found again), and
    the state that data management told (None: nothing was looked up)."""

    dataset_id: int
    added: int
    gone: int
    events: int | None
    state: str | None


def note_fed(tx: Connection, fed: Sequence[Fed]) -> None:
    """Count what was fed; one statement for all datasets."""
    tx.execute(
        text(
            "UPDATE jedi_datasets d SET nfiles = nfiles + f.added, "
            "nfilestobeused = nfilestobeused + f.added, nfilesmissing = nfilesmissing + f.gone, "
            "nevents = coalesce(nevents + f.events, nevents, f.events), "
            "neventstobeused = coalesce(neventstobeused + f.events, neventstobeused, f.events), "
            "state = coalesce(f.state, d.state), statechecktime = jedi_now(), "
            "modificationtime = jedi_now() "
            "FROM unnest(CAST(:dataset_id AS bigint[]), CAST(:added AS bigint[]), "
            "CAST(:gone AS bigint[]), CAST(:events AS bigint[]), CAST(:state AS text[])) "
            "AS f(id, added, gone, events, state) WHERE d.datasetid = f.id"
        ),
        {name: [asdict(one)[name] for one in fed] for name in Fed.__dataclass_fields__},
    )
