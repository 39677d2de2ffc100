"""One attempt of one job, from the answer of `acquire` to the service's verdict."""

from __future__ import annotations

import os
import sys
import tarfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import event_pieces, metadata, payload, sandbox, stage
from .base import STALE, PayloadFailure, Stop, crash_point, utc
from .event_consumer import ConsumerPlaces, EventConsumer
from .event_lines import ENVIRONMENT
from .heartbeat import HeartbeatThread, ReportFields
from .procs import PayloadAccount
from .wire import ServiceRefusal, ServiceUnreachable, Wire, verdict

_MEASURES = {
    "cpu_s": 0.0,
    "max_rss_kb": 0,
    "max_pss_kb": 0,
    "read_bytes": 0,
    "write_bytes": 0,
    "workdir_kb": 0,
    "input_bytes": 0,
    "output_bytes": 0,
    "wall_s": 0.0,
}
_TROUBLE = (OSError, ValueError, LookupError, TypeError, MemoryError, tarfile.TarError)
"""Exceptions that faulty machines and orders cause. Any other exception is a fault of ours: the
pilot ends with it, and its sender answers for the job."""
_LAST_WORD_S = 10.0  # a pilot that ends tries so long to report the end of its job


@dataclass(frozen=True)
class PilotSetup:
    """Settings that all jobs of this pilot share."""

    wire: Wire
    stop: Stop
    work: Path
    user: PayloadAccount | None
    heartbeat_s: float
    share: Sequence[str] = ()
    path: str | None = None
    payloads: payload.PayloadRunner = field(default_factory=payload.PayloadRunner)


