"""Backend JEDI: a job is a task, a subjob a unit, an attempt a job of the task. Each verb is one
request.

Source: docs/reference/ganga.md#jobs-on-jedi.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from jedi_client.errors import (
    BadInput,
    JediError,
    NotFound,
    NotReached,
    Problem,
    Refused,
    Unreachable,
)
from jedi_client.gpi import jedi_documents as documents
from jedi_client.gpi.interfaces import (
    Accepted,
    Attempt,
    Document,
    JobState,
    OutputFile,
    Refusals,
    Status,
    Submission,
    UnitState,
)

if TYPE_CHECKING:
    from jedi_client.gpi.backends import JEDI
    from jedi_client.models import SubmittedUnits, UnitOutput, UnitStates, UnitSummary
    from jedi_client.operations import Client
    from jedi_client.profiles import Profile

MOST_MB = 512
"""The service may keep less (knob sandbox.max_mb)."""
_PIECE = 2**20
PAGE = 10_000
"""Rows that the service gives at most."""
CHANGEABLE = ("site", "cores", "memory_mb", "walltime_s", "max_attempts")
"""Options that a resubmission may change."""
PASSING = ("prepared", "passed", "finishing", "aborting")
"""Statuses that an agent of JEDI ends soon; until then units can't run again."""
PASSING_S = 30.0
_PAUSE_S = 0.2
T = TypeVar("T")
_LOST: Mapping[str, Status] = {"aborted": "killed", "broken": "failed", "failed": "failed"}
"""The state of a job that ended before it had units."""
_STATUSES: Mapping[str, Status] = {one: one for one in get_args(Status)}


class _Connection:
    """A connection to a service, and the scope that names of its user's datasets get there."""

    def __init__(self, profile: Profile) -> None:
        from jedi_client.operations import Client

        self.client = Client(profile)

    @cached_property
    def scope(self) -> str:
        return self.client.me_show().task_scope


_KEPT = threading.local()


def _kept(profile: Profile) -> _Connection:
    """The connection of this thread to a service, which all its jobs share: a submission of its own
    one would ask twice as much. Processes that are forked get others."""
    found: dict[tuple[int, Profile], _Connection] = _KEPT.__dict__.setdefault("by_profile", {})
    place = (os.getpid(), profile)
    if place not in found:
        found[place] = _Connection(profile)
    return found[place]


class NotSent(JediError):
    """The service could not be reached: the submission was not sent, and the job is new again."""

    code = "not_sent"


