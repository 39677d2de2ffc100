"""The door of the room: sends pilots to the sites of this machine and notices when they die."""

from __future__ import annotations

import socket
import subprocess
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from jedi.agent.base import Agent, World
from jedi.core import clock, processes
from jedi.core.backoff import Backoff
from jedi.core.home import Home
from jedi.core.processes import Process
from jedi.submitter import local
from jedi.submitter.local import Slot
from jedi.submitter.plan import how_many
from jedi.taskbuffer import jobs_end, pilots, sites, users
from jedi.taskbuffer.jobs_end import JobEnd

LOST = "lost_pilot"
LONGEST_WAIT_S = 60.0
START_S = 5.0
"""A pilot whose process nobody has noted for so long is looked for in the process table."""


@dataclass(slots=True)
class Errand:
    """What is to be done at a site."""

    site: Row[Any]
    starts: dict[str, str] = field(default_factory=dict)
    """Pilots to start, with their tokens."""

    adopted: dict[str, Process] = field(default_factory=dict)
    """Pilots that a submitter started and then died before it could say so."""

    gone: dict[str, int | None] = field(default_factory=dict)
    """Dead pilots with their exit codes, as far as we know them."""

    lost: list[str] = field(default_factory=list)
    """Dead pilots whose jobs have been ended; what they left behind is still there."""

    attempts: Sequence[Row[Any]] = ()
    """The attempts of those jobs."""

    endpoints: Sequence[str] = ()
    """Where they may have staged files."""

    def __bool__(self) -> bool:
        return bool(self.starts or self.adopted or self.gone or self.lost)


