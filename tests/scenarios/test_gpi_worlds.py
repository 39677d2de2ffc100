"""One suite for all places where jobs of the Python interface run: this machine, JEDI by its unix
socket, and JEDI by HTTP with a token, where the client or the server splits. Jobs on JEDI are run
by real pilots.

Expected values, by hand: rows 22 and 23 of the Ganga documents, and the checks of its own suite.
"""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jedi_client import (
    JEDI,
    ArgSplitter,
    Dataset,
    Executable,
    File,
    FileSplitter,
    Job,
    JobError,
    JobTemplate,
    Local,
    Script,
    TextMerger,
    folders,
    jobs,
    templates,
)
from jedi_client.errors import JediError
from jedi_client.gpi.session import SESSION
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from scenarios.real_system import System

WAIT_S = 90.0
LINES = "suite:three", 3
NAMES = ("local", "unix socket", "http", "http, split by the server")


@dataclass(frozen=True)
class Place:
    """Where jobs run, and who splits them."""

    name: str
    open: Path
    """A directory that payloads may read and write."""

    @property
    def served(self) -> bool:
        return self.name == NAMES[3]

    def backend(self) -> Any:
        return Local() if self.name == NAMES[0] else JEDI(max_attempts=1)

    def job(self, command: str, **more: Any) -> Job:
        """Three subjobs of a shell command; `$K` is 0, 1 or 2."""
        if self.served:
            find = "for f in suite*; do K=$(sed 's/.*\\(.\\)$/\\1/' $f); done; "
            split: dict[str, Any] = {
                "application": Executable("sh", args=["-c", find + command]),
                "inputdata": Dataset("suite:three"), "splitter": FileSplitter(files=1),
            }  # fmt: skip
        else:
            args = [["-c", f"K={k}; {command}"] for k in range(3)]
            split = {"application": Executable("sh"), "splitter": ArgSplitter(args)}
        return Job(backend=self.backend(), **split, **more)


@pytest.fixture(scope="module")
def service(home: System) -> tuple[str, str]:
    """The URL of a running system, which listens on loopback, and a token of ours."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    home.up()
    home.put("api.listen", address)
    home.call("down", "--drain", "0")
    home.up()
    name, number = LINES
    home.texts(name, number, "DISK_A")
    with Client(Profile(f"unix:{home.home.api_socket}")) as client:
        made = client.token_create(name="suite", scope="all", days=1)
    return f"http://{address}", made.token


@pytest.fixture(
    params=[NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[1:])]
)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """A place, with a fresh registry of the client."""
    SESSION.close()
    monkeypatch.setenv("JEDI_CLIENT_HOME", str(tmp_path / "client"))
    monkeypatch.setenv("JEDI_HELPER_IDLE_S", "0.3")
    for name in ("JEDI_CLIENT_BACKEND", "JEDI_URL", "JEDI_TOKEN", "JEDI_HOME"):
        monkeypatch.delenv(name, raising=False)
    if request.param != NAMES[0]:
        url, token = request.getfixturevalue("service")
        home: System = request.getfixturevalue("home")
        if request.param == NAMES[1]:
            monkeypatch.setenv("JEDI_HOME", str(home.home.path))
        else:
            monkeypatch.setenv("JEDI_URL", url)
            monkeypatch.setenv("JEDI_TOKEN", token)
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o777)
        yield Place(request.param, Path(shared))
    SESSION.close()


def test_a_job_from_its_description_to_its_merged_output(place: Place) -> None:
    """Checks 1, 3, 5, 16, 17, 20, 22 and 24. Expected: three subjobs from one request, 0 to 2;
    `jobs("0.1") is jobs((0, 1))`; a submitted job is read-only; each subjob printed and wrote its
    own number; the merged file has them in their order."""
    j = place.job("echo said $K; echo wrote $K > out.txt", name="life", outputsandbox=["out.txt"])
    j.merge(TextMerger(["out.txt"]))
    assert (j.id, j.status, len(j.subjobs), Job(j) == j) == (0, "new", 0, True)
    assert str(j.preview()).endswith("-> 3 subjobs")
    assert j.submit().done and j.status in ("submitted", "running", "completing", "completed")
    with pytest.raises(JediError):
        j.application = Executable("false")
    with pytest.raises(JobError):
        j.submit()
    seen = [one.value for one in j.watch() if one.what == "status"]
    assert j.wait(WAIT_S) == "completed"
    assert seen == [one for one in ("submitted", "running", "completing", "completed")
                    if one in seen]  # fmt: skip
    assert [one.id for one in j.subjobs] == [0, 1, 2]
    assert jobs("0.1") is jobs((0, 1)) is jobs(0).subjobs(1) and j.subjobs(1).parent is j
    assert [one.log().splitlines()[-1] for one in j.subjobs] == ["said 0", "said 1", "said 2"]
    assert [one.output("out.txt").read_text() for one in j.subjobs] == [
        "wrote 0\n", "wrote 1\n", "wrote 2\n"]  # fmt: skip
    assert j.output("out.txt").read_text() == "wrote 0\nwrote 1\nwrote 2\n"
    assert [len(one.attempts) for one in j.subjobs] == [1, 1, 1]
    assert [one.id for one in jobs.select(status="completed")] == [0]


def test_failed_subjobs_run_again_in_place(place: Place) -> None:
    """Checks 13 and 14, rows 65 and 80. Expected: one subjob of three fails, so the job failed; it
    alone runs again, under its id; a resubmission of completed subjobs runs all again."""
    turn = place.open / "turn"  # only jobs of this machine see it; others know their attempt
    j = place.job(f"[ $K != 1 ] || [ ${{ATTEMPTNR:-1}} -gt 1 ] || [ -e {turn} ]", name="again")
    j.submit()
    assert j.wait(WAIT_S) == "failed"
    assert [one.id for one in j.subjobs.select(status="failed")] == [1]
    assert j.errors[0].subjobs == [1] and j.why
    turn.touch()
    assert list(j.subjobs.select(status="failed").resubmit().done) == [1]
    assert j.status in ("submitted", "running", "completing", "completed")
    assert j.wait(WAIT_S) == "completed"
    assert [len(one.attempts) for one in j.subjobs] == [1, 2, 1]
    assert j.resubmit() and j.wait(WAIT_S) == "completed"
    assert [len(one.attempts) for one in j.subjobs] == [2, 3, 2]


def test_subjobs_die_one_by_one_or_together(place: Place) -> None:
    """Checks 4, 6 and 7. Expected: a new job can't be killed; the death of one leaves its siblings;
    then all die cleanly; a killed job can be killed again, which does nothing."""
    j = place.job("sleep 600", name="asleep")
    with pytest.raises(JobError):
        j.kill()
    j.submit()
    if place.served:  # the input is cut when its content is known
        next(one for one in j.watch() if len(j.subjobs) == 3)
    assert list(j.subjobs(0).kill().done) == [0]
    for _ in j.watch():
        if j.subjobs(0).status == "killed":
            break
    assert {one.status for one in j.subjobs if one.id} <= {"submitted", "running"}
    assert j.kill() and j.wait(WAIT_S) == "killed"
    assert {one.status for one in j.subjobs} == {"killed"}
    assert not j.kill() and not j.kill().failed


def test_refused_jobs_leave_nothing(place: Place) -> None:
    """Checks 9, 12 and 25. Expected: a job that can't run is refused with its mistakes, is new and
    has no subjobs; mended, its subjobs count from 0; a removed job is gone, its id isn't reused."""
    j = place.job("true", inputsandbox=["/nowhere/cuts.json"])
    for _ in range(2):
        with pytest.raises(JediError, match=r"cuts\.json"):
            j.submit()
        assert (j.status, len(j.subjobs)) == ("new", 0)
    j.inputsandbox = []
    j.submit()
    assert j.wait(WAIT_S) == "completed" and [one.id for one in j.subjobs] == [0, 1, 2]
    assert j.remove().done and len(jobs) == 0
    assert Job().id == 1


