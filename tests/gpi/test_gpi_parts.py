"""Applications, files, datasets, splitters and backends of jobs, and the checks before submission.

Source: docs/reference/ganga.md.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from jedi_client.errors import BadInput
from jedi_client.gpi.applications import Application, Executable, Script
from jedi_client.gpi.backends import JEDI, BackendSettings, Local
from jedi_client.gpi.checks import problems_of
from jedi_client.gpi.datasets import Dataset, InputData
from jedi_client.gpi.files import File, files_of
from jedi_client.gpi.interfaces import Override, Program, Rule, SandboxFile
from jedi_client.gpi.local.payload import environment
from jedi_client.gpi.mergers import OutputMerger, TextMerger
from jedi_client.gpi.overrides import overridden
from jedi_client.gpi.schema import Described, from_document, prop, to_document
from jedi_client.gpi.splitters import (
    ArgSplitter,
    EventSplitter,
    FileSplitter,
    GenericSplitter,
    JobSplitter,
    SizeSplitter,
)

from jedi.core import names

VERBATIM = ["", " ", "it's", '"', "a\nb", "$HOME", "é 漢", "-x", "*", "\\"]


class Analysis(Described):
    """A job as parts see it."""

    application: Annotated[Any, Application] = prop(Executable, doc="Program")
    backend: Annotated[Any, BackendSettings] = prop(Local, doc="Backend")
    inputdata: Annotated[Any, InputData | None] = prop(None, doc="Input")
    inputsandbox: Annotated[Any, list[File]] = prop([], doc="Sandbox", convert=files_of)
    outputsandbox: list[str] = prop([], doc="Outputs")
    outputdata: list[str] = prop([], doc="Data")
    splitter: Annotated[Any, JobSplitter | None] = prop(None, doc="Splitter")
    merger: Annotated[Any, OutputMerger | None] = prop(None, doc="Merger")


class OnlyOnJedi(Application):
    """An application of one backend."""

    backends: ClassVar[Any] = ["JEDI"]

    def program(self, job: Any) -> Program:
        return Program("true")


def problems(**values: Any) -> list[str]:
    return [str(one) for one in problems_of(Analysis(**values))]


def run(program: Program, at: Path) -> str:
    """The output of a program in a directory that has its files."""
    for file in program.files:
        (at / file.name).write_bytes(Path(file.source).read_bytes())
    command = [program.executable, *program.args]
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("first", "name"), [("#!/bin/sh\n", "s"), ("", "s.sh")])
def test_arguments_reach_the_program_verbatim(tmp_path: Path, first: str, name: str) -> None:
    """A 3.2.1: executable and parameters reach the node verbatim: quotes, newlines, unicode."""
    script = tmp_path / name
    script.write_text(f'{first}printf "<%s>" "$@"\n')
    shown = "".join(f"<{one}>" for one in VERBATIM)
    (tmp_path / "node").mkdir()
    job = Analysis(Script(script, VERBATIM))
    assert run(job.application.program(job), tmp_path / "node") == shown
    job.application = Executable("printf", ["<%s>", *VERBATIM])
    assert run(job.application.program(job), tmp_path) == shown
    assert from_document(to_document(job)) == job


def test_scripts_have_an_interpreter_and_exist(tmp_path: Path) -> None:
    script = tmp_path / "fit"
    script.write_text("print(1)")
    assert problems(application=Script(script))[0].endswith(
        "has neither a first line #! nor a known ending. "
        "Write #!/bin/sh as its first line, or set application.interpreter."
    )
    job = Analysis(Script(script, interpreter="python3 -u"))
    assert problems_of(job) == []
    assert job.application.program(job) == Program(
        "python3", ("-u", "./fit"), {}, [SandboxFile(str(script), "fit")]
    )
    assert "does not exist in " in problems(application=Script("no/fit.py"))[0]
    with pytest.raises(BadInput, match="does not exist"):
        Script("no/fit.py").program(None)
    with pytest.raises(BadInput, match="is no command"):
        Script("fit.py", interpreter="python3 '")
    assert "names no script" in problems(application=Script())[0]
    assert "names no program" in problems(application=Executable(""))[0]
    with pytest.raises(BadInput, match="has a NUL character"):
        Executable("echo", ["a\0b"])
    with pytest.raises(BadInput, match="no environment can have"):
        Executable("echo", environment={"A=B": "c"})


def test_ganga_names_of_properties_work() -> None:
    """Ganga's users write exe and args (section 2.6: aliases for Ganga's habits)."""
    echo = Executable(exe="ls", parameters=["-l"])
    echo.exe = "cat"
    assert (echo.executable, echo.exe, echo.args) == ("cat", "cat", ["-l"])
    assert "exe" not in to_document(echo)


def test_names_in_the_working_directory(tmp_path: Path) -> None:
    """A 3.2.2.7: '/x' is copied as x, 'lfn:/y' as y; A 3.6: File("a/b", dest="c") arrives as c, a
    bare name takes the context's default."""
    (tmp_path / "x").write_text("")
    job = Analysis(inputsandbox=str(tmp_path / "x"))
    job.inputsandbox += ["lfn:/a/y", File("a/b", dest="c"), File("shared://u/z"), tmp_path / "x"]
    assert [one.target for one in job.inputsandbox] == ["x", "y", "c", "z", "x"]
    assert job.inputsandbox[0].sandbox() == SandboxFile(str(tmp_path / "x"), "x")
    assert job.inputsandbox[1].sandbox() == SandboxFile("lfn:/a/y", "y")
    found = [str(one) for one in problems_of(job)]
    assert "inputsandbox[2]: 'a/b': does not exist in " in found[0]
    assert "'shared://u/z': is no shared copy on this machine" in found[1]
    assert "has the same name 'x' as inputsandbox[0]" in found[2] and len(found) == 3
    for outside in ("/etc/passwd", "../c", "."):
        with pytest.raises(BadInput, match="outside the working directory"):
            File("a", dest=outside)


