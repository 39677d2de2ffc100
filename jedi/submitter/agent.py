"""The door of the room: sends pilots to the sites, by whatever engine runs them there, and notices
when they die."""

from __future__ import annotations

import socket
import sys
import uuid
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row

from jedi.agent.base import Agent, World
from jedi.core import clock
from jedi.core.backoff import Backoff
from jedi.core.home import Home
from jedi.submitter import engines, local
from jedi.submitter.plan import how_many, ramp, surplus
from jedi.submitter.port import End, Engine, EngineError, Known, Seen, Sent, Slot, Start
from jedi.taskbuffer import jobs_end, pilots, sites, users
from jedi.taskbuffer.jobs_end import JobEnd
from jedi.taskbuffer.pilots import Found

LOST = "lost_pilot"
LONGEST_WAIT_S = 60.0
OVERTIME_S = 60
"""A slot is open so much longer than the longest job takes: it begins to be used later."""


@dataclass(slots=True)
class Errand:
    """What is to be done at a site, by one of its engines."""

    site: Row[Any]
    engine: Engine
    known: list[Known]
    """Its living pilots there."""

    seen: Seen | None = None
    """What has become of them, if that was known at once."""

    starts: list[Start] = field(default_factory=list)
    superfluous: list[Known] = field(default_factory=list)
    """Pilots that have no job to expect, if they have not begun."""

    lost: list[str] = field(default_factory=list)
    """Dead pilots whose jobs have been ended; what they left behind is still there."""

    attempts: Sequence[Row[Any]] = ()
    """The attempts of those jobs."""

    endpoints: Sequence[str] = ()
    """Where they may have staged files."""

    def __bool__(self) -> bool:
        news = self.known if self.seen is None else self.seen.found or self.seen.gone
        return bool(self.starts or self.lost or news)


@dataclass(slots=True)
class Done:
    """What was seen and done there."""

    seen: Seen
    sent: Sent
    strays: list[Known] = field(default_factory=list)
    """Pilots that go on although they were noted to have ended."""


