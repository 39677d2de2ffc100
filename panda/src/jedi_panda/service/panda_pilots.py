"""Jobs for pilots of PanDA, and their updates: calls of `pilot_requests`, plus the exchange of
files, since these pilots neither copy from datasets nor know directories of attempts.

JEDI moves files outside of transactions. A crash between the two leaves an attempt whose outputs
lie in its staging directory: its pilot's next update finds them there.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine

from jedi.core import clock
from jedi.core.errors import JediError
from jedi.core.knobs import Knobs
from jedi.ddm import exchange
from jedi.ddm.exchange import AttemptExchange
from jedi.ddm.interface import DDM
from jedi.model.jobs.attempt import HeldJob, JobFile
from jedi.model.jobs.event_texts import PIECES
from jedi.model.jobs.wire import (
    AcquireRequest,
    Beat,
    LogEntry,
    Measures,
    Report,
    StagedOutput,
    UnusableInput,
)
from jedi.service.pilots import pilot_requests
from jedi.service.pilots.pilot_requests import Answer, Orders, pilot_site
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.jobs import dispatch, panda_attempts
from jedi.taskbuffer.jobs.dispatch import BEGINS
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.sites import panda_queues
from jedi.taskbuffer.users.users import Identity

TRIES = 5
"""Jobs that one call may take in vain: each of them fails, since no pilot of PanDA can run it."""

KNOWN_MOST = 100_000
FRESH_S = 30.0

PilotCommand = Literal["none", "kill", "hold"]


@dataclass(frozen=True, slots=True)
class GivenJob:
    """A job with its form on JEDI's wire, and the exchange directories of its files."""

    job: HeldJob
    order: Answer
    inputs: AttemptExchange
    outputs: AttemptExchange


@dataclass(frozen=True, slots=True)
class ReportedFile:
    """An output as its pilot reports it; None: it does not say."""

    size: int | None
    adler32: str | None
    guid: str | None


@dataclass(frozen=True, slots=True)
class PilotUpdate:
    """An update of a job. `lock_seq` None: the pilot does not say which attempt it has.
    `failure`: JEDI's code and a sentence."""

    panda_id: int
    lock_seq: int | None
    state: Literal["starting", "running", "finished", "failed"]
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    failure: tuple[str, str] | None = None
    stdout: str | None = None
    measures: Measures = field(default_factory=Measures)
    files: Mapping[str, ReportedFile] = field(default_factory=dict)
    metadata: Mapping[str, str | bool | int | float] = field(default_factory=dict)


class PilotMemory:
    """Memory of a process: attempts whose start the database knows, and where sites write."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, int], None] = {}
        self._writes: dict[str, tuple[float, str | None]] = {}
        self._lock = threading.Lock()

    def runs(self, attempt: tuple[int, int]) -> bool:
        """Return True if the database knows that the attempt runs."""
        return attempt in self._running

    def note_running(self, attempt: tuple[int, int]) -> None:
        """Remember that it does."""
        with self._lock:
            while len(self._running) >= KNOWN_MOST:
                del self._running[next(iter(self._running))]
            self._running[attempt] = None

    def forget(self, attempt: tuple[int, int]) -> None:
        """Its next update is a report again."""
        with self._lock:
            self._running.pop(attempt, None)

    def endpoint(self, engine: Engine, site: str) -> str | None:
        """The endpoint whose exchange directory has the inputs of a site's jobs."""
        until, found = self._writes.get(site, (0.0, None))
        if clock.monotonic() >= until:
            with at_once(engine) as tx:
                queue = panda_queues.QUEUE.row(tx, site=site)
            found = next(iter(queue.writes), None) if queue else None
            self._writes[site] = (clock.monotonic() + FRESH_S, found)
        return found


# ------------------------------------------------------------------------------------- getJob


