"""The remote trial: somebody on another host, with the client alone, works through the service.

Two network namespaces are the hosts `server` and `laptop`; a pair of veth joins them. On the laptop
works another account, whose virtual environment has `jedi-client` and nothing of the server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from support.hosts import NOBODY, PYTHON, able, run

from jedi.demo.__main__ import still_running
from jedi.host.home import Home

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).parents[2]
SERVER_IP, LAPTOP_IP, PORT = "10.83.0.1", "10.83.0.2", 8765
URL = f"https://{SERVER_IP}:{PORT}"
TASK = """
taskName: greetings
noInput: true
nFiles: 3
sandbox: [greet.sh, names.txt]
jobParameters:
  - {type: constant, value: sh greet.sh}
  - {type: template, param_type: output, value: "> greeting.${SN}.txt", dataset: "user.nobody:hi"}
"""
FILES = {"task.yaml": TASK, "greet.sh": "sed 's/^/Hello, /' names.txt\n", "names.txt": "Ana\nBo\n"}


@dataclass(frozen=True)
class Host:
    """A network namespace, and the account and environment of its commands."""

    name: str
    account: int
    environment: dict[str, str]
    directory: Path

    def ask(self, *command: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command here, with `given` as its input."""
        words = [
            "nsenter",
            f"--net=/run/netns/{self.name}",
            "setpriv",
            f"--reuid={self.account}",
            f"--regid={self.account}",
            "--clear-groups",
            *map(str, command),
        ]
        return subprocess.run(
            words,
            cwd=self.directory,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    def call(self, *command: str | Path, given: str = "") -> str:
        """The output of a command that must succeed."""
        done = self.ask(*command, given=given)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@dataclass(frozen=True)
class Trial:
    """Both hosts, and the programs of each."""

    server: Host
    laptop: Host
    home: Home
    bin: Path

    def jedi(self, *words: str) -> str:
        """An operator runs `jedi` on the server."""
        return self.server.call(sys.executable, "-m", "jedi", *words)

    def own(self, *words: str) -> str:
        """The operator runs `jedi-task` on the server, over the unix socket of the home."""
        code = "from jedi_client.cli.task import main; main()"
        return self.server.call(sys.executable, "-c", code, *words)

    def task(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run `jedi-task` on the laptop."""
        return self.laptop.ask(self.bin / "jedi-task", *words, given=given)


@pytest.fixture(scope="module")
def names() -> Iterator[tuple[str, str]]:
    """The two namespaces, joined."""
    if not able():
        pytest.skip("needs root, network namespaces and a Python that others may run")
    server, laptop = (f"jedi-{os.getpid()}-{end}" for end in ("server", "laptop"))
    for name in (server, laptop):
        run("ip", "netns", "add", name)
    try:
        run(
            "ip",
            "-n",
            server,
            "link",
            "add",
            "lan0",
            "type",
            "veth",
            "peer",
            "name",
            "lan0",
            "netns",
            laptop,
        )
        for name, ip in ((server, SERVER_IP), (laptop, LAPTOP_IP)):
            run("ip", "-n", name, "address", "add", f"{ip}/24", "dev", "lan0")
            for link in ("lan0", "lo"):
                run("ip", "-n", name, "link", "set", link, "up")
        yield server, laptop
    finally:
        for name in (server, laptop):
            run("ip", "netns", "delete", name)


@pytest.fixture(scope="module")
def trial(names: tuple[str, str]) -> Iterator[Trial]:
    """A system that listens at the server's address with TLS, and the client on the laptop."""
    scratch = Path(tempfile.mkdtemp(prefix="jedi-remote-"))
    scratch.chmod(0o755)
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("JEDI_", "PYTHON", "XDG_"))}
    home, desk = Home(scratch / "home"), scratch / "desk"
    desk.mkdir()
    for name, text in FILES.items():
        (desk / name).write_text(text)
    for path in (desk, *desk.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    server_environment = {
        **ours,
        "JEDI_HOME": str(home.path),
        "PYTHONPATH": str(CHECKOUT / "client" / "src"),
    }
    found = Trial(
        Host(names[0], 0, server_environment, CHECKOUT),
        Host(names[1], NOBODY, {"PATH": "/usr/bin:/bin", "HOME": str(desk)}, desk),
        home,
        install(scratch),
    )
    try:
        start(found)
        yield found
    finally:
        found.jedi("down", "--drain", "0")
        assert not still_running(home)
        home.discard()
        shutil.rmtree(scratch)


def install(scratch: Path) -> Path:
    """Install `jedi-client` alone, with its dependencies, as `pip install ./client` does; from
    what is installed here, so that nothing is downloaded. The directory of the programs."""
    venv, wheels = scratch / "laptop", scratch / "wheels"
    run(PYTHON, "-m", "venv", "--without-pip", venv)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, CHECKOUT / "client")
    run(
        *pip,
        "--python",
        venv / "bin" / "python",
        "install",
        "--no-deps",
        "--no-index",
        *wheels.iterdir(),
    )
    (site,) = venv.glob("lib/python*/site-packages")
    for name in needed("jedi-client") - {"jedi-client"}:
        for file in metadata.files(name) or ():
            if ".." not in file.parts:
                target = site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target)
    return venv / "bin"


