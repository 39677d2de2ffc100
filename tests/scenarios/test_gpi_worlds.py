"""One suite for all places where jobs of the Python interface run: this machine, JEDI by its unix
socket, and JEDI by HTTP with a token, where the client or the server splits. Jobs on JEDI are run
by real pilots. Where the server splits, the registry is on the service, too.

Expected values, by hand: rows 22 and 23 of the Ganga documents, and the checks of its own suite.
docs/reference/ganga.md#one-suite-for-all-places lists them; tests/house compares.
"""

from __future__ import annotations

import gc
import socket
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from jedi_client import (
    JEDI,
    Dataset,
    Executable,
    File,
    FileSplitter,
    Job,
    JobError,
    JobTemplate,
    Script,
    TextMerger,
    folders,
    jobs,
    list_applications,
    templates,
)
from jedi_client.errors import BadInput, JediError
from jedi_client.gpi.session import SESSION
from jedi_client.gpi.status import LIVE
from jedi_client.gpi.submission import NotSubmittable
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from scenarios.places import NAMES, Place
from scenarios.real_system import System, until

WAIT_S = 90.0
PLACES = [NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[1:])]
SPLIT_HERE = pytest.mark.parametrize("place", PLACES[:3], indirect=True)
"""Places where units come from the client: those alone can be refused one by one."""
_registries = count()


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
    home.texts("suite:three", 3, "DISK_A")
    with Client(Profile(f"unix:{home.home.api_socket}")) as client:
        made = client.token_create(name="suite", scope="all", days=1)
    return f"http://{address}", made.token


@pytest.fixture(params=PLACES)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """A place, with a fresh registry of the client."""
    SESSION.close()
    monkeypatch.setenv("JEDI_CLIENT_HOME", str(tmp_path / "client"))
    monkeypatch.setenv("JEDI_HELPER_IDLE_S", "0.3")
    monkeypatch.setattr(JEDI, "refresh_s", 0.3)
    for name in ("BACKEND", "REGISTRY"):
        monkeypatch.delenv(f"JEDI_CLIENT_{name}", raising=False)
    for name in ("JEDI_URL", "JEDI_TOKEN", "JEDI_HOME"):
        monkeypatch.delenv(name, raising=False)
    if request.param != NAMES[0]:
        url, token = request.getfixturevalue("service")
        home: System = request.getfixturevalue("home")
        if request.param == NAMES[1]:
            monkeypatch.setenv("JEDI_HOME", str(home.home.path))
        else:
            monkeypatch.setenv("JEDI_URL", url)
            monkeypatch.setenv("JEDI_TOKEN", token)
        if request.param == NAMES[3]:
            monkeypatch.setenv("JEDI_CLIENT_REGISTRY", f"{url}#suite{next(_registries)}")
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o777)
        yield Place(request.param, Path(shared))
        for one in jobs:  # those of a test that failed would hold the slots of the next
            if one.status in LIVE:
                one.kill(keep_going=True)
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
    assert seen == [
        one for one in ("submitted", "running", "completing", "completed") if one in seen
    ]
    assert [one.id for one in j.subjobs] == [0, 1, 2]
    assert jobs("0.1") is jobs((0, 1)) is jobs(0).subjobs(1) and j.subjobs(1).parent is j
    assert [one.log().splitlines()[-1] for one in j.subjobs] == ["said 0", "said 1", "said 2"]
    assert [one.output("out.txt").read_text() for one in j.subjobs] == [
        "wrote 0\n",
        "wrote 1\n",
        "wrote 2\n",
    ]
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
    """Checks 4, 6, 7 and 15. Expected: a new job can't be killed; the death of one leaves its
    siblings; then all die cleanly; a killed job can be killed again, which does nothing. Check 15:
    resplit is "refused on live ones"."""
    j = place.job("sleep 600", name="asleep")
    with pytest.raises(JobError):
        j.kill()
    j.submit()
    if place.served:  # the input is cut when its content is known
        next(one for one in j.watch() if len(j.subjobs) == 3)
    with pytest.raises(JobError):
        j.subjobs(1).resplit(1)
    assert not j.subjobs(1).resplit(1, keep_going=True) and len(j.subjobs) == 3
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


