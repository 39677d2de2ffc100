"""What a simulation asks of its scratch database, and how it keeps that in shape."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, text

from jedi.taskbuffer.alljobs import all_jobs

_COLUMNS = (
    "pandaid, jeditaskid, site, gshare, status, error_code, cores, creationtime, starttime, "
    "endtime, statechangetime"
)


def jobs(tx: Connection) -> list[Row[Any]]:
    """All jobs there ever were, by PandaID, with the times of their lives."""
    return list(tx.execute(text(f"SELECT {_COLUMNS} FROM {all_jobs(_COLUMNS)} j ORDER BY pandaid")))


def tasks(tx: Connection) -> list[Row[Any]]:
    """All tasks by id, and when they came and ended."""
    return list(
        tx.execute(
            text(
                "SELECT jeditaskid, taskname, status, gshare, reason_code, creationdate, endtime "
                "FROM jedi_tasks ORDER BY jeditaskid"
            )
        )
    )


def tidy(tx: Connection) -> None:
    """What autovacuum would do, but at a time that two runs have in common. `tx` commits each
    statement at once."""
    tx.execute(text("VACUUM (ANALYZE)"))