class PilotJob:
    """One attempt, named by (pandaid, lock_seq).

    In its directory <work>/<pandaid>.<lock_seq>/ lie `run` (where the payload runs), `tmp` (its
    TMPDIR), `own` (its /tmp, /var/tmp and /dev/shm) and, out of its reach, `payload.stdout`,
    `payload.stderr` and `pilot.log`, which make the job's log.
    """

    def __init__(self, order: dict[str, Any], node: PilotSetup) -> None:
        self._order = order
        self._node = node
        self._key = {"pandaid": int(order["pandaid"]), "lock_seq": int(order["lock_seq"])}
        self._name = f"{self._key['pandaid']}.{self._key['lock_seq']}"
        self._attempt = node.work / self._name
        self._staging = Path(order["stage_out"])
        self._heart = HeartbeatThread(node.wire, node.stop, self._key, node.heartbeat_s)
        self._measures: dict[str, float] = dict(_MEASURES)
        self._stderr_tail = ""
        self._started_at: str | None = None
        self._ended_at: str | None = None
        self._exit_code: int | None = None
        self._outputs: list[dict[str, Any]] = []
        self._metadata: dict[str, Any] = {}

    def do(self) -> None:
        """The attempt's whole life. Raises Away or Refused if the service didn't take its end."""
        self._heart.start()
        self._heart.tell({**self._key, "status": "starting"})
        failure: PayloadFailure | None = None
        for step in (self._work, self._stage_log):
            if (wrong := self._guarded(step)) is not None:
                failure = failure or wrong
                self._discard()
        # before the report: nobody tidies up after a pilot that dies when its job has ended
        self._guarded(lambda: stage.remove_tree(self._attempt))
        self._heart.close()
        crash_point("stage_out")
        self._tell_end(failure)
        crash_point("report")

    def _guarded(self, step: Callable[[], None]) -> PayloadFailure | None:
        """Take a step; why it failed, if it did."""
        try:
            step()
        except PayloadFailure as failure:
            wrong = failure
        except _TROUBLE as error:
            trouble = traceback.format_exception_only(type(error), error)[-1].strip()
            wrong = PayloadFailure("pilot_error", f"The pilot itself failed: {trouble[:500]}")
        else:
            return None
        print(f"pilot: job {self._name}: {wrong.code}: {wrong.sentence}", file=sys.stderr)
        return wrong

    def _work(self) -> None:
        """Everything up to the staged outputs."""
        check = self._node.stop.check
        if self._staging.name != self._name:
            raise PayloadFailure(
                "pilot_error", f"{self._staging} is not a directory for {self._name}."
            )
        run, tmp = self._make_directories()
        stage.must_differ(self._order["inputs"], self._order["outputs"])
        self._note("stage-in")
        if sha256 := self._order["sandbox"]:
            self._unpack_sandbox(sha256, run)
        user = self._node.user
        self._measures["input_bytes"] = stage.stage_in(self._order["inputs"], run, user, check)
        if self._order.get("pieces"):
            pages = event_pieces.pages(self._node.wire, self._key)
            self._measures["input_bytes"] += event_pieces.stage_pieces(pages, run, user, check)
        crash_point("stage_in")
        self._write_texts(run)
        if user:
            for directory in (run, tmp):
                os.chown(directory, user.uid, user.gid)
        self._run_payload(run, tmp)
        crash_point("payload")
        self._note("stage-out")
        self._metadata = metadata.read(run, user)
        self._outputs = stage.stage_out(self._order["outputs"], run, self._staging, user, check)
        self._measures["output_bytes"] = sum(output["size"] for output in self._outputs)

    def _make_directories(self) -> tuple[Path, Path]:
        """`run` and `tmp`, still ours alone; the way to them may be walked, not looked at."""
        stage.remove_tree(self._attempt)
        self._attempt.mkdir(parents=True)
        self._attempt.chmod(0o711)
        run, tmp = self._attempt / "run", self._attempt / "tmp"
        run.mkdir(0o700)
        tmp.mkdir(0o700)
        for name in ("pilot.log", "log.tgz"):  # nobody else's to read
            (self._attempt / name).touch(0o600)
        return run, tmp

    def _unpack_sandbox(self, sha256: str, run: Path) -> None:
        try:
            archive = self._node.wire.sandbox(sha256)
        except (ServiceUnreachable, ServiceRefusal) as error:
            raise PayloadFailure(
                "stagein_sandbox", f"The sandbox can't be fetched: {error}."
            ) from error
        sandbox.unpack(archive, sha256, run, self._node.user, self._node.stop.check)

    def _write_texts(self, run: Path) -> None:
        """Lay the files down that were made for this job."""
        for name, text in self._order["texts"].items():
            path = run / stage.component(name)
            path.write_text(text)
            path.chmod(0o644)

    def _run_payload(self, run: Path, tmp: Path) -> None:
        order, user = self._order, self._node.user
        names = {
            "JEDITASKID": "jeditaskid",
            "PANDAID": "pandaid",
            "ATTEMPTNR": "attemptnr",
            "SITE": "site",
            "CORECOUNT": "cores",
        }
        job = {variable: str(order[key]) for variable, key in names.items()}
        consumer = self._consumer(run)
        if consumer:
            job.update(ENVIRONMENT)
        spec = {
            "command": order["command"],
            "cwd": str(run),
            "env": payload.environment(run, tmp, user, job, self._node.path),
            "user": user and [user.uid, user.gid, user.name],
            "limits": order["limits"],
            "attempt": str(self._attempt),
            "share": list(self._node.share),
        }
        wrong: PayloadFailure | None = None
        try:
            ended = self._node.payloads.run(spec, self._node.stop, self._hear, consumer)
        finally:
            self._ended_at = utc()
            if consumer:
                wrong = consumer.close()
        self._exit_code = ended.exit_code
        self._note(f"payload ended, exit code {ended.exit_code}")
        if failure := ended.failure or wrong:
            raise failure

    def _consumer(self, run: Path) -> EventConsumer | None:
        """The channel for events of a job that gets them while it runs, at work. A copy of a job
        processes all its events, as an ordinary job does."""
        events = self._order.get("events")
        if not events or events["mode"] == "cloning":
            return None
        places = ConsumerPlaces(run, self._attempt / "events", self._staging, Path(events["store"]))
        node = self._node
        consumer = EventConsumer(
            events, self._key, node.wire, node.stop, places, node.user, self._note
        )
        consumer.start()
        return consumer

    def _hear(self, line: payload.PayloadMessage) -> None:
        if self._started_at is None:
            self._started_at = utc()
            self._note("payload started")
            running = {**self._key, "status": "running", "started_at": self._started_at}
            self._heart.tell(running)
        self._measures.update(line["measures"])
        self._stderr_tail = line.get("tails", ["", self._stderr_tail])[1]
        self._heart.note(line)

    def _stage_log(self) -> None:
        """The log of every attempt, successful or not: a .tgz of the files beside `run`."""
        lfn = self._order["log_lfn"]
        if lfn is None or self._staging.name != self._name:
            return
        archive = self._attempt / "log.tgz"
        with tarfile.open(archive, "w:gz", compresslevel=3) as tar:
            for name in ("payload.stdout", "payload.stderr", "pilot.log"):
                if (self._attempt / name).exists():
                    tar.add(self._attempt / name, name)
        self._outputs.append(stage.stage_file(archive, lfn, self._staging, None, lambda: None))

    def _note(self, text: str) -> None:
        with (self._attempt / "pilot.log").open("a") as log:
            log.write(f"{utc()} {text}\n")

    def _discard(self) -> None:
        self._outputs = []
        if self._staging.name == self._name:
            stage.remove_tree(self._staging)

    def _tell_end(self, failure: PayloadFailure | None) -> None:
        """Report until the service has answered; a stale attempt's files go."""
        stop = self._node.stop
        stale = any(one is not None and one.code == STALE for one in (stop.why, failure))
        stop.clear()
        if not stale:
            report = {"reports": [self._last_report(failure)]}
            try:
                answer = self._node.wire.insist("report", report, _LAST_WORD_S)
            except ServiceRefusal:
                self._discard()
                raise
            stale = verdict(answer) == STALE
        if stale:
            self._discard()

    def _last_report(self, failure: PayloadFailure | None) -> ReportFields:
        status = "finished" if failure is None else "failed"
        if failure is not None and failure.code == "killed":
            status = "cancelled"
        return {
            **self._key,
            "status": status,
            "started_at": self._started_at,
            "ended_at": self._ended_at or utc(),
            "exit_code": self._exit_code,
            "error_code": failure and failure.code,
            "error_diag": failure and failure.sentence,
            "stderr_tail": self._stderr_tail,
            "measures": self._measures,
            "outputs": self._outputs,
            "metadata": self._metadata,
            "bad_inputs": [
                {"lfn": lfn, "problem": problem}
                for lfn, problem in (failure.bad_inputs if failure else {}).items()
            ],
        }