class Submitter(Agent[Errand, dict[str, Process]]):
    """Keeps as many pilots at a site as it has waiting jobs and slots.

    The rows of jedi_pilots come first: a pilot is noted, then started, then its process is noted;
    what a crash leaves half done is found in the process table. Pilots outlive the submitter: the
    next one takes them over.
    """

    name = "Submitter"
    wakes = frozenset({"job:activated"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._home = Home(world.settings.home)
        self._logs = self._home.logs / "pilots"
        self._host = socket.gethostname()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._starting: defaultdict[str, Backoff] = defaultdict(_patience)
        self._troubled: defaultdict[str, Backoff] = defaultdict(_patience)

    @property
    def poll_s(self) -> float:
        """Pilots are looked after this often, however seldom agents poll."""
        return min(super().poll_s, float(self.world.knobs["submitter.check_s"]))

    def claim(self, tx: Connection, limit: int) -> list[Errand]:
        now = clock.monotonic()
        served = [
            s for s in pilots.serve(tx, self._host, limit) if self._troubled[s.site].until <= now
        ]
        demand = pilots.demand(tx, [site.site for site in served])
        known: defaultdict[str, list[Row[Any]]] = defaultdict(list)
        for pilot in pilots.live_pilots(tx, self._host):
            known[pilot.site].append(pilot)
        errands = []
        for site in served:
            errand = self._inspect(tx, site, known[site.site])
            if not errand.gone and self._starting[site.site].until <= now:
                alive = len(known[site.site]) - len(errand.lost)
                asked = demand[site.site]
                number = how_many(asked.waiting, alive, asked.busy, site.nslots)
                errand.starts = self._reserve(tx, site.site, number)
            errands.append(errand)
        return [errand for errand in errands if errand]

    def work(self, errand: Errand) -> dict[str, Process]:
        for attempt in errand.attempts:
            local.tidy(self._home.work / f"{attempt.pandaid}.{attempt.lock_seq}")
            for endpoint in errand.endpoints:
                self.world.ddm.drop_staging(endpoint, attempt.pandaid, attempt.lock_seq)
        return errand.adopted | self._start(errand)

    def apply(self, tx: Connection, results: Sequence[tuple[Errand, dict[str, Process]]]) -> None:
        errands = [errand for errand, _ in results]
        pilots.note_process(tx, {k: v for _, found in results for k, v in found.items()})
        pilots.end_pilots(tx, [pilot for errand in errands for pilot in errand.lost], "lost")
        gone = {pilot: code for errand in errands for pilot, code in errand.gone.items()}
        losers = self._end_jobs(tx, gone) if gone else set()
        pilots.end_pilots(tx, sorted(losers), "lost", tidy=False)
        pilots.end_pilots(tx, sorted(gone.keys() - losers), "ended")
        for errand in errands:
            self._troubled.pop(errand.site.site, None)
            idle = {pilot: code for pilot, code in errand.gone.items() if pilot not in losers}
            self._judge(tx, errand.site.site, idle)
        for pilot in gone:
            self._children.pop(pilot, None)

    def trouble(self, tx: Connection, errand: Errand, error: Exception) -> None:
        self._wait(tx, self._troubled, errand.site.site, str(error))

    def _inspect(self, tx: Connection, site: Row[Any], known: Sequence[Row[Any]]) -> Errand:
        """Compare the pilots of a site with the process table."""
        errand = Errand(site)
        for pilot in known:
            child = self._children.get(pilot.pilot_id)
            if pilot.status == "lost":
                errand.lost.append(pilot.pilot_id)
            elif child:
                if (code := child.poll()) is not None:
                    errand.gone[pilot.pilot_id] = code
            elif pilot.pid:
                if not Process(pilot.pid, pilot.process_start).alive():
                    errand.gone[pilot.pilot_id] = None
            elif pilot.age_s > START_S:
                if process := local.find(pilot.pilot_id):
                    errand.adopted[pilot.pilot_id] = process
                else:
                    errand.gone[pilot.pilot_id] = None
        if errand.lost:
            errand.attempts = pilots.lost_attempts(tx, errand.lost, LOST)
            errand.endpoints = list(sites.roots(tx))
        return errand

    def _reserve(self, tx: Connection, site: str, number: int) -> dict[str, str]:
        """Take slots for new pilots; their names and tokens."""
        names = [f"{site}.{uuid.uuid4().hex[:12]}" for _ in range(number)]
        tokens = {name: users.put_token(tx, "pilot", site=site) for name in names}
        rows = [(name, site, users.token_hash(token)) for name, token in tokens.items()]
        pilots.insert_pilots(tx, self._host, rows)
        return tokens

    def _start(self, errand: Errand) -> dict[str, Process]:
        if not errand.starts:
            return {}
        knobs, site = self.world.knobs, errand.site
        slot = Slot(
            site=site.site,
            cores=max(site.corecount, 1),
            memory_mb=site.maxrss,
            disk_mb=site.maxwdir,
            max_jobs=knobs["pilot.max_jobs"],
            idle_s=knobs["pilot.idle_s"],
            heartbeat_s=knobs["pilot.heartbeat_s"],
            work=self._home.work,
        )
        listen = knobs["api.listen"]
        url = f"http://{listen}" if listen else f"unix:{self._home.api_socket}"
        self._logs.mkdir(parents=True, exist_ok=True)
        local.prune(self._logs)
        for pilot, token in errand.starts.items():
            argv = local.command(slot, pilot, self._home.payload_account(pilot))
            self._children[pilot] = local.start(argv, url, token, self._logs / f"{pilot}.log")
        self.log.info("pilots sent", site=site.site, number=len(errand.starts))
        noted = {pilot: processes.note(self._children[pilot].pid) for pilot in errand.starts}
        return {pilot: process for pilot, process in noted.items() if process}

    def _end_jobs(self, tx: Connection, gone: dict[str, int | None]) -> set[str]:
        """Fail the jobs of dead pilots; the pilots that had any."""
        jobs = pilots.lock_jobs(tx, list(gone))
        ends = []
        for job in jobs:
            how = local.describe_end(gone[job.pilot_id])
            reason = f"Pilot {job.pilot_id} {how} while it had this job."
            self.log.warning("pilot lost", pandaid=job.pandaid, reason=reason)
            ends.append(JobEnd(job.pandaid, "failed", LOST, reason, error_source="pilot"))
        jobs_end.end_jobs(tx, ends, self.name)
        return {job.pilot_id for job in jobs}

    def _judge(self, tx: Connection, site: str, ended: dict[str, int | None]) -> None:
        """Send pilots to a site less and less often while those that had no job end in error."""
        failed = [pilot for pilot, code in ended.items() if code]
        if failed:
            said = local.last_words(self._logs / f"{failed[0]}.log")
            how = local.describe_end(ended[failed[0]])
            self._wait(tx, self._starting, site, f"Pilot {failed[0]} {how}: {said}")
        elif 0 in ended.values():
            self._starting.pop(site, None)
            pilots.note_trouble(tx, site, None)

    def _wait(self, tx: Connection, backoffs: dict[str, Backoff], site: str, reason: str) -> None:
        backoff = backoffs[site]
        backoff.failed(clock.monotonic())
        facts = {"reason": reason, "wait_s": backoff.wait_s}
        self.log.warning("waiting", site=site, **facts)
        pilots.note_trouble(tx, site, facts)


def _patience() -> Backoff:
    return Backoff(LONGEST_WAIT_S)
