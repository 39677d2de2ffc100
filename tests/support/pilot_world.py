"""A small service and a scratch place for tests of the pilot: the rim that may be played."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from jedi.model.jobs.wire import AcquireRequest, Beats, LogEntries, PilotMessage, Reports
from support.seen import mark

MESSAGES: dict[str, type[PilotMessage]] = {
    "acquire": AcquireRequest,
    "report": Reports,
    "heartbeat": Beats,
    "log": LogEntries,
}
PILOT = Path(__file__).parents[2] / "jedi" / "pilot"
PAYLOAD_UID = 65100 + 2 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
"""Nobody else's: a test may end all its processes, or use up what this user may have."""
ROOT = os.geteuid() == 0
DEADLINE_S = 20.0


class Handler(BaseHTTPRequestHandler):
    """Speaks the wire; keeps what it heard."""

    server: Service

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        verb = self.path.rpartition("/")[2]
        if verb in MESSAGES:
            MESSAGES[verb].model_validate_json(content)  # else the pilot gets no answer
        body = json.loads(content)
        status, answer = self.server.heard(verb, body, self.headers["Authorization"])
        self._send(status, json.dumps(answer).encode())

    def do_GET(self) -> None:
        content = self.server.sandboxes.get(self.path.rpartition("/")[2])
        self._send(404 if content is None else 200, content or b"")

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        return