def test_lists_and_names_become_datasets(tmp_path: Path) -> None:
    """S, note on shortcuts: a list becomes a dataset, a number a splitter."""
    job = Analysis(backend="JEDI")
    job.inputdata = ["lfn:/a", "/b"]
    assert job.inputdata == Dataset(files=["lfn:/a", "/b"]) and problems_of(job) == []
    job.inputdata = "user.ana:zmumu.2025"
    assert job.inputdata == Dataset("user.ana:zmumu.2025")
    assert job.inputdata.files_of(job) == ["dataset:user.ana:zmumu.2025"]
    job.inputdata = "lfn:/a"
    assert job.inputdata == Dataset(files=["lfn:/a"])
    job.splitter = 20
    assert job.splitter == FileSplitter(files=20)
    with pytest.raises(BadInput, match=r"Analysis.splitter: True: is no splitter"):
        job.splitter = True


def test_input_that_the_backend_can_not_read_is_refused(tmp_path: Path) -> None:
    """A 3.2.3.2: '/x' is opened in place, 'lfn:/y' through the catalogue. Ganga only warned about
    missing inputs."""
    (tmp_path / "x").write_text("")
    here = str(tmp_path / "x")
    assert problems(inputdata=[here]) == []
    assert "does not exist" in problems(inputdata=[here, "/no/such"])[0]
    assert "Set backend to JEDI" in problems(inputdata=["lfn:/y"])[0]
    assert "Set backend to JEDI" in problems(inputdata="user.ana:x")[0]
    assert "is there twice" in problems(inputdata=[here, here])[0]
    assert "neither a name nor files" in problems(inputdata=Dataset())[0]
    assert "is no absolute path" in problems(inputdata=["y"], backend=JEDI)[0]
    assert problems(inputdata=["/on/the/node", "lfn:/y"], backend=JEDI) == []