@SPLIT_HERE
@pytest.mark.parametrize("keep_going", [False, True])
def test_one_subjob_that_is_refused(place: Place, keep_going: bool) -> None:
    """Checks 8 and 11, rows 50 to 54, 57 and 58. Check 8: "second subjob fails to submit: [not new,
    new, new], three subjobs kept"; D1: "after an *emulated* bulk the refused or untried subjobs
    are `new`; after a *real* bulk they are `failed`"; D10: "`keep_going=True` never raises",
    "`keep_going=False` raises `JobError` at the first refusal"; row 50: "master submitted". At the
    end one is completed beside new or failed ones, so the job failed (rule 3). Row 54: they can be
    resubmitted or copied out."""
    j = place.without_inputs(1)
    if keep_going:
        report = j.submit(keep_going=True)
        assert (list(report.done), list(report.failed)) == ([0, 2], [1])
    else:
        with pytest.raises(JobError, match="Subjob 1: "):
            j.submit()
    assert j.status in (*LIVE, "failed") and len(j.subjobs) == 3
    assert j.subjobs(1).reason
    assert j.wait(WAIT_S) == "failed"
    left = "new" if place.here else "failed"
    last = "completed" if keep_going else left
    assert [one.status for one in j.subjobs] == ["completed", left, last]
    assert [len(one.attempts) for one in j.subjobs] == [1, 0, int(keep_going)]
    copy = j.subjobs(1).copy()
    assert (copy.parent, copy.status) == (None, "new")
    assert copy.inputdata.files == j.subjobs(1).inputdata.files
    if place.here:
        Path(copy.inputdata.files[0]).touch()
        assert j.subjobs.select(status="new").resubmit(keep_going=True)
        assert j.wait(WAIT_S) == "completed"
        assert [len(one.attempts) for one in j.subjobs] == [1, 1, 1]


def test_all_subjobs_are_refused(place: Place) -> None:
    """Checks 9, 11 and 12, row 55. D10: "with everything refused the master is back at `new`,
    `subjobs == []`, report falsy"; check 12: "submit fails twice, then succeeds, ids again from
    0"."""
    lost, found = (
        (place.job("true"), "suite:three")
        if place.served
        else (place.without_inputs(0, 1, 2), None)
    )
    if place.served:
        lost.inputdata = Dataset("suite:nothing")
    report = lost.submit(keep_going=True)
    assert not report and report.failed
    assert (lost.status, list(lost.subjobs), lost.backend.id) == ("new", [], None)
    with pytest.raises(JobError):
        lost.submit()
    assert (lost.status, list(lost.subjobs), lost.backend.id) == ("new", [], None)
    if found:
        lost.inputdata = Dataset(found)
    else:
        lost.splitter = place.without_inputs().splitter
    assert lost.submit() and lost.wait(WAIT_S) == "completed"
    assert [one.id for one in lost.subjobs] == [0, 1, 2]


class Fickle(Executable):
    """A program that can't be made for the second subjob, or for all."""

    def program(self, job: Any) -> Any:
        if "K=1" in str(job.application.args) or "done" in str(job.application.args):
            raise ZeroDivisionError("no such release")
        return super().program(job)


def test_an_application_that_fails_for_one_subjob(place: Place) -> None:
    """Check 10, rows 49 and 142: "runtime handler raises for one subjob: refused, subjobs []";
    row 49: "JobError, status new, `subjobs==[]`, no leftover files/rows". Where the server splits
    all subjobs have one program."""
    j = place.job("true")
    j.application = Fickle("sh", args=j.application.args)
    before = j.document()
    with pytest.raises(JobError, match="no such release"):
        j.submit()
    assert not j.submit(keep_going=True)
    assert (j.status, list(j.subjobs), j.backend.id, j.document()) == ("new", [], None, before)
    assert not SESSION.workspace.of(j.id).exists()


def test_input_is_cut_again(place: Place) -> None:
    """Check 15: "old subjob frozen, new ids appended". Row 13: "if the
    backend cannot, a JobError names backend and operation; nothing changes"."""
    turn = "[ $(ls suite* | wc -l) = 1 ]"
    j = place.job(turn, splitter=FileSplitter(files=2))
    if not place.served:
        j.application.args = ["-c", turn]
        j.inputdata = Dataset("suite:three")
    if place.here:
        j = place.job("false")
    j.submit()
    assert j.wait(WAIT_S) == "failed"
    before = [(one.id, one.status) for one in j.subjobs]
    if place.here:
        with pytest.raises(JobError, match="Backend Local can't resplit"):
            j.subjobs(0).resplit(1)
        assert [(one.id, one.status) for one in j.subjobs] == before
        return
    assert before == [(0, "failed"), (1, "completed")]
    assert j.subjobs(0).resplit(1).done == [0]
    assert j.wait(WAIT_S) == "completed"
    assert [(one.id, one.status, one.superseded) for one in j.subjobs] == [
        (0, "failed", True),
        (1, "completed", False),
        (2, "completed", False),
        (3, "completed", False),
    ]
    assert not j.subjobs(0).resubmit(keep_going=True)
    assert [len(one.attempts) for one in j.subjobs] == [1, 1, 1, 1]