def test_the_session_of_the_interface(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of the interface, statement by statement, with texts instead of ROOT files."""
    monkeypatch.chdir(tmp_path)
    Path("fit.sh").write_text('cat cuts.json calib.db\necho "$2 $3"\necho "$3" > hist.txt\n')
    Path("cuts.json").write_text("{}\n")
    Path("calib.db").write_text("first\n")
    for name in "abc":
        Path(name).write_text(name)
    j = Job(name="Z->mumu, 2025", application=Script("fit.sh", args=["--year", "2025"]))
    j.backend = place.backend()
    j.inputsandbox = [str(tmp_path / "cuts.json"), File("calib.db", shared=True)]
    j.inputdata = ["a", "b", "c"] if place.name == NAMES[0] else Dataset("suite:three")
    j.outputsandbox = ["hist.txt"]
    j.splitter = FileSplitter(files=2)
    j.merge(TextMerger(["hist.txt"]))
    JobTemplate(j, name="zmumu fit")
    folders.cd("/2025/zmumu").add(j)

    assert str(j.preview()).endswith("-> 2 subjobs")
    report = j.submit(keep_going=True)
    assert report and not report.failed

    assert j.status in ("submitted", "running", "completing", "completed")
    assert j.wait(WAIT_S) == "completed"
    assert jobs(f"{j.id}.1") is jobs((j.id, 1)) is jobs(j.id).subjobs(1)
    assert not j.subjobs.select(status="failed").resubmit()
    assert not j.subjobs(1).kill()
    assert j.subjobs(1).attempts[-1].log().endswith("{}\nfirst\n2025 \n")
    debug = j.subjobs(1).copy()
    assert debug.parent is None and debug.splitter is None and debug.status == "new"
    debug.application.args += ["--verbose"]
    debug.backend = "Local"
    if place.name != NAMES[0]:  # its files lie in JEDI's catalogue
        assert "can't read" in str(debug.preview())
        debug.inputdata = ["c"]
    debug.submit()
    assert debug.wait(WAIT_S) == "completed"
    assert debug.peek(lines=1) == "2025 --verbose"
    assert j.output("hist.txt").open().read() == "\n\n"
    again = Job(templates("zmumu fit"))
    assert again == j and (again.status, again.folder, j.folder) == ("new", None, "/2025/zmumu")


def test_the_table_of_places_names_these_checks() -> None:
    """The table of the page has the places of this suite, and the checks of its tests."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "ganga.md"
    rows = [line.strip("| \n").split(" | ") for line in page.read_text().splitlines()]
    [head] = [one for one in rows if one[:1] == ["check"]]
    assert tuple(head[2:]) == NAMES
    begin = rows.index(head) + 2
    listed = {one[0] for one in rows[begin:] if one[-4:] == ["yes"] * 4}
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    checked = {
        number for test in tests
        for named in re.findall(r"Checks? ([\d, and]+)", test.__doc__ or "")
        for number in re.findall(r"\d+", named)
    }  # fmt: skip
    assert listed == checked
