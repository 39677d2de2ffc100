"""Tasks of the event service: documents, job sets, consumers and ranges as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jedi.agent.base import World
from jedi.core import states
from jedi.ddm.interface import FileInfo
from support.generating import document, rows

MERGE = {"transPath": "merge.sh", "jobParameters": "${IN} ${OUTPUT0} $PANDAID"}
NAMES = {code: name for name, code in states.EVENT_CODES.items()}


def with_events(*counts: int | None) -> list[FileInfo]:
    """Files File1, File2, ... with so many events."""
    return [FileInfo(f"File{i}", 10, "00000001", None, n) for i, n in enumerate(counts, 1)]


def event_task(**keys: Any) -> dict[str, Any]:
    """A task whose consumers get two events at a time, with a job set for each file."""
    found = {"nEventsPerWorker": 2, "nFilesPerJob": 1, "esmergeSpec": MERGE, "skipScout": False}
    return document(**{**found, **keys})


def job_sets(world: World, task: int) -> list[Any]:
    """The job sets of a task, in order."""
    return rows(world, "SELECT * FROM jedi_jobsets WHERE jeditaskid = :t ORDER BY jobsetid", t=task)


def consumers(world: World, task: int) -> list[Any]:
    """The consumers of a task's job sets with their jobs, in order."""
    return rows(
        world,
        "SELECT c.jobsetid, c.number, c.settled_at, j.*, j.pandaid AS panda_id, "
        "p.jobparameters AS command "
        "FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid) "
        "JOIN jedi_job_params p USING (pandaid) WHERE c.jeditaskid = :t "
        "ORDER BY c.jobsetid, c.number",
        t=task,
    )


def waiting_jobs(world: World, task: int) -> list[Any]:
    """The jobs of a task's job sets that merge, with their commands, in order."""
    return rows(
        world,
        "SELECT j.*, j.pandaid AS panda_id, p.jobparameters AS command FROM jedi_jobs j "
        "JOIN jedi_job_params p USING (pandaid) WHERE jeditaskid = :t AND kind = 'es_merge' "
        "ORDER BY pandaid",
        t=task,
    )


def ranges(world: World, task: int) -> list[Any]:
    """The ranges of a task, in order."""
    return rows(
        world,
        "SELECT e.*, e.pandaid AS panda_id, c.lfn "
        "FROM jedi_events e JOIN jedi_dataset_contents c USING (fileid) "
        "WHERE e.jeditaskid = :t ORDER BY e.jobsetid, e.fileid, e.job_processid, e.attemptnr DESC",
        t=task,
    )


def cuts(found: Sequence[Any]) -> list[tuple[str, int, int]]:
    """File, first and last event of ranges."""
    return [(one.lfn, one.def_min_eventid, one.def_max_eventid) for one in found]