def give(
    engine: Engine,
    ddm: DDM,
    knobs: Knobs,
    who: Identity,
    request: AcquireRequest,
    memory: PilotMemory,
    anew: Callable[[], DDM],
    first_waiting: DispatchCache,
    taken: Orders | None = None,
) -> list[GivenJob]:
    """Return jobs for a slot, their inputs linked and the directories of their outputs made; first
    those that are `taken` already. A job that no pilot of PanDA can run fails with the reason, and
    the next one is taken."""
    given: list[GivenJob] = []
    for number in range(TRIES):
        ask = request.model_copy(
            update={"request_id": f"{request.request_id}.{number}", "n": request.n - len(given)}
        )
        if taken is None:
            taken = pilot_requests.take(engine, ddm, knobs, who, ask, anew, first_waiting)
        ends = []
        for job, order in taken:
            try:
                given.append(_prepared(engine, ddm, job, order, memory))
            except (_Unfit, JediError, OSError) as error:
                ends.append(failed(job, error))
        taken = None
        if not ends:
            break
        with engine.begin() as tx:
            dispatch.accept_reports(tx, pilot_site(who), ends)
    return given


class _Unfit(Exception):
    """A job that can't be given: JEDI's code, the sentence, and inputs that are not usable."""

    def __init__(self, code: str, sentence: str, *bad: UnusableInput) -> None:
        super().__init__(sentence)
        self.code, self.sentence, self.bad = code, sentence, bad


def _prepared(
    engine: Engine, ddm: DDM, job: HeldJob, order: Answer, memory: PilotMemory
) -> GivenJob:
    if PIECES in (job.texts or {}):
        raise _Unfit("panda_unfit", "Pilots of PanDA can't fetch the pieces of a merge of events.")
    if commas := [file.lfn for file in job.files if "," in file.lfn]:
        raise _Unfit(
            "panda_unfit",
            f"Pilots of PanDA take no file name with a comma: {', '.join(commas[:3])}. Rename it.",
        )
    _must_lie_there(order["inputs"])
    home = memory.endpoint(engine, job.site) or job.site_endpoint
    found = GivenJob(job, order, _exchange(ddm, home, job), _exchange(ddm, job.site_endpoint, job))
    paths = {one["lfn"]: one["path"] for one in order["inputs"]}
    if paths:
        found.inputs.prepare(paths, ())
    found.outputs.prepare({}, [file.lfn for file in _products(job)])
    return found


def _products(job: HeldJob) -> list[JobFile]:
    return [file for file in job.files if file.type in ("output", "log")]


def _exchange(ddm: DDM, endpoint: str, job: HeldJob) -> AttemptExchange:
    return AttemptExchange(Path(ddm.exchange_where(endpoint)), job.panda_id, job.lock_seq)


def _must_lie_there(inputs: Sequence[Answer]) -> None:
    """Pilots of PanDA follow a link wherever it leads, and to nowhere. An input that the task
    itself names is not looked at: its payload's rights count, not ours."""
    bad = [*_unusable(inputs)]
    if bad:
        said = " ".join(sentence for _, sentence in bad[:5])
        code = "stagein_missing" if bad[0][0].problem == "missing" else "stagein_size"
        raise _Unfit(code, said, *(one for one, _ in bad))


def _unusable(inputs: Sequence[Answer]) -> Iterator[tuple[UnusableInput, str]]:
    for one in inputs:
        if one["size"] is None:
            continue
        lfn = one["lfn"]
        try:
            size = Path(one["path"]).stat().st_size
        except FileNotFoundError:
            said = f"Input {lfn} is not at {one['path']}."
            yield UnusableInput(lfn=lfn, problem="missing"), said
        else:
            if size != one["size"]:
                said = f"Input {lfn} has {size} bytes, the catalogue lists {one['size']}."
                yield UnusableInput(lfn=lfn, problem="broken"), said


def failed(job: HeldJob, error: _Unfit | JediError | OSError) -> Report:
    """Return the end of a job that no pilot of PanDA can run."""
    code, said = "stagein_failed", str(error)
    bad: Sequence[UnusableInput] = ()
    if isinstance(error, _Unfit):
        code, said, bad = error.code, error.sentence, error.bad
    elif isinstance(error, JediError):
        code, said = error.code, error.sentence
    return Report(
        pandaid=job.panda_id,
        lock_seq=job.lock_seq,
        status="failed",
        error_code=code,
        error_diag=said,
        bad_inputs=list(bad),
    )