def test_registries_of_all_places(place: Place, tmp_path: Path) -> None:
    """Checks 2, 18, 19, 21 and 27, rows 104 and 114. Check 2: "all properties can be set, read
    back, copied; copies share nothing"; 18: "own registry, copy both ways, not submittable"; 19:
    "mkdir, cd, add, find, rm, clean-up on job removal"; 21: "export/append/load round trip, odd
    characters"; 27: "many jobs/subjobs are not loaded to be listed"."""
    odd = 'é "q" \n\t\\ $HOME 𝜇 </x>'
    j = place.job("true", name=odd, comment=odd)
    j.application.environment = {"ODD": odd}
    j.inputsandbox = [File("/x/in", dest="other")]
    j.outputsandbox, j.outputdata = ["a.txt"], ["b.txt"]
    j.merge(TextMerger(["a.txt"]))
    t = JobTemplate(j, name="recipe")
    again = Job(t)
    assert (t.id, again.id, again == j, templates.ids(), jobs.ids()) == (0, 1, True, [0], [0, 1])
    again.application.environment["ODD"] = "1"
    again.inputsandbox += ["/y"]
    assert j.application.environment == {"ODD": odd} and len(j.inputsandbox) == 1
    for verb in (t.submit, t.kill):
        with pytest.raises(JobError, match="not run"):
            verb()
    folders.mkdir("/a/b")
    folders.cd("/a").add(j, again)
    folders["b"].add(j)
    assert folders.find(j) == ["/a", "/a/b"] and folders.ls("/a").folders == ["b"]
    assert jobs.export(tmp_path / "some.json").done == [0, 1]
    assert jobs.select(0, 0).export(tmp_path / "some.json", append=True).done == [0]
    loaded = jobs.load(tmp_path / "some.json")
    assert [one.document() for one in loaded] == [jobs(k).document() for k in (0, 1, 0)]
    assert [(one.id, one.status, one.name, one.comment) for one in loaded] == [
        (2, "new", odd, odd),
        (3, "new", "recipe", again.comment),
        (4, "new", odd, odd),
    ]
    document = j.document()
    again.remove()
    folders.cd("/a").rm("b")
    del j, t, again, loaded, verb
    SESSION.close()
    gc.collect()
    assert (len(jobs), jobs.ids(), len(templates)) == (4, [0, 2, 3, 4], 1)
    assert [*map(len, (jobs.select(name=odd), jobs.select(status="new"), jobs[1:]))] == [3, 4, 3]
    assert "<table" in jobs._repr_html_()
    assert not [one for one in gc.get_objects() if isinstance(one, Job | JobTemplate)]
    assert jobs(0).document() == document and folders.find(0) == ["/a"]
    assert 0 in [one.id for one in folders.cd("/a")] and len(folders.ls("/a").folders) == 0


def test_shared_files_of_all_places(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check 23: shared files are "created, survive restart"; rows 80 and 81: "later edits of the
    original do not alter later runs"; "same bytes reachable from another job by path"; row 78: a
    file that is not shared has its present content."""
    file, own = tmp_path / "calib.db", tmp_path / "own.db"
    for path in (file, own):
        path.write_text("first")
    command = "cat calib.db own.db"
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    j = place.job(command, inputsandbox=[File("../calib.db", shared=True), str(own)])
    j.submit()
    first = j.id
    SESSION.close()
    for path in (file, own):
        path.write_text("second")
    again = jobs(first).copy()
    other = place.job(command, inputsandbox=[f"shared://{file}", str(own)])
    file.unlink()
    assert jobs.select(minid=first + 1).submit().done == [again.id, other.id]
    jobs.wait(WAIT_S)
    logs = [[one.log().splitlines()[-1] for one in jobs(k).subjobs] for k in range(3)]
    assert logs == [["firstfirst"] * 3, ["firstsecond"] * 3, ["firstsecond"] * 3]


def test_nobody_asks_while_monitoring_is_off(place: Place) -> None:
    """Check 26: "monitoring off/on; new jobs stay submitted while off"; its opposite: "a plain
    script sees its job finish", here by reading its status alone."""
    jobs.monitoring = False
    j = place.job("true")
    j.submit()
    backend, id = j.backend.connect(), j.backend.id
    until(lambda: backend.states({id: None})[0].counts == {"completed": 3}, "the payloads end")
    assert j.status == "submitted"
    jobs.monitoring = True
    until(lambda: j.status == "completed", "the status is read")
    assert [one.status for one in j.subjobs] == ["completed"] * 3


def test_each_application_in_each_place(place: Place, tmp_path: Path) -> None:
    """Check 29: "every application × backend pair submits or is refused cleanly"; check 30 and row
    147: a wrong type is refused at assignment."""
    script = tmp_path / "fit.sh"
    script.write_text("echo $1\n")
    made = {"Executable": Executable("echo", args=["7"]), "Script": Script(str(script), args=["7"])}
    assert {*made} <= {*list_applications()}
    for application in made.values():
        assert Job(application=application, backend=place.backend()).submit()
    refused = Job(application=Script(), backend=place.backend())
    with pytest.raises(NotSubmittable, match="Give the path of a script"):
        refused.submit()
    assert (refused.status, refused.backend.id) == ("new", None)
    j = Job(backend=place.backend())
    for wrong, value in (("application", 5), ("backend", "LSF"), ("splitter", "x"), ("inputs", [])):
        with pytest.raises(BadInput, match=wrong):
            setattr(j, wrong, value)
    assert j == Job(backend=place.backend()) and j.status == "new"
    jobs.wait(WAIT_S)
    assert [one.log().splitlines()[-1] for one in jobs.select(status="completed")] == ["7"] * len(
        made
    )