def test_explicit_splitters_give_an_override_for_each_subjob() -> None:
    """A 3.2.2.10: the splitter dictates the number of subjobs, in order."""
    job = Analysis(splitter=ArgSplitter(["a", ["b", "c"]]))
    assert problems_of(job) == []
    assert job.splitter.split(job) == [
        Override({"application.args": ["a"]}),
        Override({"application.args": ["b", "c"]}),
    ]
    job.splitter = GenericSplitter(
        "application.environment", [{"S": "1"}, {"S": "2"}], {"application.args": [["x"], ["y"]]}
    )
    assert problems_of(job) == []
    assert job.splitter.split(job)[1] == Override(
        {"application.environment": {"S": "2"}, "application.args": ["y"]}
    )
    assert from_document(to_document(job)) == job


def test_generic_splitters_take_other_names_of_properties() -> None:
    """docs/ganga.md: "`exe` and `executable` are one", `env` and `environment` too."""
    job = Analysis(splitter=GenericSplitter(attribute="application.exe", values=["a", "b"]))
    assert problems_of(job) == []
    unit = overridden(job, job.splitter.split(job)[1].values)
    assert unit.application.program(unit).executable == "b"
    job.splitter = GenericSplitter(
        multi_attrs={"application.exe": ["a"], "application.env": [{"S": "1"}]}
    )
    assert problems_of(job) == []
    unit = overridden(job, job.splitter.split(job)[0].values)
    assert unit.application.program(unit) == Program("a", (), {"S": "1"})
    assert problems(splitter=GenericSplitter("application.exe", ["a", 2])) == [
        "application.exe, subjob 1: 2: is not a string. Write '2'."
    ]
    [found] = problems(splitter=GenericSplitter("application.exec", ["a", "b"]))
    assert found.startswith("application.exec: ['a', 'b']: is no property of the Analysis.")


def test_splitters_that_do_not_suit_the_job_are_refused() -> None:
    """S: "if the splitter is not compatible with the dataset and application" submit raises; a
    splitter without subjobs counts as such (rows 4 and 5)."""
    assert "makes no subjob" in problems(splitter=ArgSplitter([]))[0]
    assert "makes no subjob" in problems(splitter=GenericSplitter())[0]
    found = problems(splitter=GenericSplitter("application.arg", [["x"]]))
    assert found[0].endswith("Did you mean application.args?")
    found = problems(splitter=GenericSplitter("application.args", [["x"], "y"]))
    assert found == ["application.args, subjob 1: 'y': is not a list. Write ['y']."]
    found = problems(splitter=GenericSplitter("backend", ["Local", "JEDI"]))
    assert found[0].startswith("backend: ['Local', 'JEDI']: is the same in all subjobs.")
    wrong = GenericSplitter(attributes={"application.args": [[]], "application.exe": ["a", "b"]})
    assert "has different numbers of values: 1, 2" in problems(splitter=wrong)[0]
    assert "FileSplitter divides input data" in problems(splitter=2)[0]
    assert "Set backend to JEDI" in problems(splitter=EventSplitter(5), inputdata=["/"])[-1]
    with pytest.raises(BadInput, match="is not above 0"):
        FileSplitter(0)


