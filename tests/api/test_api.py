"""The service's routes and its process."""

# Raw UPDATEs: a command that the job builder does not take.

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
from sqlalchemy import Engine, event, text
from sqlalchemy.pool import Pool
from starlette.testclient import TestClient
from support.databases import on_server
from support.helpers import put_file_dataset
from support.job_rows import make_jobs
from support.receivers import serving
from support.service_process import over, running, start

import jedi
from jedi.agent.base import World
from jedi.core.errors import BadInput, Refused
from jedi.host.home import Home
from jedi.jobdispatcher.agent import Adder
from jedi.pilot.base import Stop
from jedi.pilot.wire import ServiceRefusal as PilotRefused
from jedi.pilot.wire import ServiceUnreachable, Wire
from jedi.server.app import BODY_MAX, create_app
from jedi.server.serving import listen_tcp, listen_unix
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.users import access, users


@pytest.fixture
def token(world: World) -> str:
    with world.engine.begin() as tx:
        return users.put_token(tx, "pilot", site="SITE_A")


@pytest.fixture
def client(world: World, token: str) -> TestClient:
    return TestClient(
        create_app(world),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        raise_server_exceptions=False,
    )


def order(**more: Any) -> dict[str, Any]:
    slot = {"cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0}
    asked = {"request_id": "r1", "pilot_id": "p1", "site": "SITE_A", "n": 1, "resources": slot}
    return {**asked, **more}


# -------------------------------------------------------------------------------------- routes


def test_a_job_over_the_wire(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
    answer = client.post("/v1/pilot/acquire", json=order()).json()
    assert answer["wait_s"] == 0.5
    (job,) = answer["jobs"]
    assert client.post("/v1/pilot/acquire", json=order()).json()["jobs"] == [job]
    key = {"pandaid": job["pandaid"], "lock_seq": job["lock_seq"]}
    accepted = {"pandaid": made.jobs[0], "verdict": "accepted"}

    def report(status: str, **more: Any) -> Any:
        body = {"reports": [{**key, "status": status, **more}]}
        [result] = client.post("/v1/pilot/report", json=body).json()["results"]
        return result

    assert report("starting") == {**accepted, "stands": "starting"}
    assert report("running", started_at="2026-01-01T10:00:00.123+00:00") == {
        **accepted,
        "stands": "running",
    }
    beats = {"beats": [{**key, "measures": {"cpu_s": 1, "max_rss_kb": 5}}]}
    assert client.post("/v1/pilot/heartbeat", json=beats).json() == {
        "commands": [{"pandaid": made.jobs[0], "command": "none", "why": None}]
    }
    entries = {"entries": [{**key, "stdout_tail": "hello", "stderr_tail": ""}]}
    assert client.post("/v1/pilot/log", json=entries).json() == {"results": [accepted]}
    with world.engine.begin() as tx:
        jobs.ASK_TO_KILL.run(tx, code="task_killed", ids=made.jobs)
    (command,) = client.post("/v1/pilot/heartbeat", json=beats).json()["commands"]
    assert command["command"] == "kill"
    measures = {
        "cpu_s": 1.5,
        "max_rss_kb": 1,
        "max_pss_kb": 1,
        "read_bytes": 0,
        "write_bytes": 0,
        "workdir_kb": 0,
        "input_bytes": 0,
        "output_bytes": 0,
        "wall_s": 2.0,
    }
    assert report(
        "cancelled",
        started_at=None,
        ended_at="2026-01-01T10:00:09.123+00:00",
        exit_code=-9,
        error_code="killed",
        error_diag="Ordered.",
        stderr_tail="a\0b",
        measures=measures,
        outputs=[{"lfn": job["log_lfn"], "size": 5, "adler32": "0000000a", "guid": "aa"}],
    ) == {**accepted, "stands": "cancelled"}
    with world.engine.begin() as tx:
        found = tx.execute(text("SELECT status, pilot_result, exit_code FROM jedi_jobs")).one()
        assert tuple(found) == ("holding", "cancelled", -9)
    stale = {"reports": [{"pandaid": 10**9, "lock_seq": 1, "status": "running"}]}
    assert client.post("/v1/pilot/report", json=stale).json()["results"][0]["verdict"] == "stale"


def test_sandboxes(client: TestClient, world: World) -> None:
    data = bytes(range(256)) * 100
    name = hashlib.sha256(data).hexdigest()
    with world.engine.begin() as tx:
        tx.execute(
            text("INSERT INTO jedi_sandboxes (sha256, data) VALUES (:name, :data)"),
            {"name": name, "data": data},
        )
    assert client.get(f"/v1/sandbox/{name}").content == data
    missing = client.get("/v1/sandbox/abc")
    assert (missing.status_code, missing.json()["code"]) == (404, "sandbox_missing")


def test_all_mistakes_of_a_request_at_once(client: TestClient) -> None:
    bad = order(n=0, sit="x", request_id="\ud800" * 300, resources={"cores": "two"})
    answer = client.post("/v1/pilot/acquire", content=json.dumps(bad))
    assert answer.status_code == 422
    body = answer.json()
    assert body["code"] == "bad_input"
    paths = {problem["path"] for problem in body["facts"]["problems"]}
    assert paths == {"n", "sit", "request_id", "resources.cores"}
    for hostile in (b"{", b"[" * 100_000, b'{"n": NaN}', b"\xff", b""):
        assert client.post("/v1/pilot/acquire", content=hostile).status_code in (400, 422)
    nan = order(resources={"cores": float("nan")})
    assert client.post("/v1/pilot/acquire", content=json.dumps(nan)).status_code == 422


def test_nobody_fills_the_memory_of_the_service(client: TestClient) -> None:
    """Neither with what he says is so long, nor with what turns out to be; his token first."""
    said = {"Content-Length": str(BODY_MAX + 1)}
    assert client.post("/v1/pilot/report", content=b"", headers=said).status_code == 413
    said["Authorization"] = ""
    assert client.post("/v1/pilot/report", content=b"", headers=said).status_code == 401
    most = BODY_MAX // 2**20
    for pieces, code in ((most, "bad_input"), (most + 1, "http_413")):
        answer = client.post("/v1/pilot/report", content=repeat(b" " * 2**20, pieces))
        assert answer.json()["code"] == code


def test_who_may_ask(client: TestClient, world: World, engine: Engine) -> None:
    def asking(token: str | None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}" if token else ""}
        answer = client.post("/v1/pilot/acquire", json=order(), headers=headers)
        return answer.status_code, answer.json().get("code", "")

    with engine.begin() as tx:
        other = users.put_token(tx, "pilot", site="SITE_B")
        person = users.put_token(tx, "user", user_name="me")
        old = users.put_token(tx, "pilot", site="SITE_A", lifetime_s=-1)
        revoked = users.put_token(tx, "pilot", site="SITE_A")
        users.REVOKE_TOKEN.run(tx, hash=users.token_hash(revoked))
        kept = tx.scalars(text("SELECT token_hash FROM jedi_tokens")).all()
    assert not {other, person, old, revoked} & set(kept)
    assert asking(None) == (401, "no_token")
    assert asking("guess") == asking(old) == asking(revoked) == (401, "bad_token")
    assert asking(other) == (403, "wrong_site")
    assert asking(person) == (403, "not_a_pilot")


def test_a_known_token_takes_one_connection(client: TestClient, world: World) -> None:
    """A heartbeat takes one connection and one thread: a token that was good up to 5 s ago is
    confirmed where the work is done."""
    taken: list[Any] = []

    def take(*_: Any) -> None:
        taken.append(1)

    event.listen(Pool, "checkout", take)  # pilots have one of their own

    def beats() -> int:
        taken.clear()
        assert client.post("/v1/pilot/heartbeat", json={"beats": []}).status_code == 200
        return len(taken)

    assert beats() >= 2
    assert min(beats() for _ in range(5)) == 1  # knobs are read again now and then
    event.remove(Pool, "checkout", take)


@pytest.mark.parametrize("how", ["revoked_at", "expires_at"])
def test_a_known_token_that_is_revoked_ends_at_once(
    client: TestClient, world: World, how: str
) -> None:
    """It was good a moment ago, and does nothing more on any route."""
    asked: dict[str, Any] = {
        "acquire": order(),
        "report": {"reports": []},
        "heartbeat": {"beats": []},
        "log": {"entries": []},
    }
    with world.engine.begin() as tx:
        jobs_there = make_jobs(tx, 1).jobs
    assert client.post("/v1/pilot/heartbeat", json=asked["heartbeat"]).status_code == 200
    with world.engine.begin() as tx:
        tx.execute(text(f"UPDATE jedi_tokens SET {how} = jedi_now()"))
    answers = {route: client.post(f"/v1/pilot/{route}", json=body) for route, body in asked.items()}
    answers["sandbox"] = client.get("/v1/sandbox/0")
    got = {route: (answer.status_code, answer.json()["code"]) for route, answer in answers.items()}
    assert got == dict.fromkeys(answers, (401, "bad_token"))
    with world.engine.begin() as tx:
        status = text("SELECT status FROM jedi_jobs WHERE pandaid = :job")
        assert tx.scalar(status, {"job": jobs_there[0]}) == "activated"


def test_roles(engine: Engine) -> None:
    with engine.begin() as tx:
        assert users.role(tx, "me") == "user"
        for role in ("operator", "production"):
            users.PUT_USER.run(tx, user="me", role=role, gridpref=None, cap=None)
            assert users.role(tx, "me") == role


def test_errors_have_one_form(client: TestClient, world: World) -> None:
    assert client.get("/nothing").json()["code"] == "http_404"
    assert client.get("/v1/pilot/acquire").json()["code"] == "http_405"
    with world.engine.begin() as tx:
        tx.execute(text("DROP TABLE jedi_tokens"))
    broken = client.post("/v1/pilot/acquire", json=order())
    assert (broken.status_code, broken.json()["code"]) == (500, "internal")


def test_who_finds_all_connections_taken_may_try_again(world: World) -> None:
    with world.engine.begin() as tx:
        who = {"Authorization": f"Bearer {access.put_user_token(tx, 'ann', None, 'all', 60.0)}"}
    engine = connect(
        world.engine.url.render_as_string(False), pool_size=1, max_overflow=0, pool_timeout=0
    )
    asking = TestClient(create_app(replace(world, engine=engine)))
    with engine.connect():
        busy = asking.get("/v1/me", headers=who)
    assert (busy.status_code, busy.json()["code"]) == (503, "unreachable")
    assert asking.get("/v1/me", headers=who).status_code == 200
    engine.dispose()


# ------------------------------------------------------------------------------------- process


@pytest.fixture
def place(world: World) -> Iterator[Home]:
    """The home with its directories; as root they are elsewhere and must be removed."""
    home = Home(world.settings.home)
    home.prepare()
    yield home
    home.discard()


def test_the_socket_is_ours_alone_and_is_taken_over_from_the_dead(
    world: World, place: Home
) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        with running(world) as service, over(place) as client:
            assert stat.S_IMODE(place.api_socket.stat().st_mode) == 0o600
            assert client.get("/health").json() == {"status": "ok"}
            second = start(world)
            assert "answers at" in second.communicate(timeout=30)[1]
            assert second.returncode != 0
            assert client.get("/health").status_code == 200
            service.send_signal(number)
            assert service.wait(30) == (0 if number == signal.SIGTERM else -number)


def test_a_pilot_runs_a_job(world: World, place: Home, token: str) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2, files=1)
        tx.execute(
            text(
                "UPDATE jedi_job_params SET jobparameters = "
                "'cat input.$PANDAID.1 > output.$PANDAID.1; echo hello >&2'"
            )
        )
    put_file_dataset(
        world,
        f"test:{made.task}.input",
        {f"input.{job}.1": b"abc" for job in made.jobs},
        "SITE_A_DATADISK",
    )
    for kind in ("output", "log"):
        world.ddm.create(f"test:{made.task}.{kind}", "SITE_A_DATADISK")
    pilot = [
        sys.executable,
        "-I",
        str(Path(jedi.__file__).parent / "pilot"),
        "--site",
        "SITE_A",
        "--work",
        str(place.work),
        "--idle-s",
        "0",
    ]
    with running(world):
        subprocess.run(
            pilot,
            env={
                **os.environ,
                "JEDI_PILOT_URL": f"unix:{place.api_socket}",
                "JEDI_PILOT_TOKEN": token,
            },
            check=True,
            timeout=60,
        )
    Adder(world).run_once()
    with world.engine.begin() as tx:
        found = tx.execute(text("SELECT status, error_diag, wall_s IS NOT NULL FROM jedi_jobs"))
        assert found.all() == [("finished", None, True)] * 2
        tails = tx.scalars(text("SELECT stderr_tail FROM jedi_job_tail"))
        assert tails.all() == ["hello\n"] * 2
    outputs = {
        lfn: world.ddm.path("SITE_A_DATADISK", f"test:{made.task}.output", lfn).read_bytes()
        for lfn in (file.lfn for file in world.ddm.list_files(f"test:{made.task}.output"))
    }
    assert outputs == {f"output.{job}.1": b"abc" for job in made.jobs}


def test_a_lost_database_is_said_and_comes_back(world: World, place: Home, server: str) -> None:
    """`/health` (the process lives) and `/ready` (it can serve)."""
    name = world.engine.url.database
    with running(world), over(place) as client:
        assert client.get("/ready").status_code == 200
        on_server(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        on_server(
            server,
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        lost = client.get("/ready")
        assert (lost.status_code, lost.json()["code"]) == (503, "unreachable")
        assert client.get("/health").status_code == 200
        on_server(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert client.get("/ready").status_code == 200


def test_plain_tcp_is_loopback_only(world: World) -> None:
    for bad in (
        "0.0.0.0:1",
        "no-such-host.invalid:80",
        "127.0.0.1:",
        "::1:80",
        "127.0.0.1",
        ":1",
        "127.0.0.1:65536",
    ):
        with pytest.raises(BadInput, match="must be an address of this machine and a port"):
            listen_tcp(bad, secure=True)
    with pytest.raises(BadInput, match=r"needs a certificate, .*service\.crt and service\.key"):
        listen_tcp("192.0.2.1:8765", secure=False)
    with pytest.raises(Refused, match=r"can't listen at 192\.0\.2\.1:8765"):
        listen_tcp("192.0.2.1:8765", secure=True)  # an address of nobody's
    with listen_tcp("127.0.0.1:0", secure=False) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match="can't listen"):
            listen_tcp(f"127.0.0.1:{port}", secure=False)


def free_address(world: World, host: str) -> str:
    """Where the service is to listen."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"{host}:{free.getsockname()[1]}"
    with world.engine.begin() as tx:
        knobs.put(tx, "api.listen", address, "me")
    return address


def test_a_service_behind_tcp(world: World, place: Home) -> None:
    """And behind the unix socket, which people of this machine and their operators use."""
    address = free_address(world, "127.0.0.1")
    with running(world), over(place) as beside:
        assert httpx2.get(f"http://{address}/health").json() == {"status": "ok"}
        assert beside.get("/v1/me").json()["way"] == "socket"


def test_a_service_with_a_certificate(world: World, place: Home, token: str) -> None:
    address = free_address(world, "localhost")
    place.certificate.write_text("no certificate")
    died = start(world)
    assert "service.key are not a certificate with its key" in died.communicate(timeout=30)[1]
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            place.private_key,
            "-out",
            place.certificate,
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    trusting = {"JEDI_PILOT_CERTIFICATE": str(place.certificate)}
    with running(world):
        served = httpx2.get(
            f"https://{address}/health", verify=ssl.create_default_context(cafile=place.certificate)
        )
        assert served.json() == {"status": "ok"}
        with over(place) as beside:  # no TLS where the kernel vouches for the peer
            assert beside.get("/v1/me").json()["way"] == "socket"
        for more, code, said in (
            (trusting, 0, ""),
            ({}, 1, "certificate verify failed"),
            ({"JEDI_PILOT_URL": f"https://127.0.0.1:{address[10:]}", **trusting}, 1, "mismatch"),
        ):
            pilot = subprocess.run(
                [
                    sys.executable,
                    "-I",
                    str(Path(jedi.__file__).parent / "pilot"),
                    "--site",
                    "SITE_A",
                    "--work",
                    str(place.work),
                    "--idle-s",
                    "0",
                ],
                env={"JEDI_PILOT_URL": f"https://{address}", "JEDI_PILOT_TOKEN": token, **more},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (pilot.returncode, said in pilot.stderr) == (code, True), pilot.stderr


class Polite(BaseHTTPRequestHandler):
    """Answers everything with an empty object."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None:
        return


def test_a_renewed_certificate_is_trusted_by_living_pilots(tmp_path: Path) -> None:
    """As soon as it is there; until then what they have to say waits."""
    old, new = (trustme.CA().issue_cert("localhost") for _ in range(2))
    shown, file = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tmp_path / "service.crt"
    old.configure_cert(shown)
    old.cert_chain_pems[0].write_to_path(str(file))
    with ThreadingHTTPServer(("localhost", 0), Polite) as server:
        server.socket = shown.wrap_socket(server.socket, server_side=True)
        with serving(server):
            url = f"https://localhost:{server.server_address[1]}"
            living, late = (Wire(url, "token", Stop(), 0.0, str(file)) for _ in range(2))
            assert living.ask("report", {}) == {}
            new.configure_cert(shown)
            with pytest.raises(ServiceUnreachable, match="certificate verify failed"):
                living.ask("report", {})
            with pytest.raises(PilotRefused, match="certificate verify failed"):
                late.ask("acquire", {})
            new.cert_chain_pems[0].write_to_path(str(file))
            assert living.ask("report", {}) == {}
            file.unlink()
            with pytest.raises(ServiceUnreachable):
                living.ask("report", {})


def test_a_busy_server_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_unix(path), pytest.raises(Refused):
        listen_unix(path)
    listen_unix(path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
