"""Two services on two hosts behind nginx with TLS, one database: `a rolling restart under load
loses no request that was answered`.

Network namespaces are the hosts: the front with nginx, one and two with a service each, and a
laptop. Pairs of veth join the front with the others. The configuration is that of docs/operate.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import httpx2
import pytest
from sqlalchemy import text
from support.hosts import able, run
from support.job_rows import make_jobs
from support.service_process import over

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.taskbuffer.tasks.tasks import Move, move_tasks
from jedi.taskbuffer.users import access, users

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "operate.md"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
HOSTS = ("one", "two")
NEIGHBOURS = (*HOSTS, "laptop")
NET = "10.84.{}.{}"
PATIENCE_S = 60.0
NOTICED_S = 2.0
"""nginx uses a service again up to two seconds after its last error: it counts whole seconds."""

LOAD = Path(__file__).parents[1] / "support" / "service_load.py"


@dataclass
class Net:
    """The namespaces: the front joined with each of its neighbours."""

    number: int

    def name(self, host: str) -> str:
        return f"jedi-{self.number}-{host}"

    def address(self, host: str) -> str:
        """The address of a neighbour; `.1` is the front on the same line."""
        return NET.format(NEIGHBOURS.index(host) + 1, 2)

    def front(self, host: str) -> str:
        return NET.format(NEIGHBOURS.index(host) + 1, 1)

    def within(self, host: str, *words: str | Path) -> list[str]:
        """A command that runs on a host."""
        return ["nsenter", f"--net=/run/netns/{self.name(host)}", *map(str, words)]


@pytest.fixture
def net() -> Iterator[Net]:
    if not able() or NGINX is None:
        pytest.skip("needs root, network namespaces and nginx")
    found = Net(os.getpid())
    hosts = ("front", *NEIGHBOURS)
    for host in hosts:
        run("ip", "netns", "add", found.name(host))
    try:
        for number, host in enumerate(NEIGHBOURS):
            lines = (
                (found.name("front"), f"lan{number}", found.front(host)),
                (found.name(host), "lan0", found.address(host)),
            )
            run(
                "ip",
                "-n",
                found.name("front"),
                "link",
                "add",
                f"lan{number}",
                "type",
                "veth",
                "peer",
                "name",
                "lan0",
                "netns",
                found.name(host),
            )
            for name, link, ip in lines:
                run("ip", "-n", name, "address", "add", f"{ip}/24", "dev", link)
                run("ip", "-n", name, "link", "set", link, "up")
        yield found
    finally:
        for host in hosts:
            run("ip", "netns", "delete", found.name(host))


def certificate(directory: Path, name: str, shown: str) -> None:
    """As the page says."""
    run(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "3650",
        "-subj",
        "/CN=jedi.example.org",
        "-addext",
        f"subjectAltName={shown}",
        "-keyout",
        directory / f"{name}.key",
        "-out",
        directory / f"{name}.crt",
    )


class Service:
    """`jedi api` on a host, with a home of its own."""

    def __init__(self, net: Net, host: str, scratch: Path, url: str) -> None:
        self.home = Home(scratch / host)
        self.home.prepare()
        certificate(self.home.path, "service", "DNS:jedi.example.org")
        ours = {k: v for k, v in os.environ.items() if not k.startswith("JEDI_")}
        self._environment = {
            **ours,
            "JEDI_HOME": str(self.home.path),
            "JEDI_DATABASE_URL": url,
            "JEDI_LISTEN": f"{net.address(host)}:8765",
        }
        self._words = net.within(host, sys.executable, "-m", "jedi", "api")
        self._log = scratch / f"{host}.log"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words, env=self._environment, stdout=log, stderr=log
            )
        end = time.monotonic() + PATIENCE_S
        while not self._ready():
            assert time.monotonic() < end and self._process.poll() is None, self._log.read_text()
            time.sleep(0.05)

    def _ready(self) -> bool:
        try:  # the unix socket is on no network
            with over(self.home) as client:
                return client.get("/ready").status_code == 200
        except httpx2.TransportError:
            return False

    def stop(self) -> None:
        """SIGTERM, as systemd does it."""
        self._process.terminate()
        assert self._process.wait(PATIENCE_S) == 0, self._log.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.home.discard()

    def answers(self) -> Counter[tuple[str, int]]:
        """The answers in its access log by route and status."""
        lines = [json.loads(one) for one in self._log.read_text().splitlines() if '"route"' in one]
        return Counter((one["route"], one["status"]) for one in lines)


@contextmanager
def front(net: Net, scratch: Path) -> Iterator[None]:
    """nginx as on the page, with our addresses and files."""
    found = re.search(
        r"^    upstream jedi.*?^    server.*?^    }$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found
    conf = dedent(found[0])
    for theirs, ours in (
        ("jedi1.example.org:", f"{net.address('one')}:"),
        ("/etc/ssl", str(scratch)),
        ("jedi2.example.org:", f"{net.address('two')}:"),
    ):
        assert theirs in conf
        conf = conf.replace(theirs, ours)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {scratch}/{kind};\n" for kind in kinds)
    (scratch / "conf").write_text(
        f"user root;\npid {scratch}/pid;\nerror_log {scratch}/errors;\ndaemon off;\nevents {{}}\n"
        f"http {{\naccess_log {scratch}/access;\n{paths}{conf}\n}}\n"
    )
    words = net.within("front", str(NGINX), "-e", scratch / "errors", "-c", scratch / "conf")
    with subprocess.Popen(words) as process:
        try:
            probe = net.within("laptop", "bash", "-c", f"</dev/tcp/{net.front('laptop')}/443")
            while process.poll() is None:
                if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                    break
            yield
        finally:
            process.terminate()


@contextmanager
def load(
    net: Net, scratch: Path, tokens: tuple[str, str], task: int
) -> Iterator[dict[str, object]]:
    """Callers on the laptop; their record, filled at the end."""
    record: dict[str, object] = {}
    url = f"https://{net.front('laptop')}"
    words: list[str | Path] = [sys.executable, LOAD, url, scratch / "jedi.crt", *tokens, str(task)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        net.within("laptop", *words), stdin=pipe, stdout=pipe, text=True
    ) as callers:
        try:
            assert callers.stdout and callers.stdout.readline() == "ready\n"
            yield record
            record |= json.loads(callers.communicate(timeout=PATIENCE_S)[0])
        finally:
            callers.kill()


@pytest.mark.timeout(240)
def test_a_rolling_restart_loses_no_request(net: Net, world: World, tmp_path: Path) -> None:
    """Each service restarts while people submit, list and watch, and a pilot beats: nobody
    sees an error, and each submission that was answered is there once."""
    with world.engine.begin() as tx:
        task = make_jobs(tx, 1).task
        tokens = (
            access.put_user_token(tx, "anna", None, "all", 600.0),
            users.put_token(tx, "pilot", site="SITE_A"),
        )
    url = world.engine.url.render_as_string(hide_password=False)
    services = [Service(net, host, tmp_path, url) for host in HOSTS]
    certificate(tmp_path, "jedi", f"IP:{net.front('laptop')}")
    trusted = "".join(one.home.certificate.read_text() for one in services)
    (tmp_path / "jedi-services.crt").write_text(trusted)
    try:
        for service in services:
            service.start()
        with front(net, tmp_path), load(net, tmp_path, tokens, task) as record:
            for service in services:
                time.sleep(NOTICED_S)
                service.stop()
                service.start()
            time.sleep(NOTICED_S)
            with world.engine.begin() as tx:
                move_tasks(tx, [Move(task, None, "pending", "test", "test")], "test")
            time.sleep(NOTICED_S)
    finally:
        for service in services:
            service.kill()
    assert record["errors"] == []
    submitted = record["submitted"]
    assert isinstance(submitted, dict) and len(submitted) > 50
    assert record["statuses"] == ["running", "pending"]
    with world.engine.begin() as tx:
        rows = tx.execute(
            text("SELECT taskname, jeditaskid FROM jedi_tasks WHERE jeditaskid <> :task"),
            {"task": task},
        ).all()
    assert sorted(tuple(row) for row in rows) == sorted(submitted.items())
    for service in services:
        answers = service.answers()
        assert answers["/v1/tasks", 200] > 20 and answers["/v1/pilot/heartbeat", 200] > 20
        assert not [key for key in answers if key[1] >= 500]
