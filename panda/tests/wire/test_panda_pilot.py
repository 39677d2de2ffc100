"""The real pilot of PanDA, unmodified, runs jobs of JEDI. Outputs are judged by their content.

All pilots run at the same time, each in namespaces of its own (tests/support/pilot_jail.py): a run
takes a minute longer than its job.
"""

# Raw UPDATEs: commands that the job builder does not take.

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from jedi_panda.service import cache
from sqlalchemy import Engine, text
from support.databases import drop_database, new_database
from support.event_rows import make_job_set, ranges_of
from support.helpers import add_site, put_file_dataset
from support.job_rows import make_jobs
from support.pilot_jail import HOST, PORT
from support.pilot_world import tar_gz
from support.service_process import served

from jedi.agent.base import World
from jedi.core.settings import Settings
from jedi.ddm.filesystem import FileSystemDDM
from jedi.host.home import Home
from jedi.jobdispatcher.agent import Adder
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import PUT_USER

PACKAGE = "panda-pilot==3.7.0.36"
JAIL = Path(__file__).parents[3] / "tests/support/pilot_jail.py"
LONGEST_S = 420

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Case:
    """The commands of a site's jobs, their inputs, the options of its pilot."""

    commands: tuple[str, ...]
    inputs: int = 0
    options: tuple[str, ...] = ()
    sandbox: bool = False
    timefloor_min: int = 0


OUTPUT = "output.$PANDAID.1"
ARCHIVE = "jobO.6f0d6b0e-6b57-4a39-9a0c-0c8e1d2f7a41.tar.gz"
PRUN = (
    f'./jedi-run -j "" --sourceURL http://{HOST}:{PORT} -r . -a {ARCHIVE} '
    """-i "['input.PANDAID.1', 'input.PANDAID.2']" -o "{'out.dat': 'output.PANDAID.1'}" """
    '-p "bash%20run.sh%20%25IN%20%3E%20out.dat"'
)
"""A job of prun: its archive lies in the cache of the service."""
CASES = {
    "NO_INPUT": Case((f"echo data 101 > {OUTPUT}",)),
    "SANDBOX": Case((f"sh run.sh 'a b' > {OUTPUT}; cat sub/words >> {OUTPUT}",), sandbox=True),
    "FILES": Case((f"cat input.$PANDAID.1 input.$PANDAID.2 > {OUTPUT}",), inputs=2),
    "EXIT_7": Case((f"echo no > {OUTPUT}; exit 7",)),
    "MISSING": Case(("true",)),
    "KILL_START": Case((f"echo started > /dev/shm/jedi-never; echo 1 > {OUTPUT}",)),
    "KILL_BEAT": Case((f"sleep 900; echo 1 > {OUTPUT}",)),
    "TWO": Case((f"echo one > {OUTPUT}", f"echo two > {OUTPUT}"), timefloor_min=10),
    "NO_JOB": Case((), options=("-x", "1")),
    "PRUN": Case((PRUN,), inputs=2),
    "EVENTS": Case(()),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the pilot, from the registry of packages."""
    if sys.platform != "linux" or not all(map(shutil.which, ("unshare", "ip", "curl", "bash"))):
        pytest.skip("The pilot needs unshare, ip, curl and bash.")
    if not able():
        pytest.skip("This machine makes no namespaces.")
    place = tmp_path_factory.mktemp("pilot")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    words = [*pip, "--no-deps", "--no-binary", ":all:", "-d", str(place), PACKAGE]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(f"The registry has no {PACKAGE}.")
    [archive] = place.glob("*.tar.gz")
    subprocess.run(["tar", "-xf", archive, "-C", place], check=True)
    return next(path.parent for path in place.glob("*/pilot.py"))


def unshare(*command: str) -> list[str]:
    """A command in namespaces of its own."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    return [
        "unshare",
        *rights,
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--net",
        "--mount",
        *command,
    ]


def able() -> bool:
    return subprocess.run(unshare("true"), capture_output=True, check=False).returncode == 0