def test_rules_are_for_jedi_and_are_applied_here_for_local(tmp_path: Path) -> None:
    """S item 3: subjobs by policy; section 2.2: JEDI cuts the input by a rule, the client only if
    the backend can't. Each file is in one subjob (A 3.2.3.2)."""
    files = []
    for name, size in (("c", 400), ("a", 500), ("b", 700)):
        (tmp_path / name).write_bytes(b"x" * size)
        files.append(str(tmp_path / name))
    c, a, b = files
    job = Analysis(inputdata=files, splitter=FileSplitter(2))
    assert job.splitter.split(job) == [
        Override({"inputdata": [a, b]}),
        Override({"inputdata": [c]}),
    ]
    job.splitter = SizeSplitter(gb=1.1e-6)
    assert job.splitter.split(job) == [
        Override({"inputdata": [a]}),
        Override({"inputdata": [b, c]}),
    ]
    job.backend = JEDI
    assert job.splitter.split(job) == Rule("BySize", {"SplitterMaxGBPerJob": 1.1e-6})
    job.splitter = 3
    assert job.splitter.split(job) == Rule("ByFiles", {"SplitterMaxFilesPerJob": 3})
    job.splitter = EventSplitter(events=500)
    assert job.splitter.split(job) == Rule("ByEvents", {"SplitterEventsPerJob": 500})
    job.splitter.files = 1
    assert job.splitter.split(job) == Rule(
        "ByEvents", {"SplitterEventsPerJob": 500, "SplitterMaxFilesPerJob": 1}
    )


def test_a_splitter_of_the_backend_runs_on_the_server() -> None:
    """A 3.2.6: `j.backend.splitter = X` leaves splitting to the backend."""
    inputs = ["lfn:/a"]
    assert problems(inputdata=inputs, backend=JEDI(splitter=5)) == []
    found = problems(inputdata=inputs, backend=JEDI(splitter=ArgSplitter(["a"])))
    assert "runs in the client" in found[0]
    found = problems(inputdata=inputs, backend=JEDI(splitter=5), splitter=5)
    assert "the job has a splitter, too" in found[0]
    assert "divides input data" in problems(backend=JEDI(splitter=5))[0]


def test_a_pair_that_can_not_work_is_refused() -> None:
    """A 4.2.6.1.1: a disallowed pair of application and backend is refused before submission."""
    assert problems(application=OnlyOnJedi) == [
        "backend: 'Local': can't run a OnlyOnJedi. Take one of JEDI."
    ]
    assert problems(application=OnlyOnJedi, backend="JEDI") == []


@pytest.mark.parametrize("backend", [Local, JEDI])
@pytest.mark.parametrize("application", [Executable, Script, OnlyOnJedi])
def test_each_pair_has_a_program_or_a_remedy(application: Any, backend: Any) -> None:
    """Check 29: every application with every backend submits or is refused cleanly."""
    job = Analysis(application, backend)
    found = problems_of(job)
    assert all(one.path and one.rule and one.remedy for one in found)
    assert bool(found) == (
        (application, backend) not in ((Executable, Local), (Executable, JEDI), (OnlyOnJedi, JEDI))
    )
    assert found or job.application.program(job).executable


def test_mergers_name_declared_outputs() -> None:
    assert "is empty" in problems(merger=TextMerger())[0]
    assert "is no declared output" in problems(merger=TextMerger(["x"]), outputsandbox=["y"])[0]
    for declared in ("x", "/tmp/x", "lfn:/z/x"):
        assert problems(merger=TextMerger(["x"]), outputsandbox=[declared]) == []


def test_all_mistakes_come_at_once() -> None:
    found = problems(application=Script("no"), splitter=2, merger=TextMerger(), inputsandbox="no/x")
    assert [one.split(":")[0] for one in found] == [
        "application.file",
        "inputdata",
        "merger.files",
        "inputsandbox[0]",
    ]


def test_backends_have_names_and_read_only_facts() -> None:
    """A 3.3.2: the backend's id is its own, and read-only."""
    job = Analysis(backend="JEDI")
    assert job.backend == JEDI() and job.backend.id is None and job.backend.status is None
    with pytest.raises(AttributeError):
        job.backend.id = "3"
    with pytest.raises(BadInput, match=r"is no backend\. Give one of (Bench, )?JEDI, Local"):
        job.backend = "LSF"
    with pytest.raises(BadInput, match="is not above 0"):
        job.backend = Local(slots=0)


