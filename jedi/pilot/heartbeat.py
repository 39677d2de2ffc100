"""The thread that keeps a running job in touch with the service."""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any

from .base import STALE, PayloadFailure, Stop
from .wire import ServiceRefusal, ServiceUnreachable, Wire, verdict

ReportFields = dict[str, Any]

EARLY_S = 0.3
"""Age of a status before the service learns of it."""


class HeartbeatThread(threading.Thread):
    """Sends a job's status while it runs, and heartbeats with figures and the last lines of output.

    A status is sent when the job has it for EARLY_S: the end of a shorter job says it all. Each try
    is one exchange: an unreachable service costs the job nothing, and the next beat repeats unsent
    data. The service's answer may stop the job.
    """

    def __init__(self, wire: Wire, stop: Stop, key: dict[str, int], interval_s: float) -> None:
        super().__init__(name="heart", daemon=True)
        self._wire = wire
        self._stop_job = stop
        self._key = key
        self._interval_s = interval_s
        self._wake = threading.Event()
        self._closing = False
        self._measures: dict[str, float] = {}
        self._tails: list[str] | None = None  # not yet sent
        self._report: ReportFields | None = None  # not yet answered
        self._report_at = math.inf

    def tell(self, report: ReportFields) -> None:
        """Send a report soon, or as soon as the service answers; a later one replaces it."""
        self._report = report  # before its time: the thread forgets the time of what it sends
        self._report_at = min(self._report_at, time.monotonic() + EARLY_S)
        self._wake.set()

    def note(self, line: dict[str, Any]) -> None:
        """Remember the payload monitor's measurements for the next heartbeat."""
        self._measures = line["measures"]
        self._tails = line.get("tails", self._tails)

    def close(self) -> None:
        self._closing = True
        self._wake.set()
        self.join()

    def run(self) -> None:
        due = time.monotonic() + self._interval_s
        while not self._closing:
            self._wake.wait(max(0.0, min(due, self._report_at) - time.monotonic()))
            self._wake.clear()
            try:
                if time.monotonic() >= min(due, self._report_at):
                    self._deliver()
                if time.monotonic() >= due:
                    self._beat()
            except ServiceUnreachable:
                pass  # the next beat tries again
            except ServiceRefusal as refusal:
                print(f"pilot: {refusal}", file=sys.stderr)
            if time.monotonic() >= due:
                due = time.monotonic() + self._interval_s

    def _deliver(self) -> None:
        self._report_at = math.inf  # a service that is away is asked again with the next beat
        report = self._report
        if report is None or self._closing or self._stop_job.why is not None:
            return
        answer = self._wire.ask("report", {"reports": [report]})
        if report is self._report:
            self._report = None
        if verdict(answer) == STALE:
            self._stop_job.ask(PayloadFailure(STALE, "The service has given this job to another."))

    def _beat(self) -> None:
        answer = self._wire.ask("heartbeat", {"beats": [{**self._key, "measures": self._measures}]})
        for order in answer["commands"]:
            if order["command"] == "kill":
                why = order.get("why") or "The service ordered the job to end."
                self._stop_job.ask(PayloadFailure("killed", why))
            self._stop_job.held = order["command"] == "hold"
        if (tails := self._tails) is not None:
            entry = {**self._key, "stdout_tail": tails[0], "stderr_tail": tails[1]}
            self._wire.ask("log", {"entries": [entry]})
            if tails is self._tails:
                self._tails = None