class Service(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """Hands out `orders` in turn, answers reports by `verdicts` and heartbeats by `kills` and
    `held`."""

    daemon_threads = True
    block_on_close = False
    TOKEN = "a-token-of-this-site"

    def prepare(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.verdicts: dict[str, str] = {}  # by status
        self.kills: dict[int, str] = {}
        self.held: set[int] = set()
        self.refuse: Callable[[str, dict[str, Any]], int | None] = lambda verb, body: None
        self.sandboxes: dict[str, bytes] = {}
        self.ranges: list[dict[str, Any]] = []  # of events, ready
        self.ranges_status = "ok"
        self.pages: list[list[dict[str, Any]]] = []  # of pieces
        self._changed = threading.Condition()
        self._answered: dict[str, list[dict[str, Any]]] = {}
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def heard(self, verb: str, body: dict[str, Any], token: str | None) -> tuple[int, object]:
        with self._changed:
            self.calls.append((verb, body))
            self._changed.notify_all()
            if token != f"Bearer {self.TOKEN}":
                return 401, {"error": "no such token"}
            if (status := self.refuse(verb, body)) is not None:
                return status, {}
            return 200, getattr(self, f"_{verb}")(body)

    def _acquire(self, body: dict[str, Any]) -> object:
        jobs = self._answered.setdefault(body["request_id"], self.orders[: body["n"]])
        self.orders = [order for order in self.orders if order not in jobs]
        return {"jobs": jobs, "wait_s": 0.05}

    def _report(self, body: dict[str, Any]) -> object:
        mark(r["error_code"] for r in body["reports"] if r.get("error_code"))
        return {
            "results": [
                {"pandaid": r["pandaid"], "verdict": self.verdicts.get(r["status"], "accepted")}
                for r in body["reports"]
            ]
        }

    def _heartbeat(self, body: dict[str, Any]) -> object:
        ids = [beat["pandaid"] for beat in body["beats"]]
        return {
            "commands": [
                {"pandaid": i, "command": "kill", "why": self.kills[i]}
                if i in self.kills
                else {"pandaid": i, "command": "hold" if i in self.held else "none", "why": None}
                for i in ids
            ]
        }

    def _log(self, body: dict[str, Any]) -> object:
        return {"results": [{"pandaid": e["pandaid"]} for e in body["entries"]]}

    def _event_ranges(self, body: dict[str, Any]) -> object:
        [ask] = body["asks"]
        given = self._answered.setdefault(body["request_id"], self.ranges[: ask["n"]])
        self.ranges = [one for one in self.ranges if one not in given]
        answer = {"panda_id": ask["panda_id"], "status": self.ranges_status}
        return {"answers": [{**answer, "ranges": given, "last": not self.ranges}]}

    def _event_reports(self, body: dict[str, Any]) -> object:
        answer = {"status": "ok", "accepted": 0, "refused": []}
        return {"answers": [{"panda_id": r["panda_id"], **answer} for r in body["reports"]]}

    def _event_pieces(self, body: dict[str, Any]) -> object:
        number = int(body.get("after", 0))
        more = str(number + 1) if number + 1 < len(self.pages) else None
        return {"status": self.ranges_status, "pieces": self.pages[number], "next": more}

    def wait_for(self, verb: str, what: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
        """The first call of a verb for which `what` holds, when it has come."""

        def found() -> dict[str, Any] | None:
            return next((body for v, body in self.calls if v == verb and what(body)), None)

        with self._changed:
            body = self._changed.wait_for(found, DEADLINE_S)
        assert body is not None, f"no such {verb}; heard: {self.calls}"
        return body

    def reports(self) -> list[dict[str, Any]]:
        with self._changed:
            return [r for verb, body in self.calls if verb == "report" for r in body["reports"]]

    def event_reports(self) -> list[dict[str, Any]]:
        with self._changed:
            return [r for verb, b in self.calls if verb == "event_reports" for r in b["reports"]]


class UnixService(Service, socketserver.UnixStreamServer):
    request_queue_size = 64


class TcpService(Service, socketserver.TCPServer):
    pass


def wait_until(what: Callable[[], object], message: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < end, message
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def tar_gz(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    """An archive of (name, content) files and of members made by hand."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member, io.BytesIO(b"x" * member.size))
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return buffer.getvalue()


class World:
    """One service, one storage, one work directory; `run` takes a command through a real pilot."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="jedi-pilot-"))
        self.home.chmod(0o755)
        self.work, self.storage = self.home / "work", self.home / "storage"
        self.scratch = self.home / "scratch"  # where payloads leave traces
        for directory in (self.work, self.storage, self.scratch):
            directory.mkdir()
        self.scratch.chmod(0o777)
        socket = self.home / "api.sock"
        self.service: Service = UnixService(str(socket), Handler)
        self.service.prepare()
        self.url = f"unix:{socket}"
        self.pilots: list[subprocess.Popen[bytes]] = []
        self._next_id = 100

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        for pilot in self.pilots:
            pilot.kill()
            pilot.wait()
        self.service.shutdown()
        self.service.server_close()
        wait_until(lambda: not self.leftovers(), "a payload outlived its pilot")
        shutil.rmtree(self.home, ignore_errors=True)

    def leftovers(self) -> list[int]:
        """Processes that still run in this world's work directory."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                here = entry.name.isdigit() and str((entry / "cwd").readlink())
            except OSError:
                continue
            if here and here.startswith(str(self.work)):
                found.append(int(entry.name))
        return found

    def order(self, command: str, **changes: Any) -> dict[str, Any]:
        """Queue a job; its order, changed as wished."""
        self._next_id += 1
        name = f"{self._next_id}.7"
        order: dict[str, Any] = {
            "pandaid": self._next_id,
            "lock_seq": 7,
            "jeditaskid": 5,
            "attemptnr": 2,
            "site": "HERE",
            "cores": 1,
            "command": command,
            "texts": {},
            "sandbox": None,
            "inputs": [],
            "outputs": [],
            "log_lfn": "job.log.tgz",
            "stage_out": str(self.storage / ".staging" / name),
            "limits": {},
        }
        order.update(changes)
        self.service.orders.append(order)
        return order

    def file(self, name: str, content: bytes = b"some text\n", **changes: Any) -> dict[str, Any]:
        """An input as the service describes it."""
        path = self.storage / name
        path.write_bytes(content)
        return {"lfn": name, "path": str(path), "size": len(content), "adler32": None, **changes}

    def sandbox(self, archive: bytes) -> str:
        sha256 = hashlib.sha256(archive).hexdigest()
        self.service.sandboxes[sha256] = archive
        return sha256

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """A pilot for one job."""
        command = [sys.executable, "-I", str(PILOT), "--site", "HERE", "--work", str(self.work)]
        command += ["--max-jobs", "1", "--idle-s", "0.5", "--heartbeat-s", "0.2"]
        command += ["--share", str(self.scratch)]  # it may lie in /tmp
        if ROOT:
            command += ["--payload-user", f"{PAYLOAD_UID}:{PAYLOAD_UID}"]
        pilot = subprocess.Popen(
            [*command, *arguments],
            env={
                "PATH": os.environ["PATH"],
                "JEDI_PILOT_URL": self.url,
                "JEDI_PILOT_TOKEN": Service.TOKEN,
                **environment,
            },
        )
        self.pilots.append(pilot)
        return pilot

    def run(self, command: str, **changes: Any) -> dict[str, Any]:
        """Run one job to its end; the pilot's last report."""
        self.order(command, **changes)
        assert self.start().wait(DEADLINE_S) == 0
        assert list(self.work.iterdir()) == []
        return self.service.reports()[-1]

    def staged(self, order_id: int | None = None) -> dict[str, bytes]:
        """What lies in the staging directory of a job (the last one)."""
        directory = self.storage / ".staging" / f"{order_id or self._next_id}.7"
        return {p.name: p.read_bytes() for p in directory.iterdir()} if directory.exists() else {}

    def log(self) -> dict[str, bytes]:
        """The members of the last job's log."""
        with tarfile.open(fileobj=io.BytesIO(self.staged()["job.log.tgz"])) as tar:
            return {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]

    def trace(self, name: str) -> str:
        """What a payload has written to a file of the scratch directory, when it has."""
        path = self.scratch / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"no {name}")
        return path.read_text().strip()


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(DEADLINE_S)
