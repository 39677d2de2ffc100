"""Snakemake with snakemake-executor-plugin-panda, unmodified, runs a workflow of three rules in a
running system. See docs/panda.md#clients."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from scenarios.real_system import SITES, System
from support.hosts import NOBODY

from jedi.demo.__main__ import still_running
from jedi.model.queries import TaskQuery
from jedi.service.tasks import task_details

pytestmark = pytest.mark.long

PACKAGES = (
    "snakemake",
    "snakemake-storage-plugin-fs",
    "snakemake-executor-plugin-panda",
    "panda-client==2.2.0",
)
USER = "veprbl"
"""The plug-in names its outputs `user.veprbl.UUID`, whoever runs it."""

RSYNC = """#!/bin/sh
exec /usr/bin/rsync --chmod=D777,F666 "$@"
"""
"""The policy of the storage: each payload has an account of its own, and all share these files."""

RULES = """
rule all:
    input: "c.txt"
rule a:
    output: "a.txt"
    shell: "echo one > {output}"
rule b:
    input: "a.txt"
    output: "b.txt"
    shell: "cat {input} > {output}; echo two >> {output}"
rule c:
    input: "b.txt"
    output: "c.txt"
    shell: "cat {input} > {output}; echo three >> {output}"
"""


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """A directory that payloads see, with Snakemake in an environment for every account."""
    python = next((one for one in (sys.executable, "/usr/bin/python3") if fits(one)), None)
    if not python:
        pytest.skip("Payloads have no Python 3.11 or newer here.")
    if not shutil.which("rsync"):
        pytest.skip("Snakemake's plug-in for storage needs rsync.")
    place = Path(tempfile.mkdtemp(prefix="jedi-snakemake-"))
    place.chmod(0o755)
    try:
        if not install(python, place / "venv"):
            pytest.skip(f"The registry lacks one of {', '.join(PACKAGES)}.")
        yield place
    finally:
        shutil.rmtree(place)


def fits(python: str) -> bool:
    """True if the accounts of payloads may run a Python that is new enough."""
    enter = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    code = "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"
    ask = ["/bin/sh", "-c", '"$0" "$@"', os.path.realpath(python), "-c", code]
    words = [*([] if os.geteuid() else enter), *ask]  # setpriv itself may enter everywhere
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def install(python: str, place: Path) -> bool:
    subprocess.run([os.path.realpath(python), "-m", "venv", place], check=True)
    wrapper = place / "bin/rsync"
    wrapper.write_text(RSYNC)
    wrapper.chmod(0o755)
    pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet"]
    words = [*pip, "--disable-pip-version-check", *PACKAGES]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def running(
    scratch: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[System, str]]:
    """A system that listens, and its address. Sites have the disk space that Snakemake wants."""
    found = System(tmp_path_factory.mktemp("wire"))
    found.site_file.write_text(json.dumps([{**site, "maxwdir": 4000} for site in SITES]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    try:
        found.up()
        found.put("api.listen", address)
        found.put("prun.vo", "local")
        found.put("pilot.share", scratch)
        found.call("down", "--drain", "0")
        found.up()
        found.put("pilot.max_processes", 200)
        yield found, f"http://{address}/server/panda"
    finally:
        if still_running(found.home):
            found.down()
        found.home.discard()


def test_a_workflow_of_three_rules(running: tuple[System, str], scratch: Path) -> None:
    """Each rule is a task; the last file has a line of each rule."""
    system, url = running
    with Client(Profile(f"unix:{system.home.api_socket}")) as client:
        token = client.token_create(name="snakemake", days=1, user=USER).jwt
    assert token
    store, work, venv = scratch / "store", scratch / "work", scratch / "venv"
    for place in (store, work):
        place.mkdir()
        place.chmod(0o777)
    (work / "Snakefile").write_text(RULES)
    [packages] = venv.glob("lib/python*/site-packages")
    environment = {
        "HOME": str(work),
        "PATH": f"{venv / 'bin'}:/usr/bin:/bin",
        **dict.fromkeys(("PANDA_URL", "PANDA_URL_SSL", "PANDACACHE_URL"), url),
        **{"PANDA_BEHIND_REAL_LB": "1", "PANDA_AUTH": "oidc", "PANDA_AUTH_VO": "local"},
        **{"PANDA_AUTH_ID_TOKEN": token, "PANDA_CONFIG_ROOT": str(work), "PANDA_SYS": str(venv)},
        **{"PANDA_PYTHONPATH": str(packages), "VIRTUAL_ENV": str(venv)},
        **{"PANDA_VO": "local", "PANDA_SITE": "SITE_A"},
    }
    done = subprocess.run(
        [
            venv / "bin/snakemake",
            "--executor",
            "panda",
            "--jobs",
            "2",
            "--default-storage-provider",
            "fs",
            "--default-storage-prefix",
            store,
            "--seconds-between-status-checks",
            "1",
            "--panda-pre-script",
            f"export PATH={venv / 'bin'}:$PATH HOME=$PWD PANDACACHE_URL={url}",
        ],
        cwd=work,
        env=environment,
        text=True,
        check=False,
        timeout=280,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    [made] = store.rglob("c.txt")
    assert made.read_text() == "one\ntwo\nthree\n"
    assert done.stdout.count("Task id ") == 3
    with system.engine.begin() as tx:
        found = task_details.find(tx, TaskQuery(user=USER))
    assert [task.status for task in found] == ["done"] * 3