class Run:
    """All pilots, their jobs and their ends."""

    def __init__(self, engine: Engine, home: Path, source: Path) -> None:
        roots = {f"{site}_DATADISK": home / "storage" / site for site in CASES}
        with engine.begin() as tx:
            for site, case in CASES.items():
                (home / "storage" / site).mkdir(parents=True)
                (home / "storage" / site / ".panda").mkdir()
                catchall = json.dumps({"timefloor": case.timefloor_min})
                add_site(tx, site, f"{site}_DATADISK", home / "storage" / site, catchall=catchall)
        settings = Settings(home, engine.url.render_as_string(hide_password=False))
        self.world = World(engine, settings, knobs.load, lambda _tx, _knobs: FileSystemDDM(roots))
        self.world.refresh()
        self.home, self.source = home, source
        self.jobs = {site: self._make(site, case) for site, case in CASES.items()}
        self.codes: dict[str, int] = {}

    def _make(self, site: str, case: Case) -> list[int]:
        if not case.commands:
            return []
        with self.world.engine.begin() as tx:
            made = make_jobs(tx, len(case.commands), files=case.inputs, site=site)
            for panda_id, command in zip(made.jobs, case.commands, strict=True):
                tx.execute(
                    text("UPDATE jedi_job_params SET jobparameters = :command WHERE pandaid = :id"),
                    {"command": re.sub(r"(?<!\$)PANDAID", str(panda_id), command), "id": panda_id},
                )
            if case.sandbox:
                archive = tar_gz(
                    ("run.sh", b'echo "said $1"\n'), ("sub/words", b"of the sandbox\n")
                )
                name = hashlib.sha256(archive).hexdigest()
                stored = {"name": name, "data": archive, "task": made.task}
                tx.execute(text(_SANDBOX), stored)
        for kind in ("output", "log"):
            self.world.ddm.create(f"test:{made.task}.{kind}", f"{site}_DATADISK")
        if case.inputs:
            files = {f"input.{made.jobs[0]}.{n}": f"f{n}\n".encode() for n in (1, 2)}
            put_file_dataset(self.world, f"test:{made.task}.input", files, f"{site}_DATADISK")
        return made.jobs

    def start(self, site: str) -> subprocess.Popen[bytes]:
        """The pilot of a site."""
        work = self.home / "work" / site
        work.mkdir(parents=True)
        with self.world.engine.begin() as tx:
            token = users.put_token(tx, "pilot", site=site)
        script = {"script": self.communicate()} if site == "EVENTS" else {}
        settings = {
            **script,
            "source": str(self.source),
            "work": str(work),
            "queue": site,
            "token": token,
            "socket": str(Home(self.home).api_socket),
            "options": CASES[site].options,
            "inputs": self.world.ddm.exchange_where(f"{site}_DATADISK"),
        }
        return subprocess.Popen(unshare(sys.executable, str(JAIL), json.dumps(settings)))

    def communicate(self) -> str:
        """A script that drives the pilot's communicator for a consumer of ranges."""
        with self.world.engine.begin() as tx:
            self.events = make_job_set(tx, 3, site="EVENTS")
        made = self.events
        ask = {"jobid": made.consumers[0], "jobsetid": made.jobset, "taskid": made.task}
        return _COMMUNICATE.replace("ASK", repr({**ask, "num_ranges": 2}))

    def kill_when(self, site: str, status: str) -> None:
        """Ask for the end of a site's job as soon as it has a status."""
        [panda_id] = self.jobs[site]
        while True:
            with self.world.engine.begin() as tx:
                found = tx.scalar(
                    text("SELECT status FROM jedi_jobs WHERE pandaid = :id"), {"id": panda_id}
                )
                if found == status:
                    jobs.ASK_TO_KILL.run(tx, code="task_killed", ids=[panda_id])
                    return
            if found not in ("activated", "sent", "starting"):
                return
            time.sleep(0.2)

    def job(self, site: str, number: int = 0) -> dict[str, Any]:
        """The row of a job."""
        with self.world.engine.begin() as tx:
            asked = text("SELECT * FROM jedi_jobs WHERE pandaid = :id")
            return dict(tx.execute(asked, {"id": self.jobs[site][number]}).mappings().one())

    def output(self, site: str, number: int = 0, kind: str = "output") -> bytes:
        """The content of a published output of a job."""
        row = self.job(site, number)
        name = f"test:{row['jeditaskid']}.{kind}"
        lfn = f"{kind}.{row['pandaid']}.1"
        return self.world.ddm.path(f"{site}_DATADISK", name, lfn).read_bytes()

    def said(self, site: str) -> str:
        """The end of the pilot's own log."""
        return (self.home / "work" / site / "pilot.out").read_text(errors="replace")[-3_000:]


