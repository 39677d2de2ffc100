"""`jedi-task herd`, `chain` and `jdl`, and the submission of JDL. Expected: RFC #15, by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client.cli import task
from support.generating import generate
from support.helpers import Run, script
from support.herds import next_panda_id

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.model.jdl.parse import parse
from jedi.splitter.agent import Splitter
from jedi.taskcommando.agent import TaskCommando
from jedi.taskrefiner.agent import TaskRefiner

RFC = """// ten children
Executable = "/bin/echo";
JobName = "parametric_${SplitSourceJob}:${SplitID}";
Arguments = "$Parameter";
StdOutput = "StdOut_$SplitID";
StdError = "StdErr_$SplitID";
OutputSandbox = {"StdOut_$SplitID","StdErr_$SplitID"};
Splitter = Parametric;
Parameters = 10;
ParameterStep = 1;
ParameterFactor = 1.3;
"""


@pytest.fixture
def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs `jedi-task` in the world."""
    yield from script(task.main, "jedi-task", world, monkeypatch, capsys)


def chain(run: Run) -> list[tuple[str, str]]:
    """The steps of task 1, with their states."""
    found = run("chain", "1", "--json").value
    return [(one["name"], one["state"]) for one in found]


def test_a_manifest_becomes_a_herd(world: World, run: Run, tmp_path: Path) -> None:
    """ "JobPath, Splitter, JobSanity, …": the splitter's step stands straight after the one that it
    needs. Submission prints one id. Any member leads to the herd. The master manifest stays as it
    was; child 02 is the RFC's own, without the splitter's options."""
    next_panda_id(world, 41)
    file = tmp_path / "rfc.jdl"
    file.write_text(RFC)
    done = run("submit", str(file), "--json")
    assert (done.code, done.value["jedi_task_id"]) == (0, 1)
    names = ["JobPath", "Splitter", "JobSanity", "JobScheduling"]
    assert chain(run) == [*zip(names, ("now", "waits", "waits", "waits"), strict=True)]
    assert TaskRefiner(world).run_once() == 1
    assert chain(run)[1] == ("Splitter", "now")
    before = run("herd", "1", "--json").value
    assert (before["job_split_type"], before["master_job_id"]) == ("WillSplit", 41)
    assert "not split yet" in run("herd", "1").out
    assert run("jdl", "1", "--unit", "1").code == 1

    assert Splitter(world).run_once() == 1
    assert ContentsFeeder(world).run_once() == 1
    assert generate(world) == 1
    assert {state for _, state in chain(run)} == {"done"}
    after = run("herd", "1", "--json").value
    assert (after["job_split_type"], after["n_units"]) == ("Splitted", 10)
    assert [one["origin_panda_id"] for one in after["members"]] == [*range(41, 51)]
    for job in (41, 43, 50):
        assert run("herd", "--job", str(job), "--json").value == after
    assert run("herd", "1", "--after", "8", "--json").value["members"] == (after["members"][8:])
    assert "More: --after 3" in run("herd", "1", "--limit", "3").out

    for words in (["1"], ["--job", "41"], ["--job", "50"]):
        assert run("jdl", *words).out == RFC
    child = run("jdl", "1", "--unit", "3").out
    assert parse(child) == {
        "Executable": "/bin/echo",
        "JobName": "parametric_41:02",
        "Arguments": "3.99",
        "StdOutput": "StdOut_02",
        "StdError": "StdErr_02",
        "OutputSandbox": ["StdOut_02", "StdErr_02"],
        "Parameter": "3.99",
        "ParameterNumber": "2",
        "SplitID": "02",
        "SplitSourceJob": "41",
        "JobID": "43",
    }
    assert 'SplitID = "02";' in child, "a leading zero would be octal"
    assert [*parse(child)][:3] == ["Executable", "JobName", "Arguments"], "in their order"
    assert "has units 1 to 10" in run("jdl", "1", "--unit", "11").err


def test_a_task_without_splitter_is_single(world: World, run: Run, tmp_path: Path) -> None:
    """ "JobSplitType: Single by default"; a task document is no manifest; mistakes are named."""
    file = tmp_path / "one.jdl"
    file.write_text("Executable = /bin/true;")
    assert run("submit", str(file)).code == 0
    assert "no herd" in run("herd", "1").out
    assert [name for name, _ in chain(run)] == ["JobPath", "JobSanity", "JobScheduling"]
    other = tmp_path / "task.yaml"
    other.write_text("{taskName: t, noInput: true, nFiles: 1, jobParameters: [], transPath: 'a'}")
    assert run("submit", str(other)).code == 0
    refused = run("jdl", "2")
    assert refused.code == 1 and "was not submitted as a manifest" in refused.err
    assert run("herd").code == 2
    file.write_text('Executable = /bin/true; Splitter = Parametrik; Parameters = 0;\nA = "')
    refused = run("submit", str(file))
    assert refused.code == 2 and "line 2" in refused.err
    file.write_text("Executable = /bin/true; Splitter = Parametrik;")
    refused = run("submit", str(file))
    assert refused.code == 2 and "Parametric" in refused.err


def test_a_broken_task_shows_the_step_that_failed(world: World, run: Run, tmp_path: Path) -> None:
    """The chain ends where the task did."""
    file = tmp_path / "few.yaml"
    file.write_text("{taskName: t, noInput: true, nFiles: 1, jobParameters: [], transPath: 'a'}")
    assert run("submit", str(file)).code == 0
    assert run("kill", "1").code == 0
    assert TaskCommando(world).run_once() == 1
    assert chain(run) == [
        ("JobPath", "failed"),
        ("JobSanity", "skipped"),
        ("JobScheduling", "skipped"),
    ]


def test_programs_read_the_warnings_of_a_submission(world: World, run: Run, tmp_path: Path) -> None:
    """ "What has no counterpart is named, not dropped in silence": in JSON, too."""
    file = tmp_path / "owned.jdl"
    file.write_text("Executable = /bin/true; Owner = ana;")
    for options in (["--validate"], []):
        done = run("submit", str(file), *options, "--json")
        (warning,) = done.value["warnings"]
        assert "Owner has no effect" in warning and f"Warning: {warning}" in done.err


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.jdl", "", "jdl"),
        ("a.json", "[1]", "json"),
        ("a.yaml", "a = 1", "yaml"),
        ("-", "/* x */ Executable = a;", "jdl"),
        ("-", "# x\n[ // y\n Executable = a; ]", "jdl"),
        ("-", '[{"taskName": "t"}]', "json"),
        ("-", "taskName: t", "yaml"),
        ("job.txt", "Executable = a;", "jdl"),
        ("job", "# no\ntaskName: a = b", "yaml"),
    ],
)
def test_formats_by_name_or_content(name: str, text: str, expected: str) -> None:
    assert task._format(Path(name), text) == expected