class JediBackend:
    """The backend of one service."""

    bulk = True

    def __init__(self, settings: JEDI) -> None:
        self._settings = settings
        self._known: _Connection | None = None

    @property
    def _client(self) -> Client:
        return self._connection.client

    @property
    def _connection(self) -> _Connection:
        if self._known is None:
            from jedi_client.profiles import chosen

            settings = self._settings
            self._known = _kept(chosen(settings.server or None, settings.profile or None))
        return self._known

    def submit(self, submission: Submission) -> Accepted:
        """Submit a job under its key. Its sandbox is uploaded first, unless JEDI has it. NotSent:
        the request never left, so that no task can follow."""
        packing = documents.Packing(submission)
        units = None if submission.rule else documents.units_of(submission, packing)
        try:
            document, sandbox = self._document(submission, packing), self._upload(packing)
        except Unreachable as error:
            raise NotSent(error.sentence) from error
        try:
            done = self._client.unit_submit(
                document=document,
                units=units,
                key=submission.key,
                sandbox=sandbox,
                keep_going=submission.keep_going,
            )
        except NotReached as error:
            raise NotSent(error.sentence) from error
        return _accepted(done)

    def forecast(self, submission: Submission) -> tuple[int, int]:
        """The numbers of files and subjobs of a job that JEDI cuts by a rule, as of now."""
        document = self._document(submission, documents.Packing(submission))
        document.pop("sandbox", None)  # it is not uploaded yet
        found = self._client.task_plan(text={"text": json.dumps(document), "format": "json"}).plan
        return found.files, found.jobs

    def _document(self, submission: Submission, packing: documents.Packing) -> dict[str, Any]:
        settings = submission.document.get("backend") or {}
        return documents.document_of(submission, settings, self._connection.scope, packing)

    def _upload(self, packing: documents.Packing) -> str | None:
        if not packing.files:
            return None
        from jedi_client.sandbox import pack

        sandbox = pack(packing.files, MOST_MB)
        if not self._client.sandbox_known(sandbox.sha256):
            self._client.sandbox_put(sandbox.sha256, data=sandbox.data)
        return sandbox.sha256

    def page(self, backend_id: str) -> str | None:
        """The service's page of a job's task, for a notebook; None: the service can't be reached,
        or has none."""
        from jedi_client.gpi import fragments

        asked = {"HX-Request": "true", "Accept": "text/html"}
        try:
            place = f"/tasks/{_task(backend_id)}"
            with self._client.request("GET", place, None, asked) as answer:
                kind = answer.getheader("Content-Type") or ""
                html = answer.read(fragments.MOST + 1)
        except (JediError, OSError):
            return None
        if not kind.startswith("text/html") or len(html) > fragments.MOST:
            return None
        return fragments.fitted(html.decode("utf-8", "replace"), self._client.profile.url)

    def settle(self, submission: Submission) -> Accepted | None:
        """Return the task that the key made; None: there is none, and there will be none."""
        found = self._client.unit_settle(key=submission.key)
        return _accepted(found) if found else None

    def states(self, cursors: Mapping[str, str | None]) -> Sequence[JobState]:
        """States of jobs, with the units that changed since their cursors."""
        found: dict[int, UnitStates] = {}
        asked: dict[int, str | None] = {_task(id): cursor for id, cursor in cursors.items()}
        while asked:
            jobs = [{"jedi_task_id": task, "cursor": cursor} for task, cursor in asked.items()]
            page = self._client.unit_states(jobs=jobs, limit=PAGE)
            found |= {one.jedi_task_id: _after(found.get(one.jedi_task_id), one) for one in page}
            asked = {one.jedi_task_id: one.cursor for one in page if one.more}
        return [*map(_state, found.values())]

    def kill(self, backend_id: str, units: Sequence[int] | None) -> Refusals:
        """Kill units; a job without units yet ends with its task."""
        task = _task(backend_id)
        answers = self._client.unit_kill(jedi_task_id=task, unit_nrs=_numbers(units))
        if units is None and not answers:
            [whole] = self._client.task_kill(jedi_task_ids=[task])
            return {} if whole.accepted else {None: whole.sentence}
        return {one.unit_nr - 1: one.sentence for one in answers if not one.accepted}

    def resubmit(self, backend_id: str, units: Sequence[int] | None, options: Document) -> Refusals:
        """Submit units again, with these options; None: all that failed or were killed, else all.
        BadInput: other options can't change."""
        if fixed := [name for name in options if name not in CHANGEABLE]:
            rule = "stays as it was submitted"
            remedy = f"Submit a copy; a resubmission may change {', '.join(CHANGEABLE)}"
            raise BadInput([Problem(f"backend.{one}", options[one], rule, remedy) for one in fixed])
        task = _task(backend_id)
        answers = _settled(
            lambda: self._client.unit_resubmit(
                jedi_task_id=task, unit_nrs=_numbers(units), **options
            )
        )
        if units is None and not any(one.accepted for one in answers):
            return {None: f"Task {task} has no unit that can be submitted again."}
        return {
            one.unit_nr - 1: one.sentence
            for one in answers
            if not one.accepted and units is not None
        }

    def resplit(self, backend_id: str, units: Sequence[int], files: int) -> Refusals:
        """Cut the input of units again; new ones take their places."""
        done = _settled(
            lambda: self._client.unit_resplit(
                jedi_task_id=_task(backend_id), unit_nrs=[k + 1 for k in units], files=files
            )
        )
        return {one.unit_nr - 1: one.sentence for one in done.answers if not one.accepted}

    def attempts(self, backend_id: str, k: int) -> Sequence[Attempt]:
        """The attempts of a unit, from 1 on."""
        task = _task(backend_id)
        found = _paged(
            lambda after: self._client.unit_attempts(task, k + 1, after=after, limit=PAGE),
            lambda one: one.panda_id,
        )
        return [
            Attempt(
                number, one.panda_id, one.status, one.site, one.exit_code, one.started, one.ended
            )
            for number, one in enumerate(found, 1)
        ]

    def log(self, backend_id: str, k: int, attempt: int | None, name: str) -> Iterator[bytes]:
        """Give a log of an attempt (None: the latest); while it runs, its last lines. NotFound."""
        tried = self.attempts(backend_id, k)
        chosen = [one for one in tried if attempt in (None, one.attempt)][-1:]
        if attempt is not None and not chosen:
            raise NotFound(
                f"Subjob {k} has no attempt {attempt}: it has {len(tried)}.", code="no_attempt"
            )
        if name not in ("stdout", "stderr"):
            rule = "is no log of a job on JEDI"
            raise BadInput([Problem("name", name, rule, "Ask for stdout or stderr")])
        for one in chosen:
            try:
                found = self._client.job_log(one.panda_id or 0)
            except NotFound as error:
                if error.code != "nothing_printed":
                    raise
            else:
                yield (found.stdout if name == "stdout" else found.stderr).encode()

    def inputs(self, backend_id: str, k: int) -> list[str]:
        """The input files of a unit. BadInput: it has parts of files."""
        task = _task(backend_id)
        found = _paged(
            lambda after: self._client.unit_inputs(task, k + 1, after=after, limit=PAGE),
            lambda one: one.file_id,
        )
        if cut := next((one for one in found if one.start_event is not None), None):
            rule = f"subjob {k} reads events {cut.start_event} to {cut.end_event} of it"
            remedy = "Copy the job, and set its inputdata and splitter"
            raise BadInput([Problem("inputdata", cut.lfn, rule, remedy)])
        return [documents.file_name(one.dataset, one.lfn) for one in found]

    def outputs(self, backend_id: str) -> Sequence[OutputFile]:
        """The outputs that JEDI keeps, by the names that the job declared."""
        return [
            OutputFile(None if one.unit_nr is None else one.unit_nr - 1, one.name, one.size)
            for one in self._outputs(_task(backend_id))
        ]

    def _outputs(self, task: int) -> list[UnitOutput]:
        return _paged(
            lambda after: self._client.unit_outputs(task, after=after, limit=PAGE),
            lambda one: one.file_id,
        )

    def fetch(self, backend_id: str, files: Sequence[OutputFile], to: Path) -> Sequence[Path]:
        """Bring outputs; files that lie there with their size and adler32 stay."""
        task = _task(backend_id)
        kept = {(one.unit_nr and one.unit_nr - 1, one.name): one for one in self._outputs(task)}
        found = []
        for file in files:
            output = kept.get((file.k, file.name))
            if output is None:
                raise NotFound(
                    f"JEDI keeps no output {file.name} of this subjob.", code="no_output"
                )
            place = to / str(file.k) / "output" if file.k is not None else to / "output"
            target = place / file.name
            if not target.resolve().is_relative_to(place.resolve()):
                why = f"{file.name} would lie outside of the output's folder: it stays in JEDI."
                raise JediError(why, code="bad_output_name")
            found.append(self._bring(task, output, target))
        return found

    def _bring(self, task: int, output: UnitOutput, to: Path) -> Path:
        known = to.is_file() and output.size in (None, to.stat().st_size)
        if known and output.adler32 in (None, _adler32(to)):
            return to
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(f".{to.name}.part")
        with self._client.file_content(task, output.file_id) as content, part.open("wb") as file:
            while piece := content.read(_PIECE):
                file.write(piece)
        if output.adler32 and _adler32(part) != output.adler32:
            raise JediError(
                f"{output.name} came with another adler32: fetch it again.", code="bad_checksum"
            )
        part.replace(to)
        return to

    def remove(self, backend_id: str) -> None:
        """Let JEDI remove the outputs of a job that has ended."""
        _settled(lambda: self._client.task_clean(_task(backend_id)), (*PASSING, "running"))


