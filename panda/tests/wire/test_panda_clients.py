"""Real panda-client of three versions submits and steers tasks of a running system. Outputs are
judged by their content. See docs/panda.md#clients."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from scenarios.real_system import SITES, System, until
from support.panda_clients import PandaClient, installed

from jedi.core.settings import caller
from jedi.demo.__main__ import still_running

pytestmark = pytest.mark.long

VERSIONS = ("2.2.0", "2.0.7", "1.7.6")
USER = caller()
APPTAINER = '#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n'
"""Stand-in: it runs its command here, for no image can be had."""

FILES = {"run.sh": "echo data $1 > out.dat\n", "join.sh": 'cat $(echo "$1" | tr , " ") > $2\n'}
CASES = {
    "seeds": ("bash run.sh %RNDM:100", "--noBuild", "--nJobs", "2", "--outputs", "out.dat"),
    "build": (
        "bash join.sh built,%IN out.dat; bash join.sh %IN h.root",
        "--bexec",
        "echo built > built",
        "--inDS",
        f"user.{USER}.input1",
        "--nFilesPerJob",
        "2",
        "--outputs",
        "out.dat,h:h.root",
        "--site",
        "SITE_A",
    ),
    "merged": (
        "bash join.sh %IN,%SEC out.dat",
        "--inDS",
        f"user.{USER}.input1/",
        "--secondaryDSs",
        f"SEC:2:user.{USER}.sec/",
        "--nFilesPerJob",
        "2",
        "--mergeOutput",
        "--memory",
        "2000",
        "--nCore",
        "8",
        "--noBuild",
        "--outputs",
        "out.dat",
    ),
    "container": (
        "echo x > o.txt",
        "--containerImage",
        "docker://busybox",
        "--outputs",
        "o.txt",
        "--nJobs",
        "1",
        "--site",
        "SITE_C",
    ),
    "asleep": ("sleep 900", "--noBuild", "--outputs", "o", "--nJobs", "1"),
    "failing": ("exit 7", "--noBuild", "--outputs", "o", "--nJobs", "1", "--maxAttempt", "1"),
}


@dataclass(frozen=True)
class Wire:
    """A running system, its address, the token of its operator and of somebody else."""

    system: System
    server: str
    token: str
    stranger: str


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A system that listens. Payloads of SITE_C have a stand-in for containers."""
    tools = Path(tempfile.mkdtemp(prefix="jedi-tools-"))
    tools.chmod(0o755)
    (tools / "apptainer").write_text(APPTAINER)
    (tools / "apptainer").chmod(0o755)
    system = System(tmp_path_factory.mktemp("wire"))
    sites = [
        *SITES,
        {**SITES[0], "site": "SITE_M", "nslots": 8, "corecount": 8},
        {**SITES[0], "site": "SITE_C", "batch": {"path": str(tools)}},
    ]
    system.site_file.write_text(json.dumps(sites))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    try:
        system.up()
        for name, value in {
            "api.listen": address,
            "prun.vo": "local",
            "pilot.share": tools,
        }.items():
            system.put(name, value)
        system.call("down", "--drain", "0")
        system.up()
        for name in ("input1", "sec"):
            system.texts(f"user.{USER}:user.{USER}.{name}", 4, "DISK_A")
        with Client(Profile(f"unix:{system.home.api_socket}")) as client:
            ours = client.token_create(name="wire", days=1).jwt
            other = client.token_create(name="wire", days=1, user="other").jwt
        assert ours and other
        yield Wire(system, f"http://{address}", ours, other)
    finally:
        if still_running(system.home):
            system.down()
        system.home.discard()
        shutil.rmtree(tools)


@pytest.fixture(scope="module", params=VERSIONS)
def client(
    request: pytest.FixtureRequest, wire: Wire, tmp_path_factory: pytest.TempPathFactory
) -> PandaClient:
    """panda-client of a version, in a directory with the files of a user."""
    cache = getattr(request.config, "cache", None)
    directory = cache.mkdir("panda-clients") if cache else tmp_path_factory.mktemp("clients")
    place = installed(directory, request.param)
    if place is None:
        pytest.skip(f"The registry has no panda-client=={request.param}.")
    if request.param == "1.7.6" and not shutil.which("curl"):
        pytest.skip("panda-client 1.7.6 needs curl.")
    files = tmp_path_factory.mktemp("user") / "files"
    files.mkdir()
    for name, text in FILES.items():
        (files / name).write_text(text)
    return PandaClient(request.param, place, wire.server, wire.token, files)


@pytest.fixture(scope="module")
def tasks(client: PandaClient) -> dict[str, int]:
    """A task of each case."""
    suffix = client.version.replace(".", "")

    def submit(name: str) -> int:
        command, *options = CASES[name]
        return client.submit(command, f"user.{USER}.{name}{suffix}", *options)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CASES, pool.map(submit, CASES), strict=True))


def inputs(name: str, *numbers: int) -> list[str]:
    return [f"user.{USER}:user.{USER}.{name}.{number:03}" for number in numbers]


def outputs(wire: Wire, task: int, ending: str) -> list[list[str]]:
    """The lines of each output of a task with this ending."""
    found = [path for path in wire.system.outputs(task) if path.name.endswith(ending)]
    return sorted(path.read_text().splitlines() for path in found)


def test_jobs_have_their_own_seeds(wire: Wire, tasks: dict[str, int]) -> None:
    """prun --exec 'bash run.sh %RNDM:100' --noBuild --nJobs 2 --outputs out.dat"""
    assert wire.system.settle(tasks["seeds"]) == ["done"]
    assert outputs(wire, tasks["seeds"], ".out.dat") == [["data 101"], ["data 102"]]