def test_outputs_have_different_names() -> None:
    """Outputs come back into one folder, so that the second file of a name would hide the first."""
    [found] = problems(
        application=Executable("true"), outputsandbox=["a/x.txt", "b/x.txt", "x.log"]
    )
    assert found.startswith("outputsandbox[1]: 'b/x.txt': comes back under the same name as a/x")


NAMES = [
    "out.txt",
    "fit",
    "_x",
    "7",
    "a-b+c=d@e%f,g~h.tar.gz",
    "x" * 246,
    ".hidden",
    "-x",
    "a b",
    "é",
    "a..b",
    "a:b",
    "x" * 247,
    "*.txt",
    "fit?",
    "d/x",
    "/tmp/x",
    "./x",
]


def test_jedi_takes_names_that_its_catalogue_takes() -> None:
    """The rule of names.lfn, for the name with the 10 characters of the job's number."""
    allowed = []
    for name in NAMES:
        with suppress(ValueError):
            names.lfn(name + "x" * 10)
            allowed.append(name)
    assert allowed == NAMES[:6]
    assert [one for one in NAMES if not problems(outputsandbox=[one], backend=JEDI)] == allowed


def test_names_of_outputs_are_checked_before_a_submission() -> None:
    """reference/ganga.md: "Before a submission all parts of the job are checked, and all mistakes
    are reported at once". A 3.2.2.8: x, /y and lfn:/z are kept as x, y and z."""
    remedy = "Let the program write it into the working directory, and give its plain name."
    kept = ["x", "d/x", "/tmp/x", "lfn:/z/x", "*.root", "d/**/fit.root", "stdout"]
    assert [problems(outputsandbox=[one]) for one in kept] == [[]] * 7
    wrong = ["", ".", "d/", "d/..", "../x", "d/../x", "**.root"]
    none = "names no file. Give the name of a file, such as out.txt."
    outside = f"lies outside the working directory. {remedy}"
    general = [f"outputsandbox[{i}]: {wrong[i]!r}: {none}" for i in range(4)]
    general += [f"outputsandbox[{i}]: {wrong[i]!r}: {outside}" for i in (4, 5)]
    stars = "is no pattern: ** stands alone between slashes. Write it as in *.root."
    general += [f"outputsandbox[6]: '**.root': {stars}"]
    for backend in (Local, JEDI):
        assert problems(outputsandbox=wrong, backend=backend) == general
    assert problems(outputsandbox=["x", "lfn:/z/y"], backend=JEDI) == []
    assert problems(outputdata=["lfn:/z/y"], backend=JEDI) == []
    [found] = problems(outputdata=["lfn:/z/y"])
    assert found.startswith(
        "outputdata[0]: 'lfn:/z/y': is for JEDI's catalogue, which this backend"
    )
    there = f"lies in a directory, and JEDI keeps files of the working directory. {remedy}"
    catalogue = (
        "is no name for the catalogue: it has 1 to 246 letters, digits and ._+-=@%,~ and "
        "no '..', and starts with a letter, a digit or '_'. Let the program give the file "
        "such a name."
    )
    assert problems(outputsandbox=["d/z", "/tmp/x", "*.txt", "a b"], backend=JEDI) == [
        f"outputsandbox[0]: 'd/z': {there}",
        f"outputsandbox[1]: '/tmp/x': {there}",
        "outputsandbox[2]: '*.txt': is a pattern, and JEDI keeps files by their names. Name each "
        "file.",
        f"outputsandbox[3]: 'a b': {catalogue}",
    ]


def test_secrets_stay_in_the_session() -> None:
    given = {
        "PATH": "/bin",
        "OLDPWD": "/",
        "GITHUB_TOKEN": "x",
        "DB_PWD": "x",
        "PGPASSWORD": "x",
        "S3_APIKEY": "x",
        "GPG_PASSPHRASE": "x",
        "MY_CREDENTIALS": "x",
        "MY_PASS": "x",
    }
    assert environment(given) == {"PATH": "/bin", "OLDPWD": "/"}