def _paged(ask: Callable[[int], list[T]], key: Callable[[T], int]) -> list[T]:
    """All rows of a list that comes in pages after a key."""
    page = ask(0)
    found = [*page]
    while len(page) == PAGE:
        page = ask(key(page[-1]))
        found += page
    return found


def _settled(ask: Callable[[], T], statuses: Sequence[str] = PASSING) -> T:
    """The answer of JEDI, once the task has left these statuses between its last job and its end.
    All its units have ended by then, so that people see an ended job. Refused: it stays there."""
    until = time.monotonic() + PASSING_S
    while True:
        try:
            return ask()
        except Refused as error:
            passing = error.code == "wrong_status" and error.facts.get("status") in statuses
            if not passing or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)


def _task(backend_id: str) -> int:
    return int(backend_id)


def _numbers(units: Sequence[int] | None) -> list[int] | None:
    return None if units is None else [k + 1 for k in units]


def _accepted(found: SubmittedUnits) -> Accepted:
    refused = {one.unit_nr - 1: one.reason for one in found.refused}
    return Accepted(str(found.jedi_task_id), refused)


def _state(one: UnitStates) -> JobState:
    counts: dict[Status, int] = {_STATUSES[name]: n for name, n in one.counts.items()}
    if not counts and one.status in _LOST:
        counts = {_LOST[one.status]: 1}
    return JobState(
        str(one.jedi_task_id),
        one.status,
        [*map(_unit, one.units)],
        counts,
        one.complete,
        one.cursor,
        one.reason,
    )


def _after(known: UnitStates | None, page: UnitStates) -> UnitStates:
    """The states of a task in two pages after one another."""
    if known is None:
        return page
    return replace(page, counts=page.counts or known.counts, units=[*known.units, *page.units])


def _unit(one: UnitSummary) -> UnitState:
    return UnitState(
        one.unit_nr - 1,
        _STATUSES[one.state],
        one.attempts,
        one.panda_id,
        one.site,
        one.exit_code,
        one.reason,
        one.superseded,
    )


def _adler32(path: Path) -> str:
    value: Any = 1
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            value = zlib.adler32(piece, value)
    return f"{value:08x}"
