"""Job sets of events, and pilots that take their consumers, report ranges and end."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from jedi.agent.base import World
from jedi.core.states import EVENT_CODES
from jedi.eventservice.agent import EventService
from jedi.model.jobs.attempt import HeldJob
from jedi.model.jobs.event_wire import ConsumerReport, PieceAsk, RangeAsks
from jedi.model.jobs.wire import Report, Resources, StagedOutput
from jedi.mover.agent import Mover
from jedi.service.pilots import event_pieces, event_ranges
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.users.users import Identity
from support.commanding import add_inputs
from support.generating import document, generate, ready, rows
from support.situations import set_sites

MERGE = {"transPath": "merge.sh", "jobParameters": "${IN} ${OUTPUT0}"}
_NAMES = {code: name for name, code in EVENT_CODES.items()}


def events_task(world: World, events: int = 6, files: int = 1, **keys: Any) -> int:
    """A task of one job set a file, each of ranges of two events; its first consumers wait. None:
    the key is left out."""
    add_inputs(world, files)
    said = {
        "nFilesPerJob": 1,
        "nEventsPerInputFile": events,
        "nEventsPerWorker": 2,
        "site": "SITE_A",
        "esmergeSpec": MERGE,
        **keys,
    }
    [task] = ready(world, document(**{k: v for k, v in said.items() if v is not None}))
    assert generate(world) == 1
    return task


def jumbo_jobs_task(world: World, status: str, **keys: Any) -> int:
    """A task of a job set a file with co-jumbo jobs at SITE_A, which has this status, and jumbo
    jobs at SITE_B. Raw: SITE_A reads pieces at SITE_B."""
    set_sites(world, "SITE_A", status=status)
    set_sites(world, "SITE_B", catchall={"useJumboJobs": True})
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, is_local, roles) "
                "VALUES ('SITE_A', 'SITE_B_DATADISK', false, 'read')"
            )
        )
    said = {"site": None, "includedSite": "SITE_A", "nJumboJobs": 1, **keys}
    return events_task(world, inFilePosEvtNum=True, **said)


def copies_task(world: World, mode: str, copies: int = 3, **keys: Any) -> int:
    """A task of one job in so many copies, of which one counts."""
    add_inputs(world, 1)
    said = {
        "nFilesPerJob": 1,
        "useJobCloning": mode,
        "nEsConsumers": copies,
        "nSitesPerJob": 1,
        "site": "SITE_A",
        **keys,
    }
    [task] = ready(world, document(**said))
    assert generate(world) == 1
    return task


def serve(world: World) -> int:
    """All that the EventService can do now, and the Mover; how many job sets were due."""
    agent, mover, found = EventService(world), Mover(world), 0
    for _ in range(20):
        now = agent.run_once()
        found += now
        if not mover.run_once() + now:
            return found
    raise AssertionError("the EventService does not come to rest")


def look_again(world: World) -> None:
    """The EventService looks at job sets that nobody serves. Raw: time does it."""
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_jobsets SET next_look_at = jedi_now() WHERE next_look_at IS NOT NULL")
        )
    serve(world)


_PILOTS = itertools.count(1)
"""Ids of objects come again; a request with an id that was used gets the old answer."""


class EventPilot:
    """Plays the part of a site's pilots."""

    def __init__(self, world: World, site: str = "SITE_A") -> None:
        self.world, self.site, self._asked = world, site, 0
        self._me, self._memory = f"{site}-{next(_PILOTS)}", ConsumerMemory()
        self._who = Identity("pilot", site, "p")
        self._ids: dict[int, dict[int, str]] = defaultdict(dict)

    def take(self, n: int = 1) -> list[HeldJob]:
        """Take so many jobs, and start them."""
        self._asked += 1
        request = f"{self._me}-{self._asked}"
        with self.world.engine.begin() as tx:
            found = dispatch.acquire(tx, self.site, n, Resources(cores=1), request, "p")
        assert len(found) == n
        for job in found:
            self.report(job, "running")
        return found

    def ask(self, job: HeldJob, n: int) -> list[int]:
        """Get up to `n` ranges; the numbers of their first events."""
        if not n:
            return []
        self._asked += 1
        one = {"panda_id": job.panda_id, "lock_seq": job.lock_seq, "n": n}
        request = RangeAsks.model_validate(
            {"request_id": f"{self._me}-{self._asked}", "asks": [one]}
        )
        with self.world.engine.begin() as tx:
            [answer] = event_ranges.acquire(tx, self._who, request, self._memory)["answers"]
        assert answer["status"] == "ok"
        found = {int(given["id"].split("-")[3]): given["id"] for given in answer["ranges"]}
        self._ids[job.panda_id].update(found)
        return sorted(found)

    def pieces(self, job: HeldJob) -> list[dict[str, Any]]:
        """All pieces of a merge job, page by page."""
        found: list[dict[str, Any]] = []
        ask: dict[str, Any] = {"panda_id": job.panda_id, "lock_seq": job.lock_seq}
        while True:
            with self.world.engine.begin() as tx:
                answer = event_pieces.some(
                    tx, self._who, PieceAsk.model_validate(ask), self.world.ddm
                )
            assert answer["status"] == "ok"
            found += answer["pieces"]
            ask["after"] = answer["next"]
            if not ask["after"]:
                return found

    def process(self, job: HeldJob, firsts: Sequence[int], status: str = "finished") -> None:
        """Report ranges; finished ones lie in a zip file of theirs. `fatal`: for good."""
        ids = [self._ids[job.panda_id][first] for first in firsts]
        results = [{"id": one, "status": status} for one in ids]
        said: dict[str, Any] = {"panda_id": job.panda_id, "lock_seq": job.lock_seq}
        if status == "finished":
            lfn = f"{job.panda_id}.{firsts[0]}.zip"
            said["zips"] = [
                {
                    "lfn": lfn,
                    "endpoint": f"{self.site}_DATADISK",
                    "fsize": 10,
                    "adler32": "00000001",
                    "n_events": 2,
                    "ranges": results,
                }
            ]
        else:
            said["ranges"] = results
        report = ConsumerReport.model_validate(said)
        with self.world.engine.begin() as tx:
            [answer] = event_ranges.report(tx, self._who, [report], self._memory)["answers"]
        assert answer["refused"] == []

    def end(self, job: HeldJob, status: str = "finished", **more: Any) -> None:
        """Report the end of a job, with its log; a merge job makes its outputs, too."""
        kinds = ("output", "log") if status == "finished" else ("log",)
        staging = self.world.ddm.staging_dir(job.site_endpoint, job.panda_id, job.lock_seq)
        staging.mkdir(parents=True)
        made = []
        for file in job.files:
            if file.type in kinds:
                data = f"made by {job.panda_id}".encode()
                (staging / file.lfn).write_bytes(data)
                made.append(
                    StagedOutput(
                        lfn=file.lfn, size=len(data), guid="ab", adler32=f"{zlib.adler32(data):08x}"
                    )
                )
        self.report(job, status, outputs=made, **more)

    def report(self, job: HeldJob, status: Any, **more: Any) -> None:
        said = Report.model_validate(
            {"pandaid": job.panda_id, "lock_seq": job.lock_seq, "status": status, **more}
        )
        with self.world.engine.begin() as tx:
            assert dispatch.accept_reports(tx, self.site, [said]) == [status]