@pytest.fixture(scope="module")
def run(
    source: Path, server: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """Every pilot has ended, and the Adder has stored the outputs."""
    url = new_database(server, template)
    engine = connect(url)
    try:
        found = Run(engine, tmp_path_factory.mktemp("wire"), source)
        with engine.begin() as tx:  # before the pilot says that the job starts
            tx.execute(text(_KILL_AT_ONCE))
            PUT_USER.run(tx, user="me", role="user", gridpref=None, cap=None)
            script = b'echo -n "prun "; cat ${1//,/ }\n'
            cache.put(tx, found.world.knobs, "me", ARCHIVE, tar_gz(("run.sh", script)))
        with served(found.world):
            killer = threading.Thread(target=found.kill_when, args=("KILL_BEAT", "running"))
            pilots = {site: found.start(site) for site in CASES}
            killer.start()
            end = time.monotonic() + LONGEST_S
            for site, pilot in pilots.items():
                try:
                    found.codes[site] = pilot.wait(max(end - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    pilot.kill()
                    pilot.wait()
            killer.join(10)
        Adder(found.world).run_once()
        yield found
    finally:
        engine.dispose()
        drop_database(server, url)


_COMMUNICATE = """
import json
from types import SimpleNamespace
from pilot.eventservice.communicationmanager.plugins.pandacommunicator import PandaCommunicator

speaker, got = PandaCommunicator(), []
for _ in range(3):
    answer = speaker.get_events(SimpleNamespace(**ASK))
    assert answer.status == 0, answer
    got.append(answer.content)
first = [{"eventRangeID": one["eventRangeID"], "eventStatus": "finished"} for one in got[0]]
last = [{"eventRangeID": got[1][0]["eventRangeID"], "eventStatus": "failed", "errorCode": 1220}]
zipped = {"zipFile": {"numEvents": 2, "objstoreID": "1", "lfn": "es.zip", "fsize": 3,
                      "adler32": "00000001", "pathConvention": 1}, "eventRanges": first}
for version, entries in ((1, [zipped]), (0, last)):
    fields = {"eventRanges": json.dumps(entries), "version": version}
    answer = speaker.update_events(SimpleNamespace(update_events=fields))
    assert answer.content["StatusCode"] == 0, answer
    got.append(answer.content)
with open("answers.json", "w") as file:
    json.dump(got, file)
"""
_SANDBOX = """
WITH s AS (INSERT INTO jedi_sandboxes (sha256, data) VALUES (:name, :data))
UPDATE jedi_taskparams SET sandbox_sha256 = :name WHERE jeditaskid = :task
"""
_KILL_AT_ONCE = """
CREATE FUNCTION kill_at_once() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN NEW.kill_code := 'task_killed'; RETURN NEW; END$$;
CREATE TRIGGER kill_at_once BEFORE UPDATE OF status ON jedi_jobs FOR EACH ROW
WHEN (NEW.status = 'sent' AND NEW.site = 'KILL_START') EXECUTE FUNCTION kill_at_once()
"""


def must_have_made(run: Run, site: str, content: bytes) -> None:
    """A job is finished, its output and log are published, and its exchange directory is gone."""
    row = run.job(site)
    assert row["status"] == "finished", (row, run.said(site))
    assert run.output(site) == content
    with tarfile.open(fileobj=BytesIO(run.output(site, kind="log"))) as log:
        assert any(name.endswith("payload.stdout") for name in log.getnames())
    attempt = (row["pandaid"], row["lock_seq"])
    assert attempt not in run.world.ddm.staged(f"{site}_DATADISK")


def test_a_job_without_input(run: Run) -> None:
    must_have_made(run, "NO_INPUT", b"data 101\n")


def test_a_job_with_a_sandbox(run: Run) -> None:
    must_have_made(run, "SANDBOX", b"said a b\nof the sandbox\n")


def test_a_job_with_inputs(run: Run) -> None:
    must_have_made(run, "FILES", b"f1\nf2\n")


def test_a_job_of_prun(run: Run) -> None:
    must_have_made(run, "PRUN", b"prun f1\nf2\n")


def test_an_exit_code_fails_the_job(run: Run) -> None:
    row = run.job("EXIT_7")
    found = (row["status"], row["error_code"], row["exit_code"])
    assert found == ("failed", "payload_exit", 7), run.said("EXIT_7")
    assert run.output("EXIT_7", kind="log")


def test_a_missing_output_fails_the_job(run: Run) -> None:
    row = run.job("MISSING")
    assert (row["status"], row["error_code"]) == ("failed", "output_missing"), run.said("MISSING")
    assert f"output.{row['pandaid']}.1" in row["error_diag"]


def test_a_job_that_is_killed_before_it_starts(run: Run) -> None:
    row = run.job("KILL_START")
    assert (row["status"], row["kill_code"]) == ("cancelled", "task_killed"), run.said("KILL_START")
    assert not Path("/dev/shm/jedi-never").exists()


def test_a_job_that_is_killed_while_it_runs(run: Run) -> None:
    row = run.job("KILL_BEAT")
    assert (row["status"], row["kill_code"]) == ("cancelled", "task_killed"), run.said("KILL_BEAT")
    assert "error 1144" in row["error_diag"]


def test_two_jobs_of_one_pilot(run: Run) -> None:
    assert [run.job("TWO", n)["status"] for n in (0, 1)] == ["finished"] * 2, run.said("TWO")
    assert [run.output("TWO", n) for n in (0, 1)] == [b"one\n", b"two\n"]
    assert run.job("TWO", 0)["pilot_id"] == run.job("TWO", 1)["pilot_id"]


def test_no_job(run: Run) -> None:
    assert "did not get a job" in (run.home / "work/NO_JOB/pilot.out").read_text()
    assert run.codes["NO_JOB"] == 0


def test_the_communicator_gets_and_reports_ranges(run: Run) -> None:
    assert run.codes["EVENTS"] == 0, run.said("EVENTS")
    got = json.loads((run.home / "work/EVENTS/answers.json").read_text())
    assert [len(one) for one in got[:3]] == [2, 1, 0]
    assert [one["Returns"] for one in got[3:]] == [[True, True], [True]]
    assert sorted(one[4] for one in ranges_of(run.world.engine, run.events.task)) == [3, 3, 7]
