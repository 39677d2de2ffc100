"""Requests to the service's process beside bare calls of its functions, in the same run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from jedi_client.operations import Client
from jedi_client.profiles import Profile
from sqlalchemy import Engine

from benchmarks.common import Result, Work, make_world, seconds, together
from benchmarks.jobs_world import Shape, activated_jobs, place, site
from jedi.agent.base import World
from jedi.core.errors import JediError
from jedi.core.settings import caller
from jedi.ddm.interface import DDM
from jedi.host.home import Home
from jedi.service import pilots, tasks
from jedi.spec.jobs.wire import Beat
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.housekeeping import knobs
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import Identity, put_user

CPUS = 2
REQUESTS, SMOKE = 2_000, 40
CLIENTS = 2
SLOT = {"cores": 1, "memory_mb": 2000, "walltime_s": 86_400, "disk_mb": 20_000}
HTTP_MS, SUBMIT_MS, LIST_S, READ_P99_MS = 2.0, 15.0, 0.30, 50.0
_SERVE = """
import sys
from pathlib import Path
from jedi.api.server import serve
from jedi.core.settings import Settings
serve(Settings(Path(sys.argv[1]), sys.argv[2]), lambda: print("ready", flush=True))
"""
TASK = {"taskName": "t", "noInput": True, "nFiles": 1, "jobParameters": [
    {"type": "constant", "value": "true"},
    {"type": "template", "param_type": "output", "value": "> o.${SN}.txt", "dataset": "user.b:o"},
]}  # fmt: skip


@dataclass(frozen=True)
class _Service:
    """A process of the service on a database, and the token of a pilot."""

    home: Home
    process: subprocess.Popen[str]
    token: str

    @property
    def url(self) -> str:
        return f"unix:{self.home.api_socket}"

    def cpu_s(self) -> float:
        """Processor time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(engine: Engine, requests: int = REQUESTS) -> list[Result]:
    """Heartbeats, single acquires and small reads a second by two clients; processor time that
    HTTP adds to each, of a submission, and of `jedi-task list` in a fresh process."""
    place(engine, 1, 1)
    activated_jobs(engine, Shape(2 * requests, sites=1, shares=1))
    world = make_world(engine, cast(DDM, None))
    with engine.begin() as tx:
        put_user(tx, caller(), "operator")
    with _service(world) as service:
        beats = _rate(service, _beats, requests)
        gives = _rate(service, _acquires, requests // 4)
        reads, p99 = _reads(service, requests // 2)
        bare_beat = _cpu(lambda: _bare_beat(world), requests // 2)
        bare_read = _cpu(lambda: _bare_read(world), requests // 4)
        submit_ms = _submissions(service, max(requests // 20, 2))
        list_s = _list_cpu(service)
    return [
        Result("heartbeats over HTTP", "1/s", beats[0], least=1_000, note=_note(beats, bare_beat)),
        Result("acquires over HTTP, one by one", "1/s", gives[0], least=300, note=_note(gives)),
        Result("small reads over HTTP", "1/s", reads[0], least=500,
               note=f"{_note(reads, bare_read)}, p99 {p99:.1f} ms of {READ_P99_MS:.0f}"),
        Result("submissions a second of processor time", "1/s", 1_000 / submit_ms,
               least=1_000 / SUBMIT_MS, note=f"{submit_ms:.1f} ms each"),
        Result("`jedi-task list` a second of processor time", "1/s", 1 / list_s, least=1 / LIST_S,
               note=f"{list_s:.2f} s each"),
    ]  # fmt: skip


def _note(found: tuple[float, float], bare_ms: float | None = None) -> str:
    ms = found[1]
    if bare_ms is None:
        return f"{ms:.2f} ms of the service's processor time"
    kept = "" if ms - bare_ms <= HTTP_MS else " GOAL MISSED"
    return f"{ms:.2f} ms of processor time, bare {bare_ms:.2f}: HTTP adds {ms - bare_ms:.2f}{kept}"


@contextmanager
def _service(world: World) -> Iterator[_Service]:
    with tempfile.TemporaryDirectory(prefix="jedi-api-") as directory:
        home = Home(Path(directory))
        with world.engine.begin() as tx:
            token = users.put_token(tx, "pilot", site=site(0))
            knobs.put(tx, "api.calls_per_s", 0.0, caller())  # all clients are one user
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, directory, world.settings.database_url or ""],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert process.stdout
            if process.stdout.readline() != "ready\n":
                raise JediError("The service did not start.", code="benchmark_failed")
            yield _Service(home, process, token)
        finally:
            process.terminate()
            process.wait()


def _rate(service: _Service, client: Callable[..., Work], requests: int) -> tuple[float, float]:
    """Requests a second of all clients, and ms of the service's processor time for each."""
    each = requests // CLIENTS
    before = service.cpu_s()
    took = together(CLIENTS, client, service.url, service.token, each)
    return CLIENTS * each / took, 1_000 * (service.cpu_s() - before) / (CLIENTS * each)


def _asker(url: str, token: str) -> Callable[[str, Any], Any]:
    client = Client(Profile(url, token))

    def ask(path: str, body: Any) -> Any:
        sent = {"Content-Type": "application/json"}
        with client.request("POST", path, json.dumps(body).encode(), sent) as response:
            return json.loads(response.read())

    return ask


def _beats(number: int, url: str, token: str, times: int) -> Work:
    """A pilot that beats for a job that it has."""
    ask = _asker(url, token)
    [job] = ask("/v1/pilot/acquire", _request(f"b{number}", 0))["jobs"]
    beat = {"beats": [{"pandaid": job["pandaid"], "lock_seq": job["lock_seq"]}]}

    def work() -> None:
        for _ in range(times):
            ask("/v1/pilot/heartbeat", beat)

    return work


def _acquires(number: int, url: str, token: str, times: int) -> Work:
    ask = _asker(url, token)

    def work() -> None:
        for i in range(times):
            if len(ask("/v1/pilot/acquire", _request(f"a{number}", i))["jobs"]) != 1:
                raise JediError("There was no job.", code="benchmark_failed")

    return work


def _request(pilot: str, number: int) -> dict[str, Any]:
    return {"request_id": f"{pilot}.{number}", "pilot_id": pilot, "site": site(0), "n": 1,
            "resources": SLOT}  # fmt: skip


def _reader(_number: int, url: str, _token: str, times: int) -> Work:
    client = Client(Profile(url))

    def work() -> None:
        for _ in range(times):
            client.task_list(limit=1)

    return work


def _reads(service: _Service, requests: int) -> tuple[tuple[float, float], float]:
    """Rate and processor time of small reads, and the 99th percentile of a client's waits in ms."""
    found = _rate(service, _reader, requests)
    with Client(Profile(service.url)) as client:
        waits = sorted(
            seconds(lambda: client.task_list(limit=1)) for _ in range(max(requests // 4, 10))
        )
    return found, 1_000 * waits[int(0.99 * (len(waits) - 1))]


def _cpu(work: Callable[[], object], times: int) -> float:
    """ms of this process' processor time for one call."""
    work()
    before = sum(os.times()[:2])
    for _ in range(times):
        work()
    return 1_000 * (sum(os.times()[:2]) - before) / times


def _bare_beat(world: World) -> None:
    with at_once(world.engine) as tx:
        pilots.heartbeat(
            tx,
            Identity("pilot", site(0), None),
            [Beat.model_validate({"pandaid": 1, "lock_seq": 1})],
        )


def _bare_read(world: World) -> None:
    with world.engine.begin() as tx:
        tasks.find(tx, limit=1)


def _submissions(service: _Service, times: int) -> float:
    """ms of the service's processor time for a submission."""
    before = service.cpu_s()
    with Client(Profile(service.url)) as client:
        for number in range(times):
            named = {**TASK, "taskName": f"t{number}"}
            text = json.dumps(named).replace("user.b:o", f"user.b:o{number}")
            client.task_submit(texts=[{"text": text, "format": "json"}])
    return 1_000 * (service.cpu_s() - before) / times


def _list_cpu(service: _Service) -> float:
    """Seconds of processor time of `jedi-task list` in a fresh process."""
    command = "import sys; from jedi_client.cli.task import main; sys.argv = ['', 'list']; main()"
    environment = {**os.environ, "JEDI_URL": service.url}
    took = []
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-c", command], env=environment, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        after = os.times()
        took.append(after.children_user + after.children_system
                    - before.children_user - before.children_system)  # fmt: skip
    return statistics.median(took)