class Submitter(Agent[Errand, Done]):
    """Keeps as many pilots at a site as it has waiting jobs and slots.

    The rows of jedi_pilots come first: a pilot is noted, then started, then its process or batch
    job is noted; what a crash leaves half done is found by the pilot's name. Pilots outlive the
    submitter: the next one takes them over.
    """

    name = "Submitter"
    wakes = frozenset({"job:activated"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._home = Home(world.settings.home)
        self._host = socket.gethostname()
        self._engines: dict[str, Engine] = {}
        self._due: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._starting: defaultdict[str, Backoff] = defaultdict(_patience)
        self._troubled: defaultdict[str, Backoff] = defaultdict(_patience)

    @property
    def poll_s(self) -> float:
        """Pilots are looked after this often, however seldom agents poll."""
        return min(super().poll_s, float(self.world.knobs["submitter.check_s"]))

    def claim(self, tx: Connection, limit: int) -> list[Errand]:
        now = clock.monotonic()
        pilots.renew_tokens(tx, self._host, self.world.knobs["submitter.token_s"])
        served = [
            s for s in pilots.serve(tx, self._host, limit) if self._troubled[s.site].until <= now
        ]
        demand = pilots.demand(tx, [site.site for site in served])
        known: defaultdict[str, list[Row[Any]]] = defaultdict(list)
        for pilot in pilots.live_pilots(tx, self._host):
            known[pilot.site].append(pilot)
        return [
            errand
            for site in served
            for errand in self._plan(tx, site, known[site.site], demand[site.site])
        ]

    def work(self, errand: Errand) -> Done:
        for attempt in errand.attempts:
            errand.engine.tidy(self._home.work / f"{attempt.pandaid}.{attempt.lock_seq}")
            for endpoint in errand.endpoints:
                self.world.ddm.drop_staging(endpoint, attempt.pandaid, attempt.lock_seq)
        seen = errand.engine.look(errand.known) if errand.seen is None else errand.seen
        idle = [pilot for pilot in errand.superfluous if pilot.pilot_id in seen.waiting]
        if idle:
            errand.engine.cancel(idle)
        sent = Sent()
        if errand.starts:
            sent = errand.engine.submit(self._slot(errand.site), errand.starts)
            self.log.info("pilots sent", site=errand.site.site, number=len(sent.started))
        return Done(seen, sent)

    def apply(self, tx: Connection, results: Sequence[tuple[Errand, Done]]) -> None:
        handles = {k: v for _, d in results for k, v in (d.seen.found | d.sent.started).items()}
        found = {k: Found(v.process, v.batch_id, v.running) for k, v in handles.items()}
        pilots.note_found(tx, found)
        pilots.end_pilots(tx, [pilot for errand, _ in results for pilot in errand.lost], "lost")
        gone = {pilot: end for _, done in results for pilot, end in done.seen.gone.items()}
        losers = self._end_jobs(tx, gone) if gone else set()
        pilots.end_pilots(tx, sorted(losers), "lost", tidy=False)
        ended = {*gone} - losers | {pilot for _, done in results for pilot in done.sent.refused}
        pilots.end_pilots(tx, sorted(ended), "ended")
        for errand, done in results:
            idle = {pilot: end for pilot, end in done.seen.gone.items() if pilot not in losers}
            self._judge(tx, errand.site.site, idle, done.sent.why)
            if done.seen.others:
                done.strays = [Known.of(p) for p in pilots.have_ended(tx, [*done.seen.others])]

    def tidy(self, results: Sequence[tuple[Errand, Done]]) -> None:
        for errand, done in results:
            gone = [pilot for pilot in errand.known if pilot.pilot_id in done.seen.gone]
            refused = [Known(name, 0.0, running=False) for name in done.sent.refused]
            errand.engine.forget(gone + refused)
            if done.strays:
                self.log.warning("pilots go on", pilots=[p.pilot_id for p in done.strays])
                with suppress(EngineError):  # they will be seen again
                    errand.engine.cancel(done.strays)

    def trouble(self, tx: Connection, errand: Errand, error: Exception) -> None:
        # whoever was started all the same ends, since its token is void
        pilots.end_pilots(tx, [start.pilot_id for start in errand.starts], "ended")
        self._wait(tx, self._troubled, errand.site.site, str(error))

    def _plan(
        self, tx: Connection, site: Row[Any], rows: Sequence[Row[Any]], asked: Row[Any]
    ) -> list[Errand]:
        """What is to be done at a site; the engine that it had before may still have pilots."""
        errands = []
        names = {row.engine for row in rows} | ({site.submitter} if site.nslots else set())
        for name in sorted(names):
            try:
                engine = self._engine(name)
            except EngineError as error:
                self._wait(tx, self._troubled, site.site, str(error))
                continue
            if not engine.at_hand and self._due[site.site, name] > clock.monotonic():
                continue
            errand = self._inspect(tx, site, engine, [row for row in rows if row.engine == name])
            if name == site.submitter:
                self._fill(tx, errand, len(rows) - len(errand.lost), asked)
            if errand:
                wait_s = self.world.knobs["submitter.queue_s"]
                self._due[site.site, name] = clock.monotonic() + wait_s
                errands.append(errand)
        return errands

    def _inspect(
        self, tx: Connection, site: Row[Any], engine: Engine, rows: Sequence[Row[Any]]
    ) -> Errand:
        """Gather what is known of the pilots of an engine; look at them if that takes no time."""
        errand = Errand(site, engine, [Known.of(row) for row in rows if row.status != "lost"])
        errand.lost = [row.pilot_id for row in rows if row.status == "lost"]
        if errand.lost:
            errand.attempts = pilots.lost_attempts(tx, errand.lost, LOST)
            errand.endpoints = list(sites.roots(tx))
        if engine.at_hand:
            errand.seen = engine.look(errand.known)
        return errand

    def _fill(self, tx: Connection, errand: Errand, alive: int, asked: Row[Any]) -> None:
        """Take slots for new pilots, or find pilots for which there is nothing to do."""
        knobs, site = self.world.knobs, errand.site
        queued = [pilot for pilot in errand.known if not pilot.running]
        idle = [pilot for pilot in queued if pilot.age_s > knobs["pilot.idle_s"]]
        unused = min(len(idle), surplus(asked.waiting, alive, asked.busy))
        errand.superfluous = sorted(idle, key=lambda pilot: pilot.age_s)[:unused]
        patience = self._starting[site.site]
        if (errand.seen and errand.seen.gone) or patience.until > clock.monotonic():
            return
        first = knobs["submitter.first_pilots"]
        most = ramp(alive, len(queued), first, failing=patience.wait_s > 0)
        number = min(most, how_many(asked.waiting, alive, asked.busy, site.nslots))
        names = [f"{site.site}.{uuid.uuid4().hex[:12]}" for _ in range(number)]
        tokens = {name: users.new_token() for name in names}
        hashes = {name: users.token_hash(token) for name, token in tokens.items()}
        lifetime_s = knobs["submitter.token_s"]
        pilots.insert_pilots(tx, self._host, site.site, site.submitter, hashes, lifetime_s)
        errand.starts = [
            Start(name, token, self._home.payload_account(name)) for name, token in tokens.items()
        ]

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            command_s = self.world.knobs["submitter.command_s"]
            self._engines[name] = engines.make(name, self._home, command_s)
        return self._engines[name]

    def _slot(self, site: Row[Any]) -> Slot:
        knobs, batch = self.world.knobs, site.batch
        listen = knobs["api.listen"]
        url = f"http://{listen}" if listen else f"unix:{self._home.api_socket}"
        walltime_s = site.maxtime + OVERTIME_S if site.maxtime else knobs["submitter.walltime_s"]
        return Slot(
            site=site.site,
            cores=max(site.corecount, 1),
            memory_mb=site.maxrss,
            disk_mb=site.maxwdir,
            max_jobs=knobs["pilot.max_jobs"],
            idle_s=knobs["pilot.idle_s"],
            heartbeat_s=knobs["pilot.heartbeat_s"],
            work=Path(batch.get("work") or self._home.work),
            url=batch.get("url") or url,
            python=batch.get("python") or sys.executable,
            walltime_s=None if site.submitter == engines.LOCAL else walltime_s,
            queue=site.queue,
            attributes=batch.get("attributes", {}),
        )

    def _end_jobs(self, tx: Connection, gone: dict[str, End]) -> set[str]:
        """Fail the jobs of dead pilots; the pilots that had any."""
        jobs = pilots.lock_jobs(tx, list(gone))
        ends = []
        for job in jobs:
            reason = f"Pilot {job.pilot_id} {gone[job.pilot_id].how} while it had this job."
            self.log.warning("pilot lost", pandaid=job.pandaid, reason=reason)
            ends.append(JobEnd(job.pandaid, "failed", LOST, reason, error_source="pilot"))
        jobs_end.end_jobs(tx, ends, self.name)
        return {job.pilot_id for job in jobs}

    def _judge(
        self, tx: Connection, site: str, ended: dict[str, End], refused: EngineError | None
    ) -> None:
        """Send pilots to a site less and less often while it refuses them, or those that had no
        job end in error."""
        answers_again = self._troubled.pop(site, _patience()).wait_s > 0
        failed = [pilot for pilot, end in ended.items() if end.failed]
        if refused:
            self._wait(tx, self._starting, site, str(refused))
        elif failed:
            pilot = failed[0]
            said = local.last_words(self._home.pilot_logs / f"{pilot}.log")
            self._wait(tx, self._starting, site, f"Pilot {pilot} {ended[pilot].how}: {said}")
        elif any(end.failed is False for end in ended.values()) or (
            answers_again and not self._starting[site].wait_s
        ):
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