def needed(name: str) -> set[str]:
    """A distribution with all that it requires here."""
    found, open_ = set[str](), [name]
    while open_:
        one = open_.pop()
        if one in found:
            continue
        try:
            lines = metadata.requires(one) or []
        except metadata.PackageNotFoundError:  # for another platform
            continue
        found.add(one)
        open_ += [re.split(r"[^\w.-]", line)[0] for line in lines if "extra ==" not in line]
    return found


def start(trial: Trial) -> None:
    """As docs/operate.md says it."""
    trial.jedi("up", "--detach")
    run(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=jedi",
        "-addext",
        f"subjectAltName=IP:{SERVER_IP}",
        "-keyout",
        trial.home.private_key,
        "-out",
        trial.home.certificate,
    )
    shutil.copy(trial.home.certificate, trial.laptop.directory / "jedi.crt")
    trial.jedi("config", "set", "api.listen", f"{SERVER_IP}:{PORT}")
    trial.jedi("config", "set", "api.socket_group", "nogroup")
    trial.jedi("down", "--drain", "0")
    trial.jedi("up", "--detach")


@pytest.mark.timeout(600)  # two starts of a whole system
def test_the_laptop_has_nothing_of_the_server(trial: Trial) -> None:
    """`pip install ./client` is all that a user of a remote JEDI needs."""
    code = (
        "import jedi_client, jedi_client.cli.task, importlib.util as u\n"
        "print([u.find_spec(name) for name in ('jedi', 'sqlalchemy', 'numpy', 'psycopg')])"
    )
    assert trial.laptop.call(trial.bin / "python", "-c", code) == "[None, None, None, None]\n"
    assert trial.laptop.ask("cat", trial.home.certificate).returncode != 0  # nor its home
    lost = trial.task("whoami")
    assert (lost.returncode, "jedi-task login" in lost.stderr) == (3, True)


@pytest.mark.timeout(600)
def test_somebody_elsewhere_works_with_jedi(trial: Trial) -> None:
    """Log in with a token, submit local files, watch, get verified results, add files to a dataset;
    be refused somebody else's task and scope; after the revocation, be refused altogether."""
    foreign = json.loads(trial.own("submit", "examples/hello.yaml", "--json"))["jedi_task_id"]
    token = first_token(trial)
    log_in(trial, token)
    done = trial.task("submit", "task.yaml", "--json")
    assert done.returncode == 0, done.stderr
    mine = str(json.loads(done.stdout)["jedi_task_id"])
    watched = trial.task("watch", mine)
    assert (watched.returncode, "done" in watched.stdout) == (0, True), watched.stderr
    fetched = trial.task("get", mine, "results")
    assert "Files copied to results: 3; every adler32 is right." in fetched.stdout, fetched.stderr
    results = sorted((trial.laptop.directory / "results").iterdir())
    assert [file.read_text() for file in results] == ["Hello, Ana\nHello, Bo\n"] * 3
    added = trial.task("dataset", "add", "user.nobody:names", "names.txt")
    assert added.stdout == "Files put into user.nobody:names: 1.\n", added.stderr
    [there] = json.loads(trial.task("dataset", "list", "user.nobody:names", "--json").stdout)[
        "files"
    ]
    assert (there["lfn"], there["size"]) == ("names.txt", 7)
    strange = trial.task("dataset", "add", "user.root:names", "names.txt")
    assert (strange.returncode, "may change datasets of the scope" in strange.stderr) == (1, True)
    refused = trial.task("kill", str(foreign))
    assert (refused.returncode, "belongs to" in refused.stdout + refused.stderr) == (1, True)
    assert json.loads(trial.own("show", str(foreign), "--json"))["task"]["status"] != "aborted"
    [listed] = json.loads(trial.task("token", "list", "--json").stdout)
    assert trial.task("token", "revoke", listed["token_id"]).returncode == 0
    gone = trial.task("list")
    assert (gone.returncode, "revoked" in gone.stderr) == (1, True)
    audit = json.loads(trial.jedi("audit", "list", "--user", "nobody", "--json"))
    assert [(one["operation"], one["way"]) for one in reversed(audit)] == [
        ("token.create", "socket"),
        ("sandbox.put", "token"),
        ("task.submit", "token"),
        ("dataset.add", "token"),
        ("task.kill", "token"),
        ("token.revoke", "token"),
    ]
    places = {one["address"].partition(":")[0] for one in audit if one["way"] == "token"}
    assert places == {LAPTOP_IP}


def first_token(trial: Trial) -> str:
    """The account makes its token on the server, over the unix socket that its group may use."""
    environment = {**trial.laptop.environment, "JEDI_URL": f"unix:{trial.home.api_socket}"}
    there = Host(trial.server.name, NOBODY, environment, trial.laptop.directory)
    return there.call(trial.bin / "jedi-task", "token", "create", "--name", "laptop")


def log_in(trial: Trial, token: str) -> None:
    """By the service's certificate as authority, or pinned; never without either."""
    blind = trial.task("login", URL, "--token-file", "-", given=token)
    assert (blind.returncode, "--ca FILE or --pin" in blind.stderr) == (3, True)
    shown = run(
        "openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", trial.home.certificate
    )
    pin = shown.strip().partition("=")[2]
    for trust in (["--ca", "jedi.crt"], ["--pin", pin, "--name", "pinned"]):
        said = trial.task("login", URL, "--token-file", "-", *trust, given=token)
        assert f"You are nobody (user) at {URL}" in said.stdout, said.stderr
    who = json.loads(trial.task("--profile", "pinned", "whoami", "--json").stdout)
    assert (who["way"], who["scope"], who["service"]) == ("token", "all", URL)