# ---------------------------------------------------------------------------------- updateJob


Confirm = Callable[[Connection], Identity]
"""Return the present identity of a caller."""


def update(
    engine: Engine, ddm: DDM, confirm: Confirm, said: PilotUpdate, memory: PilotMemory
) -> PilotCommand:
    """Record an update; return the command for the pilot. A repeated one changes nothing. An
    attempt that the job does not have any more is to be killed."""
    attempt = (said.panda_id, said.lock_seq or 0)
    if said.state in BEGINS and memory.runs(attempt):
        with at_once(engine) as tx:  # nine calls of ten
            return command_of(pilot_requests.heartbeat(tx, confirm(tx), [beat_of(attempt, said)]))
    with at_once(engine) as tx:
        who = confirm(tx)
    if said.lock_seq is None:
        with at_once(engine) as tx:
            standing = panda_attempts.standings(tx, pilot_site(who), [said.panda_id]).get(
                said.panda_id
            )
        if standing is None:
            return "kill"
        attempt = (said.panda_id, standing.lock_seq)
    if said.state in BEGINS:
        return _alive(engine, who, attempt, said, memory)
    return _ended(engine, ddm, who, attempt, said, memory)


def _alive(
    engine: Engine,
    who: Identity,
    attempt: tuple[int, int],
    said: PilotUpdate,
    memory: PilotMemory,
) -> PilotCommand:
    """A report, and a heartbeat."""
    panda_id, lock_seq = attempt
    with engine.begin() as tx:
        stands = stands_of(pilot_requests.report(tx, who, [begin_of(attempt, said)]))
        if stands is None:
            return "kill"
        command = command_of(pilot_requests.heartbeat(tx, who, [beat_of(attempt, said)]))
        if said.stdout:
            entry = LogEntry(pandaid=panda_id, lock_seq=lock_seq, stdout_tail=said.stdout)
            pilot_requests.log(tx, who, [entry])
    if stands == "running":
        memory.note_running(attempt)
    return command


def begin_of(attempt: tuple[int, int], said: PilotUpdate) -> Report:
    """Return the report that an attempt begins."""
    panda_id, lock_seq = attempt
    status: Literal["starting", "running"] = "starting" if said.state == "starting" else "running"
    return Report(pandaid=panda_id, lock_seq=lock_seq, status=status, started_at=said.started_at)


def beat_of(attempt: tuple[int, int], said: PilotUpdate) -> Beat:
    """Return the heartbeat of an update."""
    panda_id, lock_seq = attempt
    return Beat(pandaid=panda_id, lock_seq=lock_seq, measures=said.measures)


def stands_of(answer: Answer) -> str | None:
    """Return what stands of the attempt in the answer to one report; None: it is not wanted."""
    found: str | None = answer["results"][0]["stands"]
    return found


def command_of(answer: Answer) -> PilotCommand:
    """Return the command in the answer to one heartbeat."""
    found: PilotCommand = answer["commands"][0]["command"]
    return found


def _ended(
    engine: Engine,
    ddm: DDM,
    who: Identity,
    attempt: tuple[int, int],
    said: PilotUpdate,
    memory: PilotMemory,
) -> PilotCommand:
    end = end_of(engine, ddm, lambda _tx: who, attempt, said, memory)
    with engine.begin() as tx:
        stands = stands_of(pilot_requests.report(tx, who, [end.report]))
    for place in end.places:
        drop_exchange(place)
    return "kill" if stands is None else "none"


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """The last report of an attempt whose outputs are collected; its exchange directories go after
    that report."""

    report: Report
    places: Sequence[AttemptExchange]