def set_jobs(world: World, task: int, *kinds: str) -> list[tuple[str, str, str | None]]:
    """The jobs of a task, of all kinds or these: kind, status, sub-status, in their order."""
    query = (
        "SELECT kind, status, substatus FROM jedi_jobs WHERE jeditaskid = :t "
        "AND (CAST(:k AS text[]) IS NULL OR kind = ANY(:k)) ORDER BY pandaid"
    )
    return [tuple(row) for row in rows(world, query, t=task, k=list(kinds) or None)]


def ranges(world: World, task: int) -> dict[int, list[tuple[str, int]]]:
    """The rows of each range, by its first event: status and attempts left."""
    query = (
        "SELECT job_processid, status, attemptnr FROM jedi_events WHERE jeditaskid = :t "
        "ORDER BY job_processid, attemptnr DESC, status DESC"
    )
    found: dict[int, list[tuple[str, int]]] = {}
    for first, status, attempts in rows(world, query, t=task):
        found.setdefault(first, []).append((_NAMES[status], attempts))
    return found


def range_counts(world: World, task: int) -> Counter[str]:
    """Ranges of a task by status."""
    return Counter(status for several in ranges(world, task).values() for status, _ in several)


def reasons(world: World, task: int, kind: str = "consumer") -> list[str]:
    """The codes that the EventService gave jobs of a kind, in the order of the jobs."""
    query = (
        "SELECT l.reason_code FROM jedi_jobs_statuslog l JOIN jedi_jobs j USING (pandaid) "
        "WHERE j.jeditaskid = :t AND j.kind = :k AND l.agent = 'EventService' "
        "AND l.reason_code <> 'generated' "
        "ORDER BY pandaid, log_id"
    )
    return [row.reason_code for row in rows(world, query, t=task, k=kind)]
