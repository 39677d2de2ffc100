"""The pilot's command line: takes jobs one at a time, runs each, ends when there are no more.

Exit code 0: all jobs are reported, whatever became of them. 1: the service stayed away or refused
us. 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import signal
import sys
import threading
import time
import uuid
from pathlib import Path

from . import procs
from .base import TERMINATED, PayloadFailure, Stop, crash_point
from .delegation import delegation
from .job import PilotJob, PilotSetup
from .wire import ServiceRefusal, ServiceUnreachable, Wire

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.05, 30.0


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    url, token = os.environ.get("JEDI_PILOT_URL"), os.environ.get("JEDI_PILOT_TOKEN")
    certificate = os.environ.get("JEDI_PILOT_CERTIFICATE")
    if not url or not token:
        parser.error("JEDI_PILOT_URL and JEDI_PILOT_TOKEN must be set")
    stop = Stop()
    try:
        user = procs.account(options.payload_user)
        wire = Wire(url, token, stop, options.retry_s, certificate)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    _listen_for_signals(stop)
    os.umask(0o022)
    procs.hide()
    procs.become_subreaper()
    work = Path(options.work).resolve()
    node = PilotSetup(wire, stop, work, user, options.heartbeat_s, options.share, options.path)
    try:
        _take_jobs(node, options)
    except (ServiceUnreachable, ServiceRefusal) as error:
        if stop.why is None:
            print(f"pilot: the service does not take us on: {error}", file=sys.stderr)
        return 1
    finally:
        node.payloads.close()
    return 0


def _take_jobs(node: PilotSetup, options: argparse.Namespace) -> None:
    """Run jobs until there is none for `idle_s`, or time or number are used up, or a signal."""
    idle_since = time.monotonic()
    end = idle_since + options.walltime_s if options.walltime_s else math.inf
    done = 0
    while node.stop.why is None and (not options.max_jobs or done < options.max_jobs):
        left_s = end - time.monotonic()
        if left_s <= 0:
            return
        answer = node.wire.insist(
            "acquire",
            {
                "request_id": uuid.uuid4().hex,
                "pilot_id": options.pilot_id,
                "site": options.site,
                "n": 1,
                "delegation": delegation(os.environ, os.getpid()),
                "resources": {
                    "cores": options.cores,
                    "memory_mb": options.memory_mb,
                    "walltime_s": math.ceil(left_s) if options.walltime_s else 0,
                    "disk_mb": options.disk_mb,
                    "min_cores": options.min_cores,
                    "min_memory_mb": options.min_memory_mb,
                },
            },
        )
        for order in answer["jobs"]:
            crash_point("acquire")
            PilotJob(order, node).do()
            done += 1
            idle_since = time.monotonic()
        if not answer["jobs"]:
            idle_left_s = idle_since + options.idle_s - time.monotonic()
            if idle_left_s <= 0:
                return
            advice_s = min(max(_SHORTEST_WAIT_S, answer["wait_s"]), _LONGEST_WAIT_S)
            node.stop.wait(min(advice_s, idle_left_s, left_s))


def _listen_for_signals(stop: Stop) -> None:
    """A thread waits for signals, so that no handler interrupts any code of ours."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def listen() -> None:
        while True:
            name = signal.Signals(signal.sigwait(_SIGNALS)).name
            stop.ask(PayloadFailure(TERMINATED, f"A signal ended the pilot ({name})."))

    threading.Thread(target=listen, name="signals", daemon=True).start()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pilot",
        description="Runs the jobs of one site. Needs JEDI_PILOT_URL (unix:/path/api.sock, http:// "
        "or https://host:port) and JEDI_PILOT_TOKEN in its environment; JEDI_PILOT_CERTIFICATE "
        "names a file with a certificate to trust.",
    )
    add = parser.add_argument
    add("--site", required=True, help="the site whose jobs to take")
    add("--work", required=True, metavar="DIR", help="where the attempts' directories are made")
    add("--cores", type=int, default=1, metavar="N", help="cores on offer (1)")
    add("--memory-mb", type=int, default=0, metavar="N", help="memory on offer (0: not bounded)")
    add("--walltime-s", type=int, default=0, metavar="N", help="its own time (0: unbounded)")
    add("--disk-mb", type=int, default=0, metavar="N", help="disk on offer (0: not bounded)")
    add("--min-cores", type=int, default=0, metavar="N", help="no jobs of fewer cores (0)")
    add("--min-memory-mb", type=int, default=0, metavar="N", help="no jobs of less memory (0)")
    add("--max-jobs", type=int, default=0, metavar="N", help="end after N jobs (0: unbounded)")
    add("--idle-s", type=float, default=30.0, metavar="S", help="end after S s without work (30)")
    add("--heartbeat-s", type=float, default=30.0, metavar="S", help="between heartbeats (30)")
    add(
        "--retry-s",
        type=float,
        default=3600.0,
        metavar="S",
        help="time to keep trying the service (3600)",
    )
    add("--path", metavar="DIR:DIR", help="directories that payloads find first in PATH")
    add(
        "--payload-user", metavar="NAME|UID:GID", help="root only: the account of payloads (nobody)"
    )
    add(
        "--share",
        action="append",
        default=[],
        metavar="PATH",
        help="a real file or directory below "
        "/tmp, /var/tmp or /dev/shm that payloads see (may be repeated)",
    )
    add("--pilot-id", default=f"{platform.node()}.{os.getpid()}", help="our name (HOST.PID)")
    return parser
