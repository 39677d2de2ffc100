"""Backend JEDI: a job is a task, a subjob a unit, an attempt a job of the task. Each verb is one
request.

Source: docs/reference/ganga.md#jobs-on-jedi.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from jedi_client.errors import BadInput, JediError, NotFound, Problem
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

MOST_MB = 512
"""The service may keep less (knob sandbox.max_mb)."""
_PIECE = 2**20
_LOST: Mapping[str, Status] = {"aborted": "killed", "broken": "failed", "failed": "failed"}
"""The state of a job that ended before it had units."""
_STATUSES: Mapping[str, Status] = {one: one for one in get_args(Status)}


class JediBackend:
    """The backend of one service."""

    bulk = True

    def __init__(self, settings: JEDI) -> None:
        self._settings = settings
        self._known: Client | None = None
        self._scope: str | None = None

    @property
    def _client(self) -> Client:
        if self._known is None:
            from jedi_client.operations import Client
            from jedi_client.profiles import chosen

            settings = self._settings
            self._known = Client(chosen(settings.server or None, settings.profile or None))
        return self._known

    def submit(self, submission: Submission) -> Accepted:
        """Submit a job under its key. Its sandbox is uploaded first, unless JEDI has it."""
        if self._scope is None:
            self._scope = self._client.me_show().task_scope
        packing = documents.Packing(submission)
        units = None if submission.rule else documents.units_of(submission.units, packing)
        settings = submission.document.get("backend") or {}
        document = documents.document_of(submission, settings, self._scope, packing)
        done = self._client.unit_submit(
            document=document, units=units, key=submission.key, sandbox=self._upload(packing),
            keep_going=submission.keep_going,
        )  # fmt: skip
        return _accepted(done)

    def _upload(self, packing: documents.Packing) -> str | None:
        if not packing.files:
            return None
        from jedi_client.sandbox import pack

        sandbox = pack(packing.files, MOST_MB)
        if not self._client.sandbox_known(sandbox.sha256):
            self._client.sandbox_put(sandbox.sha256, data=sandbox.data)
        return sandbox.sha256

    def settle(self, submission: Submission) -> Accepted | None:
        """Return the task that the key made; None: there is none, and there will be none."""
        found = self._client.unit_settle(key=submission.key)
        return _accepted(found) if found else None

    def states(self, cursors: Mapping[str, str | None]) -> Sequence[JobState]:
        """States of jobs, with the units that changed since their cursors."""
        asked = [{"jedi_task_id": _task(id), "cursor": cursor} for id, cursor in cursors.items()]
        if not asked:
            return []
        return [_state(one) for one in self._client.unit_states(jobs=asked)]

    def kill(self, backend_id: str, units: Sequence[int] | None) -> Refusals:
        """Kill units; a job without units yet ends with its task."""
        task = _task(backend_id)
        answers = self._client.unit_kill(jedi_task_id=task, unit_nrs=_numbers(units))
        if units is None and not answers:
            [whole] = self._client.task_kill(jedi_task_ids=[task])
            return {} if whole.accepted else {None: whole.sentence}
        return {one.unit_nr - 1: one.sentence for one in answers if not one.accepted}

    def resubmit(self, backend_id: str, units: Sequence[int] | None, options: Document) -> Refusals:
        """Submit units again, at the site of the options, else as before; None: all that failed or
        were killed, else all."""
        task = _task(backend_id)
        answers = self._client.unit_resubmit(
            jedi_task_id=task, unit_nrs=_numbers(units), site=options.get("site") or None
        )
        if units is None and not any(one.accepted for one in answers):
            return {None: f"Task {task} has no unit that can be submitted again."}
        return {one.unit_nr - 1: one.sentence for one in answers
                if not one.accepted and units is not None}  # fmt: skip

    def attempts(self, backend_id: str, k: int) -> Sequence[Attempt]:
        """The attempts of a unit, from 1 on."""
        found = self._client.unit_attempts(_task(backend_id), k + 1)
        return [
            Attempt(number, one.panda_id, one.status, one.site, one.exit_code, one.started,
                    one.ended)
            for number, one in enumerate(found, 1)
        ]  # fmt: skip

    def log(self, backend_id: str, k: int, attempt: int | None, name: str) -> Iterator[bytes]:
        """Give a log of an attempt (None: the latest); while it runs, its last lines."""
        tried = self.attempts(backend_id, k)
        chosen = [one for one in tried if attempt in (None, one.attempt)][-1:]
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

    def outputs(self, backend_id: str) -> Sequence[OutputFile]:
        """The outputs that JEDI keeps, by the names that the job declared."""
        return [
            OutputFile(None if one.unit_nr is None else one.unit_nr - 1, one.name, one.size)
            for one in self._client.unit_outputs(_task(backend_id))
        ]

    def fetch(self, backend_id: str, files: Sequence[OutputFile], to: Path) -> Sequence[Path]:
        """Bring outputs; what lies there with its size and adler32 stays."""
        task = _task(backend_id)
        kept = {(one.unit_nr and one.unit_nr - 1, one.name): one
                for one in self._client.unit_outputs(task)}  # fmt: skip
        found = []
        for file in files:
            output = kept.get((file.k, file.name))
            if output is None:
                raise NotFound(
                    f"JEDI keeps no output {file.name} of this subjob.", code="no_output"
                )
            place = to / str(file.k) / "output" if file.k is not None else to / "output"
            found.append(self._bring(task, output, place / file.name))
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
            raise JediError(f"{output.name} came with another adler32: fetch it again.",
                            code="bad_checksum")  # fmt: skip
        part.replace(to)
        return to

    def remove(self, backend_id: str) -> None:
        """Let JEDI remove the outputs of a job that has ended."""
        self._client.task_clean(_task(backend_id))


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
    return JobState(str(one.jedi_task_id), one.status, [*map(_unit, one.units)], counts,
                    one.complete, one.cursor, one.reason)  # fmt: skip


def _unit(one: UnitSummary) -> UnitState:
    return UnitState(one.unit_nr - 1, _STATUSES[one.state], one.attempts, one.panda_id, one.site,
                     one.exit_code, one.reason)  # fmt: skip


def _adler32(path: Path) -> str:
    value: Any = 1
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            value = zlib.adler32(piece, value)
    return f"{value:08x}"
