"""The door of the room: sends pilots to the sites, by whatever engine runs them there, and notices
when they die."""

from __future__ import annotations

import socket
import uuid
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict

from sqlalchemy import Connection

from jedi.agent.base import Agent, World
from jedi.core import clock, states
from jedi.core.backoff import Backoff
from jedi.core.errors import JediError
from jedi.host.home import Home
from jedi.submitter import engines, local
from jedi.submitter.interface import Engine, EngineError, KnownPilot, PilotEnd, Slot, Start
from jedi.submitter.plan import SlotDemand, deal, idle, ramp
from jedi.submitter.shapes import Shape, shapes
from jedi.submitter.site_visit import SiteVisit, VisitResult
from jedi.submitter.slots import slot_of
from jedi.taskbuffer.db.engine import notifying
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.sites import pilots, sites
from jedi.taskbuffer.sites.pilots import PilotRow, ServedSite, SlotJobs
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskbuffer.users import users

SlotRequest = tuple[Shape, SlotJobs]
"""A shape of a site's slots, and its row of pilots.demand."""

LOST = ("lost_pilot", "lost_node")
LONGEST_WAIT_S = 60.0
AT_ONCE = 8
"""Sites of one batch system that are served at the same time."""

PATIENCE_S = 1.0
"""Longest wait for a batch system; a later cycle reads its answer."""


