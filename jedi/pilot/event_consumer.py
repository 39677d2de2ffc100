"""Ranges of events while a payload runs: got from the service, handed out, reported back.

One thread serves the payload's lines. It zips the outputs of finished ranges from time to time and
reports each zip after it lies at the storage, so that the death of the pilot loses only outputs
that no zip has yet.
"""

from __future__ import annotations

import os
import select
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import event_lines, event_zips
from .base import STALE, PayloadFailure, Stop, crash_point
from .event_lines import GetRanges, LineMistake, LineReader, RangeFailed, RangeFinished
from .procs import PayloadAccount
from .wire import ServiceAnswer, ServiceRefusal, ServiceUnreachable, Wire

_AGAIN_S = 1.0
"""Between two tries to report while the payload runs."""
_LAST_WORD_S = 10.0
_KILLED = "killed"


@dataclass(frozen=True)
class ConsumerPlaces:
    """The places of a consumer: where its payload runs, where finished outputs wait, where a zip
    is made, and where it is published."""

    run: Path
    waiting: Path
    staging: Path
    store: Path


class EventConsumer(threading.Thread):
    """One attempt of a job that gets ranges of events while it runs.

    `order` has n_ranges (ranges asked for at a time), zip_ranges and zip_s (the most ranges of a
    zip, and the longest wait for one) and endpoint.
    """

    def __init__(
        self,
        order: dict[str, Any],
        key: dict[str, int],
        wire: Wire,
        stop: Stop,
        places: ConsumerPlaces,
        user: PayloadAccount | None,
        note: Callable[[str], None],
    ) -> None:
        super().__init__(name="events", daemon=True)
        self._order, self._wire, self._stop_job = order, wire, stop
        self._attempt = {"panda_id": key["pandaid"], "lock_seq": key["lock_seq"]}
        self._places, self._user, self._note = places, user, note
        self._collector = event_zips.RangeCollector(
            places.waiting, int(order["zip_ranges"]), float(order["zip_s"])
        )
        self._ready: deque[dict[str, Any]] = deque()
        self._open: dict[str, dict[str, Any]] = {}  # in the payload's hands, by id
        self._request_id: str | None = None
        self._last = False
        self._n_zips = 0
        self._outbox: deque[dict[str, Any]] = deque()
        self._try_at = 0.0
        self._failure: PayloadFailure | None = None
        self._closing = False
        self._read_fd, payload_writes = os.pipe()
        payload_reads, self._write_fd = os.pipe()
        self.payload_fds = [payload_reads, payload_writes]
        """The ends of the payload, until it has them."""

    def given(self) -> None:
        """The payload has its ends, or will never have them: close them here."""
        while self.payload_fds:
            os.close(self.payload_fds.pop())

    def close(self) -> PayloadFailure | None:
        """The payload has ended: publish and report the rest; the consumer's failure, if any."""
        self._closing = True
        self.given()
        self.join()
        os.close(self._read_fd)
        os.close(self._write_fd)
        why = self._stop_job.why
        if why is None or why.code not in (STALE, _KILLED):
            while self._failure is None and self._collector.due_s() is not None:
                self._guarded(self._publish)
            self._guarded(self._send_last)
        return self._failure

    # -- the thread

    def run(self) -> None:
        reader = LineReader(self._read_fd)
        while not reader.ended and self._failure is None:
            ready = select.select([self._read_fd], [], [], self._wait_s())[0]
            if ready:
                self._guarded(lambda: self._serve(reader))
            if self._collector.due_s() == 0.0:
                self._guarded(self._publish)
            if self._outbox and time.monotonic() >= self._try_at:
                self._guarded(self._send)
        if self._failure is not None:
            self._stop_job.ask(self._failure)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Take a step; the first failure ends the consumer."""
        try:
            step()
        except PayloadFailure as failure:
            self._failure = self._failure or failure
        except BrokenPipeError:
            pass  # the payload does not read any more: its end follows
        except (OSError, LookupError, ValueError, TypeError) as error:
            sentence = f"The pilot itself failed: {error!r}"[:500]
            self._failure = self._failure or PayloadFailure("pilot_error", sentence)

    def _wait_s(self) -> float | None:
        waits = [self._collector.due_s()]
        if self._outbox:
            waits.append(max(0.0, self._try_at - time.monotonic()))
        return min((wait for wait in waits if wait is not None), default=None)

    def _serve(self, reader: LineReader) -> None:
        try:
            for line in reader.lines():
                self._answer(line)
        except LineMistake as mistake:  # a line without an end
            raise PayloadFailure("payload_exit", str(mistake)) from mistake

    def _answer(self, line: bytes) -> None:
        try:
            answer = self._do(line)
        except LineMistake as mistake:
            answer = event_lines.error_line(str(mistake))
        while answer:
            answer = answer[os.write(self._write_fd, answer) :]

    def _do(self, line: bytes) -> bytes:
        request = event_lines.parse(line)
        if isinstance(request, GetRanges):
            return event_lines.ranges_line(self._take(request.n))
        given = self._open.get(request.range_id)
        if given is None:
            raise LineMistake(f"Range {request.range_id[:100]} is not in the payload's hands.")
        if isinstance(request, RangeFinished):
            self._collector.add(given, request.outputs, self._places.run, self._user)
        else:
            self._outbox.append(_failed(request))
        del self._open[request.range_id]
        return event_lines.ok_line()

    # -- ranges

    def _take(self, n: int) -> list[dict[str, Any]]:
        """Up to `n` ranges for the payload; none: there are no more."""
        if not self._ready and not self._last:
            self._fetch(max(n, int(self._order["n_ranges"])))
        taken = [self._ready.popleft() for _ in range(min(n, len(self._ready)))]
        self._open.update((one["id"], one) for one in taken)
        return taken

    def _fetch(self, n: int) -> None:
        """Ask the service. A repeated request has the same id, so that an answer that got lost is
        given again."""
        self._request_id = self._request_id or uuid.uuid4().hex
        body = {"request_id": self._request_id, "asks": [{**self._attempt, "n": n}]}
        while True:
            if self._stop_job.why is not None or self._closing:
                return
            try:
                answer = self._wire.ask("event_ranges", body)["answers"][0]
                break
            except ServiceUnreachable:
                self._stop_job.wait(_AGAIN_S)
            except ServiceRefusal as refusal:
                raise PayloadFailure("pilot_error", f"No events: {refusal}.") from refusal
        self._request_id = None
        if answer["status"] != "ok":
            raise _ended(answer["status"])
        self._last = bool(answer["last"]) or not answer["ranges"]
        self._ready.extend(_in_turn(answer["ranges"]))
        self._note(f"{len(answer['ranges'])} ranges of events{', the last' if self._last else ''}")

    # -- zips and reports

    def _publish(self) -> None:
        ranges = self._collector.take()
        self._n_zips += 1
        numbers = (self._order["jobset_id"] or 0, *self._attempt.values())
        name = f"{'.'.join(map(str, numbers))}.{self._n_zips:06}.zip"
        places = self._places
        made = event_zips.publish(ranges, name, places.staging, places.store, self._user)
        self._outbox.append({"zips": [{**made, "endpoint": self._order["endpoint"]}]})
        self._note(f"{name} has {len(ranges)} ranges of events")
        crash_point("event_report")

    def _send(self) -> None:
        """Report; if the service does not answer, a later call reports again."""
        try:
            self._deliver(self._wire.ask)
        except ServiceUnreachable:
            self._try_at = time.monotonic() + _AGAIN_S

    def _send_last(self) -> None:
        def insist(verb: str, body: ServiceAnswer) -> ServiceAnswer:
            return self._wire.insist(verb, body, _LAST_WORD_S)

        try:
            self._deliver(insist)
        except ServiceUnreachable as error:
            sentence = f"The service did not take the report on events: {error}."
            raise PayloadFailure("pilot_error", sentence) from error

    def _deliver(self, ask: Callable[[str, ServiceAnswer], ServiceAnswer]) -> None:
        while self._outbox:
            report = {"zips": [], "ranges": [], **self._attempt, **self._outbox[0]}
            try:
                answer = ask("event_reports", {"reports": [report]})
            except ServiceRefusal as refusal:
                said = f"The service refused the report on events: {refusal}."
                raise PayloadFailure("pilot_error", said) from refusal
            self._outbox.popleft()
            [said] = answer["answers"]
            for one in said["refused"]:
                self._note(f"the service refused range {one['id']}: {one['sentence']}")
            if said["status"] == STALE:
                raise _ended(STALE)


def _in_turn(ranges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ranges as the service gives them, at odd attempts from the last one on: a range that kills
    each payload takes its neighbours with it at every other attempt only."""

    def odd(one: dict[str, Any]) -> bool:
        return int(one["id"].rpartition("-")[2]) % 2 == 1

    return [one for one in ranges if not odd(one)] + [*filter(odd, reversed(ranges))]


def _failed(request: RangeFailed) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": request.range_id,
        "status": "fatal" if request.fatal else "failed",
    }
    if request.why:
        entry["error_diag"] = request.why
    return {"ranges": [entry]}


def _ended(status: str) -> PayloadFailure:
    if status == STALE:
        return PayloadFailure(STALE, "The service has given this job to another.")
    return PayloadFailure(_KILLED, "The service ordered the job to end.")