def end_of(
    engine: Engine,
    ddm: DDM,
    confirm: Confirm,
    attempt: tuple[int, int],
    said: PilotUpdate,
    memory: PilotMemory,
) -> AttemptEnd:
    """Collect the outputs of an attempt that ended."""
    memory.forget(attempt)
    panda_id, lock_seq = attempt
    with at_once(engine) as tx:
        site = pilot_site(confirm(tx))
        wanted = panda_attempts.to_collect(tx, site, panda_id, lock_seq)
    if not wanted:
        return AttemptEnd(_last_report(attempt, said, said.failure, ()), ())
    endpoint, files = wanted
    roots = {
        one: Path(ddm.exchange_where(one))
        for one in (endpoint, memory.endpoint(engine, site) or endpoint)
    }
    target = Path(ddm.staging_where(endpoint, panda_id, lock_seq))
    place = AttemptExchange(roots[endpoint], panda_id, lock_seq)
    outputs, wrong = _collected(place, target, files, said)
    report = _last_report(attempt, said, said.failure or wrong, outputs)
    return AttemptEnd(
        report, [AttemptExchange(root, panda_id, lock_seq) for root in roots.values()]
    )


def drop_exchange(place: AttemptExchange) -> None:
    """Remove an attempt's exchange directory; Sweep does so if this fails."""
    with suppress(OSError):
        shutil.rmtree(place.root / place.name)


def _collected(
    place: AttemptExchange, target: Path, files: Sequence[JobFile], said: PilotUpdate
) -> tuple[list[StagedOutput], tuple[str, str] | None]:
    """Move the outputs of a good job, and the log of any, into the attempt's staging directory;
    the first thing that is wrong with them."""
    wrong: tuple[str, str] | None = None
    outputs = []
    for file in files:
        if file.type != "log" and said.state != "finished":
            continue
        try:
            found = _collect_one(place, target, file.lfn, said.files.get(file.lfn))
        except JediError as error:
            wrong = wrong or (error.code, error.sentence)
            continue
        except OSError as error:
            sentence = f"Output {file.lfn} could not be stored: {error.strerror}."
            wrong = wrong or ("stageout_failed", sentence)
            continue
        if found:
            outputs.append(found)
    return outputs, wrong if said.state == "finished" else None


def _collect_one(
    place: AttemptExchange, target: Path, lfn: str, reported: ReportedFile | None
) -> StagedOutput | None:
    exchange.make_staging(target)
    found = place.collect(lfn, target)
    if found is None:
        if reported:
            raise exchange.missing_output(lfn, place.output_path(lfn))
        return None
    if reported and reported.size not in (None, found.size):
        said = f"Output {lfn} has {found.size} bytes, not {reported.size} as its pilot reports."
        raise JediError(said, code="size_differs")
    if reported and reported.adler32 not in (None, found.adler32):
        said = f"Output {lfn} has adler32 {found.adler32}, not {reported.adler32} as reported."
        raise JediError(said, code="stageout_failed")
    guid = (reported.guid if reported else None) or str(uuid.uuid4())
    return StagedOutput(lfn=lfn, size=found.size, adler32=found.adler32, guid=guid)


def _last_report(
    attempt: tuple[int, int],
    said: PilotUpdate,
    failure: tuple[str, str] | None,
    outputs: Sequence[StagedOutput],
) -> Report:
    panda_id, lock_seq = attempt
    code, sentence = failure or (None, None)
    status: Literal["finished", "failed", "cancelled"] = "finished" if code is None else "failed"
    if code == "killed":
        status = "cancelled"
    return Report(
        pandaid=panda_id,
        lock_seq=lock_seq,
        status=status,
        started_at=said.started_at,
        ended_at=said.ended_at,
        exit_code=said.exit_code,
        error_code=code,
        error_diag=sentence,
        stderr_tail=None,
        measures=said.measures,
        outputs=list(outputs),
        metadata=dict(said.metadata),
    )


# ------------------------------------------------------------------------------------ getStatus


def statuses(tx: Connection, who: Identity, panda_ids: Sequence[int]) -> list[tuple[str, int]]:
    """Return the status and the number of the attempt of each job; jobs of other sites are
    `notfound`."""
    found = panda_attempts.standings(tx, pilot_site(who), panda_ids)
    return [
        (found[one].status, found[one].lock_seq) if one in found else ("notfound", 0)
        for one in panda_ids
    ]