class Submitter(Agent[SiteVisit, VisitResult]):
    """Keeps as many pilots at a site as it has waiting jobs and slots.

    The rows of jedi_pilots come first: a pilot is noted, then started, then its process or batch
    job is noted; after a crash the pilot's name leads to the rest. Pilots outlive the submitter:
    the next one takes them over.
    """

    name = "Submitter"
    wakes = frozenset({"job:activated"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._home = Home(world.settings.home)
        self._host = socket.gethostname()
        self._engines: dict[str, Engine] = {}
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._out: list[SiteVisit] = []
        self._due: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._troubled: defaultdict[str, Backoff] = defaultdict(_patience)
        self._starting: defaultdict[tuple[str, str], Backoff] = defaultdict(_patience)

    def knobs_changed(self) -> None:
        for waits in (self._due, self._troubled, self._starting):
            waits.clear()

    @property
    def poll_s(self) -> float:
        """Pilots are looked after this often, however seldom agents poll. Without any, calls of
        waiting jobs are enough, and a look finds only missed ones."""
        least = PATIENCE_S if self._out else float(self.world.knobs.submitter.check_s)
        if self.waits or not notifying():
            return min(super().poll_s, least)
        return max(super().poll_s, least)

    def waiting(self, tx: Connection) -> bool:
        return bool(self._out) or pilots.ANY_TO_SERVE.value(tx, host=self._host)

    def claim(self, tx: Connection, limit: int) -> list[SiteVisit]:
        now = clock.monotonic()
        pilots.RENEW_TOKENS.run(tx, host=self._host, life=self.world.knobs.submitter.token_s)
        served = [
            s
            for s in pilots.SERVE.rows(tx, host=self._host, limit=limit)
            if self._troubled[s.site].until <= now
        ]
        demand = self._demand(tx, served)
        known: defaultdict[str, list[PilotRow]] = defaultdict(list)
        for pilot in pilots.LIVE_PILOTS.rows(tx, host=self._host):
            known[pilot.site].append(pilot)
        planned = [
            visit
            for site in served
            for visit in self._plan(tx, site, known[site.site], demand[site.site])
        ]
        answered = [visit for visit in self._out if visit.answer and visit.answer.done()]
        self._out = [visit for visit in self._out if visit not in answered]
        return answered + planned

    def work(self, visit: SiteVisit) -> VisitResult:
        return visit.answer.result() if visit.answer else self._do(visit)

    def apply(self, tx: Connection, results: Sequence[tuple[SiteVisit, VisitResult]]) -> None:
        handles = {k: v for _, done in results for k, v in done.found().items()}
        found = {
            k: pilots.PilotSighting(v.process, v.batch_id, v.running) for k, v in handles.items()
        }
        pilots.note_found(tx, found)
        pilots.END_PILOTS.run(
            tx,
            status="lost",
            ids=[pilot for visit, _ in results for pilot in visit.lost],
            tidy=True,
        )
        gone = {pilot: end for _, done in results for pilot, end in done.seen.gone.items()}
        losers = self._end_jobs(tx, gone) if gone else set()
        pilots.END_PILOTS.run(tx, status="lost", ids=sorted(losers), tidy=False)
        ended = {*gone} - losers | {pilot for _, done in results for pilot in done.refused()}
        pilots.END_PILOTS.run(tx, status="ended", ids=sorted(ended), tidy=True)
        failed = [pilot for pilot, end in gone.items() if end.failed and pilot not in losers]
        blameless = losers | pilots.have_worked(tx, failed)  # their site does run pilots
        for visit, done in results:
            self._judge(tx, visit, done, blameless)
            if done.seen.others:
                done.strays = [
                    KnownPilot.of(p) for p in pilots.HAVE_ENDED.rows(tx, names=[*done.seen.others])
                ]

    def tidy(self, results: Sequence[tuple[SiteVisit, VisitResult]]) -> None:
        for visit, done in results:
            gone = [pilot for pilot in visit.known if pilot.pilot_id in done.seen.gone]
            refused = [KnownPilot(name, 0.0, running=False) for name in done.refused()]
            visit.engine.forget(gone + refused)
            if done.strays:
                self.log.warning("pilots go on", pilots=[p.pilot_id for p in done.strays])
                # if it fails they will be seen again
                self._pool(visit.name).submit(visit.engine.cancel, done.strays)

    def trouble(self, tx: Connection, visit: SiteVisit, error: Exception) -> None:
        # whoever was started all the same ends, since its token is void
        started = [start.pilot_id for _, starts in visit.orders for start in starts]
        pilots.END_PILOTS.run(tx, status="ended", ids=started, tidy=True)
        self._wait(tx, self._troubled[visit.site.site], visit.site.site, str(error))

    def _work_all(self, items: Sequence[SiteVisit]) -> list[tuple[SiteVisit, VisitResult]]:
        """All batch systems are asked at once. Who is late is heard in a later cycle, so that one
        that hangs holds up its own sites alone."""
        for visit in items:
            if visit.answer is None and not visit.engine.at_hand:
                visit.answer = self._pool(visit.name).submit(self._do, visit)
        late = wait([visit.answer for visit in items if visit.answer], PATIENCE_S).not_done
        self._out += [visit for visit in items if visit.answer in late]
        return super()._work_all([visit for visit in items if visit.answer not in late])

    def _do(self, visit: SiteVisit) -> VisitResult:
        for attempt in visit.attempts:
            visit.engine.tidy(self._home.work / f"{attempt.panda_id}.{attempt.lock_seq}")
            for endpoint in visit.endpoints:
                try:
                    self.world.ddm.drop_staging(endpoint, attempt.panda_id, attempt.lock_seq)
                except (JediError, OSError) as error:  # the dog `sweep` tries it again
                    self.log.warning("left behind", endpoint=endpoint, error=str(error))
        seen = visit.engine.look(visit.known) if visit.seen is None else visit.seen
        idle = [pilot for pilot in visit.superfluous if pilot.pilot_id in seen.waiting]
        if idle:
            visit.engine.cancel(idle)
        sent = {}
        for slot, starts in visit.orders:
            sent[slot.shape.name] = given = visit.engine.submit(slot, starts)
            self.log.info(
                "pilots sent",
                site=slot.site,
                number=len(given.started),
                resource_type=slot.shape.name,
            )
        return VisitResult(seen, sent)

    def _demand(self, tx: Connection, served: Sequence[ServedSite]) -> dict[str, list[SlotRequest]]:
        """By site, the shapes of its slots with the jobs that wait for them."""
        types = new_tasks.RESOURCE_TYPES.rows(tx)
        factor = self.world.knobs.broker.memory_factor
        shaped = {site.site: shapes(site, types, factor) for site in served}
        most = {site.site: site.n_slots * max(site.core_count, 1) for site in served}
        demand = pilots.demand(
            tx,
            [
                {"site": site, **asdict(shape), "most": most[site] // shape.cores}
                for site, some in shaped.items()
                for shape in some
            ],
        )
        return {
            site: [(shape, demand[site, shape.name]) for shape in some]
            for site, some in shaped.items()
        }

    def _plan(
        self,
        tx: Connection,
        site: ServedSite,
        rows: Sequence[PilotRow],
        asked: Sequence[SlotRequest],
    ) -> list[SiteVisit]:
        """Return the plan for a site; its previous engine may still have pilots."""
        visits = []
        names = {row.engine for row in rows} | ({site.submitter} if site.n_slots else set())
        for name in sorted(names):
            try:
                engine = self._engine(name)
            except (EngineError, OSError) as error:  # its directory may be full, or not ours
                self._wait(tx, self._troubled[site.site], site.site, str(error))
                continue
            out = any((e.site.site, e.name) == (site.site, name) for e in self._out)
            if out or (not engine.at_hand and self._due[site.site, name] > clock.monotonic()):
                continue
            own = [row for row in rows if row.engine == name]
            visit = self._inspect(tx, SiteVisit(site, name, engine), own)
            if name == site.submitter:
                alive = [row for row in rows if row.pilot_id not in visit.lost]
                self._fill(tx, visit, alive, asked)
            if visit:
                wait_s = self.world.knobs.submitter.queue_s
                self._due[site.site, name] = clock.monotonic() + wait_s
                visits.append(visit)
        return visits

    def _inspect(self, tx: Connection, visit: SiteVisit, rows: Sequence[PilotRow]) -> SiteVisit:
        """Gather the states of an engine's pilots; look at them if that takes no time."""
        visit.known = [KnownPilot.of(row) for row in rows if row.status != "lost"]
        visit.lost = [row.pilot_id for row in rows if row.status == "lost"]
        if visit.lost:
            visit.attempts = pilots.LOST_ATTEMPTS.rows(tx, ids=visit.lost, codes=LOST)
            visit.endpoints = list(dict(sites.ROOTS.rows(tx)))
        if visit.engine.at_hand:
            visit.seen = visit.engine.look(visit.known)
        return visit

    def _fill(
        self,
        tx: Connection,
        visit: SiteVisit,
        alive: Sequence[PilotRow],
        asked: Sequence[SlotRequest],
    ) -> None:
        """Take slots for new pilots, or find pilots for which there is nothing to do."""
        site, whole = visit.site, max(visit.site.core_count, 1)
        wants = [self._want(site.site, shape, row.waiting, alive) for shape, row in asked]
        spare = idle(wants, max((row.busy for _, row in asked), default=0))
        idle_s = self.world.knobs.pilot.idle_s
        for (shape, row), free in zip(asked, spare, strict=True):
            visit.superfluous += visit.unused(shape.name, free - row.waiting, idle_s)
        if visit.seen and visit.seen.gone:
            return
        cores = {shape.name: shape.cores for shape, _ in asked}
        taken = sum(cores.get(row.resource_type, whole) for row in alive)
        numbers = deal(wants, spare, site.n_slots * whole - taken)
        for (shape, _), number in zip(asked, numbers, strict=True):
            if number:
                visit.orders.append(self._order(tx, site, shape, number))

    def _want(self, site: str, shape: Shape, waiting: int, alive: Sequence[PilotRow]) -> SlotDemand:
        own = [row.status for row in alive if row.resource_type == shape.name]
        queued, patience = own.count("submitted"), self._starting[site, shape.name]
        first = self.world.knobs.submitter.first_pilots
        most = ramp(len(own), queued, first, failing=patience.wait_s > 0)
        paused = patience.until > clock.monotonic()
        return SlotDemand(shape.cores, waiting, len(own), queued, most=0 if paused else most)

    def _order(
        self, tx: Connection, site: ServedSite, shape: Shape, number: int
    ) -> tuple[Slot, list[Start]]:
        """Note new pilots, with their tokens."""
        names = [f"{site.site}.{uuid.uuid4().hex[:12]}" for _ in range(number)]
        tokens = {name: users.new_token() for name in names}
        hashes = {name: users.token_hash(token) for name, token in tokens.items()}
        lifetime_s = self.world.knobs.submitter.token_s
        pilots.insert_pilots(
            tx, self._host, site.site, site.submitter, hashes, lifetime_s, shape.name
        )
        account = self._home.payload_account
        starts = [Start(name, token, account(name)) for name, token in tokens.items()]
        return slot_of(site, shape, self.world.knobs, self._home), starts

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            command_s = self.world.knobs.submitter.command_s
            self._engines[name] = engines.make(name, self._home, command_s)
        return self._engines[name]

    def _pool(self, name: str) -> ThreadPoolExecutor:
        return self._pools.setdefault(name, ThreadPoolExecutor(AT_ONCE, name))

    def _end_jobs(self, tx: Connection, gone: dict[str, PilotEnd]) -> set[str]:
        """Fail the jobs of dead pilots, but for consumers, which may have processed events; the
        pilots that had any."""
        jobs = pilots.lock_jobs(tx, list(gone))
        ends = []
        for job in jobs:
            known = gone[job.pilot_id]
            reason = f"Pilot {job.pilot_id} {known.how} while it had this job."
            self.log.warning("pilot lost", panda_id=job.panda_id, reason=reason)
            ends.append(
                job_ends.JobEnd(job.panda_id, "failed", known.code, reason, job.lock_seq, "pilot")
            )
        consumers = {job.panda_id for job in jobs if job.kind in states.CONSUMER_KINDS}
        job_ends.end_lost(tx, ends, consumers, self.name)
        return {job.pilot_id for job in jobs}

    def _judge(
        self, tx: Connection, visit: SiteVisit, done: VisitResult, blameless: set[str]
    ) -> None:
        """Send pilots of a shape to a site less and less often while it refuses them, or idle ones
        end in error."""
        site, bad, well = visit.site.site, {}, set()
        for pilot in visit.known:
            end = done.seen.gone.get(pilot.pilot_id)
            if end is None or pilot.pilot_id in blameless:
                continue
            if end.failed is False:
                well.add(pilot.resource_type)
            elif end.failed and pilot.resource_type not in bad:
                last_words = local.last_words(self._home.pilot_logs / f"{pilot.pilot_id}.log")
                bad[pilot.resource_type] = f"Pilot {pilot.pilot_id} {end.how}: {last_words}"
        bad |= {kind: str(sent.why) for kind, sent in done.sent.items() if sent.why}
        for kind, reason in bad.items():
            self._wait(tx, self._starting[site, kind], site, reason)
        mended = [self._starting.pop((site, kind), None) for kind in well - bad.keys()]
        answers_again = self._troubled.pop(site, _patience()).wait_s > 0
        waits = any(one.wait_s for (name, _), one in self._starting.items() if name == site)
        if (mended or answers_again) and not waits:
            pilots.note_trouble(tx, site, None)

    def _wait(self, tx: Connection, backoff: Backoff, site: str, reason: str) -> None:
        backoff.failed(clock.monotonic())
        facts = {"reason": reason, "wait_s": backoff.wait_s}
        self.log.warning("waiting", site=site, **facts)
        pilots.note_trouble(tx, site, facts)


def _patience() -> Backoff:
    return Backoff(LONGEST_WAIT_S)