def test_jobs_use_what_a_build_job_made(wire: Wire, tasks: dict[str, int]) -> None:
    """prun --bexec ... --inDS ... --nFilesPerJob 2 --outputs out.dat,h:h.root --site SITE_A"""
    assert wire.system.settle(tasks["build"]) == ["done"]
    halves = [inputs("input1", 0, 1), inputs("input1", 2, 3)]
    assert outputs(wire, tasks["build"], ".out.dat") == [["built", *half] for half in halves]
    assert outputs(wire, tasks["build"], ".h.root") == halves


def test_outputs_of_two_streams_are_merged(wire: Wire, tasks: dict[str, int]) -> None:
    """prun --secondaryDSs SEC:2:... --mergeOutput --memory 2000 --nCore 8 --noBuild"""
    assert wire.system.settle(tasks["merged"]) == ["done"]
    [lines] = outputs(wire, tasks["merged"], ".out.dat")
    assert sorted(lines) == sorted([*inputs("input1", 0, 1, 2, 3), *inputs("sec", 0, 1, 2, 3)])


def test_a_container_runs_the_command(wire: Wire, tasks: dict[str, int]) -> None:
    """prun --containerImage docker://busybox --exec 'echo x > o.txt' --outputs o.txt --nJobs 1"""
    assert wire.system.settle(tasks["container"]) == ["done"]
    assert outputs(wire, tasks["container"], ".o.txt") == [["x"]]


def test_outputs_of_others_are_refused(client: PandaClient) -> None:
    """prun --outDS user.other.a5 ... (must be refused)"""
    options = ("--noBuild", "--outputs", "o", "--nJobs", "1")
    done = client.run("prun", "--exec", "true", "--outDS", "user.other.a5", *options)
    assert done.returncode == 10
    assert f"outDS must be 'user.{USER}." in done.stdout


def test_another_command_under_a_name_is_kept_out(
    client: PandaClient, tasks: dict[str, int]
) -> None:
    """JEDI document, "Task retry and resubmission": "Other parameters are not changed even if they
    show up in the cliParams field". The answer names them."""
    out_ds = f"user.{USER}.seeds{client.version.replace('.', '')}"
    options = ("--noBuild", "--outputs", "out.dat", "--nJobs", "1")
    done = client.run("prun", "--exec", "bash run.sh 1", "--outDS", out_ds, *options)
    assert done.returncode == 0
    assert f"a resubmission of task {tasks['seeds']} does not change it" in done.stdout


def test_pbook_shows_tasks(wire: Wire, client: PandaClient, tasks: dict[str, int]) -> None:
    """pbook show; pbook show ID --format long"""
    wire.system.settle(tasks["seeds"])
    shown = client.pbook("show")
    for name, task in tasks.items():
        assert f"{task} " in shown and f"user.{USER}.{name}" in shown
    line = client.pbook("show", str(tasks["seeds"]), client.option("format=long"))
    assert f"user.{USER}.seeds" in line and "done" in line and "100%" in line
    assert f"user.{USER}.build" not in line


def test_pbook_retries_failed_tasks(wire: Wire, client: PandaClient, tasks: dict[str, int]) -> None:
    """pbook retry ID; pbook retry ID --nFilesPerJob 5"""
    failing, build = tasks["failing"], tasks["build"]
    assert wire.system.settle(failing) == ["failed"]
    assert "Failed" not in client.pbook("retry", str(failing))
    until(lambda: "toretry" in wire.system.statuses(failing), "its retry begins")
    refused = client.pbook("retry", str(tasks["asleep"]))
    assert "can't be retried" in refused and "Failed to retry" in refused
    wire.system.settle(build)
    assert "Failed" not in client.pbook("retry", str(build), client.option("nFilesPerJob=5"))
    assert wire.system.settle(build) == ["done"]


def test_pbook_finishes_and_kills_tasks(
    wire: Wire, client: PandaClient, tasks: dict[str, int]
) -> None:
    """pbook finish ID --soft; pbook kill ID; pbook kill 99999999 (must fail); another's task"""
    task = tasks["asleep"]
    stranger = replace(client, token=wire.stranger)
    assert f"Permission denied: reqID={task}" in stranger.pbook("kill", str(task))
    status, answer = stranger.post("task/kill", task_id=task)
    assert (status, answer["success"]) == (200, False)
    assert f"Task {task} belongs to {USER}" in answer["message"]
    until(lambda: wire.system.payloads(task), "its job runs")  # else nothing is left to kill
    assert "will be finished soon" in client.pbook("finish", str(task), "--soft")
    assert "will be killed" in client.pbook("kill", str(task))
    assert wire.system.settle(task) == ["aborted"]
    missing = client.pbook("kill", "99999999")
    assert "There is no task 99999999." in missing and "Failed to kill" in missing


def test_a_bad_token_is_no_contact(client: PandaClient, tasks: dict[str, int]) -> None:
    """Clients take any status but 200 for a failure."""
    parts = ({"alg": "none"}, {"name": USER, "preferred_username": USER})
    words = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    liar = replace(client, token=".".join([*words, "x"]).replace("=", ""))
    assert liar.post("task/kill", task_id=tasks["seeds"])[0] == 403
    assert "seeds" not in liar.pbook("show")
    options = ("--noBuild", "--outputs", "o", "--nJobs", "1")
    done = liar.run("prun", "--exec", "true", "--outDS", f"user.{USER}.liar", *options)
    assert done.returncode != 0 and "jediTaskID" not in done.stdout
