"""Manifests of jobs, and the tasks that do the same. Expected: docs/reference/jdl.md#attributes and
RFC #15, "Manifest changes"."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.helpers import put_file_dataset
from support.herds import split

from jedi.agent.base import World
from jedi.core.errors import BadInput
from jedi.model.tasks.text import examine, validate
from jedi.service.submission import manifests, storing
from jedi.service.submission.examined import Document, examined

RFC = """
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


def task(text: str, format: str = "jdl") -> dict[str, Any]:
    """The task of a manifest; it is valid."""
    found = manifests.read(text, format, "anna")
    validate(found.document)
    document: dict[str, Any] = found.document
    return document


def command(document: dict[str, Any]) -> str:
    """The words of the job parameters that the shell reads."""
    return " ".join(one["value"] for one in document["jobParameters"] if not one.get("hidden"))


def refused(text: str, format: str = "jdl") -> dict[str, str]:
    """The problems of a manifest, by their places."""
    with pytest.raises(BadInput) as error:
        manifests.read(text, format, "anna")
    return {one.path.rpartition(": ")[2]: one.rule for one in error.value.problems}


def test_mistakes_of_meaning_have_their_place() -> None:
    """`errors with line, column, what was expected and a remedy, all at once`."""
    text = 'Executable = "ls";\n  Priority = 99; CPUTime = x;\nStdOutput = "a b";'
    with pytest.raises(BadInput) as error:
        manifests.read(text, "jdl", "anna")
    assert [one.path for one in error.value.problems] == [
        "line 2, column 3: Priority",
        "line 2, column 18: CPUTime",
        "line 3, column 1: StdOutput",
    ]
    with pytest.raises(BadInput) as error:
        manifests.read(text.replace("99", "9").replace("= x", "= 60"), "jdl", "anna")
    assert [one.path for one in error.value.problems] == ["line 3, column 1: StdOutput"]
    text = (
        "Executable = ls; Splitter = Parametric;\nParameters.A = 2; Parameters.B = 3; CPUTime = x;"
    )
    with pytest.raises(BadInput) as error:
        manifests.read(text, "jdl", "anna")
    assert [one.path for one in error.value.problems] == [
        "line 2, column 1: Parameters",
        "line 2, column 37: CPUTime",
    ]


def test_a_job_without_a_name_has_that_of_its_executable() -> None:
    """`JobName` is optional in DIRAC. In a herd the name of the task has no variables, by the one
    grammar of variables; without a splitter nothing is a variable."""
    herd = "Splitter = Parametric; Parameters = 2;"
    assert task('Executable = "/opt/x/sim.sh";')["taskName"] == "sim.sh"
    assert task("Executable = sim; JobName = $Parameter;" + herd)["taskName"] == "sim"
    assert task('Executable = a; JobName = "x%(A)s_$$y_%n";' + herd)["taskName"] == "x_y"
    assert task('Executable = a; JobName = "half.50%nice";' + herd)["taskName"] == "half.50ice"
    assert task('Executable = a; JobName = "run_${X}.%n";')["taskName"] == "run_${X}.%n"


def test_a_comment_in_arguments_is_refused() -> None:
    """The shell would drop the rest of the command: the streams' files, too."""
    for good in ("a#b", "'x # y'", r"\# x", '\\"# x\\"', "${#x}"):
        assert command(task(f'Executable = a; Arguments = "{good}";')).startswith("a ")
    for bad in ("x # y", "#x", "'a' #b", "x;#y"):
        assert refused(f'Executable = a; Arguments = "{bad}";').keys() == {"Arguments"}


def test_attributes_without_effect_may_have_variables() -> None:
    text = 'Executable = a; Owner = "$USER"; Splitter = Parametric; Parameters = 2;'
    assert "Owner" not in task(text)["splitter"]["values"]


def test_a_plain_job_is_a_task_of_one_job() -> None:
    """By hand: one job; its streams go into the files of the output sandbox, which are packed,
    whatever the payload's exit code is."""
    found = task(
        'Executable = "/bin/ls"; Arguments = "-l"; StdOutput = out; StdError = "err";'
        'OutputSandbox = {out, "err", "*.log"}; JobName = ls;'
    )
    assert (found["taskName"], found["noInput"], found["nFiles"]) == ("ls", True, 1)
    assert command(found) == (
        "/bin/ls -l > out 2> err; code=$?; tail -c 100000 out; tail -c 100000 err >&2; "
        "tar --ignore-failed-read -czf sandbox.${SN}.tgz "
        "out err *.log; exit $code"
    )
    assert "splitter" not in found


def test_attributes_have_their_counterparts() -> None:
    """By hand, from the table of attributes. DIRAC's usual priority 1 is our 1000."""
    found = task("""
[ Executable = "run.sh"; InputSandbox = {"run.sh", "cuts.json"}; Site = {"A","B"};
  BannedSites = "C"; Platform = x86_64; CPUTime = 3600; Priority = 3; NumberOfProcessors = 4;
  JobGroup = mc23; JobType = User; OutputData = {"LFN:/anna/mc/hist.root"}; OutputSE = DISK;
  ExecutionEnvironment = {"A=1", "B=x y"}; Tags = MultiProcessor; StdOutput = unkept;
  InputData = {"LFN:/demo/in1/a.root", "LFN:/demo/in1/b.root"}; ]""")
    wanted = {
        "includedSite": "A,B",
        "excludedSite": "C",
        "architecture": "x86_64",
        "baseWalltime": 3600,
        "taskPriority": 1200,
        "coreCount": 4,
        "campaign": "mc23",
        "processingType": "User",
        "destination": "DISK",
        "sandbox": ["run.sh", "cuts.json"],
        "nFilesPerJob": 2,
    }
    assert {key: found[key] for key in wanted} == wanted
    assert command(found) == (
        "chmod +x run.sh; env A=1 'B=x y' ./run.sh && mv hist.root hist.${SN/P}.root"
    )
    read, written = (one for one in found["jobParameters"] if one.get("hidden"))
    assert (read["dataset"], read["files"]) == ("demo:in1", ["a.root", "b.root"])
    assert written["value"] == "hist.${SN}.root"


def test_a_herd_has_its_splitter_and_its_values() -> None:
    """ "Options consumed by the splitter are absent from children"; the others are values of the
    units, which the job parameters read."""
    assert task(RFC)["taskName"] == "parametric"
    found = task(RFC)["splitter"]
    assert found["name"] == "Parametric"
    assert found["options"] == {"Parameters": "10", "ParameterStep": "1", "ParameterFactor": "1.3"}
    assert found["values"] == {
        "Executable": "/bin/echo",
        "JobName": "parametric_${SplitSourceJob}:${SplitID}",
        "Arguments": "$Parameter",
        "StdOutput": "StdOut_$SplitID",
        "StdError": "StdErr_$SplitID",
        "OutputSandbox": ["StdOut_$SplitID", "StdErr_$SplitID"],
    }
    assert command(task(RFC)) == (
        "${UNIT/Executable} ${UNIT/Arguments} > ${UNIT/StdOutput} 2> ${UNIT/StdError}; code=$?; "
        "tail -c 100000 ${UNIT/StdOutput}; tail -c 100000 ${UNIT/StdError} >&2; "
        "tar --ignore-failed-read -czf sandbox.${UNIT/SplitID}.${SN}.tgz ${UNIT/OutputSandbox}; "
        "exit $code"
    )


def test_json_and_yaml_manifests_are_the_same() -> None:
    plain = {
        "Executable": "/bin/echo",
        "Arguments": "$Parameter",
        "Splitter": "Parametric",
        "Parameters": 10,
        "ParameterFactor": 1.3,
    }
    jdl = 'Executable = "/bin/echo"; Arguments = "$Parameter"; Splitter = Parametric; '
    wanted = task(jdl + "Parameters = 10; ParameterFactor = 1.3;")
    for format in ("json", "yaml"):
        found = task(json.dumps(plain), format)
        assert found["splitter"]["values"] == wanted["splitter"]["values"]
        assert found["jobParameters"] == wanted["jobParameters"]
        assert found["splitter"]["options"] == {"Parameters": 10, "ParameterFactor": 1.3}


def test_all_mistakes_are_named_at_once() -> None:
    assert refused("""
Executable = a; NumberOfProcessors = 2; MinNumberOfProcessors = 3; MaxNumberOfProcessors = 1;
Site = A; BannedSites = {A}; OutputSE = {A, B}; InputSandbox = "LFN:/a/b/c"; StdOutput = "a b";
InputData = {"a"}; ExecutionEnvironment = "PATH";""").keys() == {
        "NumberOfProcessors",
        "MaxNumberOfProcessors",
        "Site",
        "OutputSE",
        "InputSandbox",
        "StdOutput",
        "InputData",
        "ExecutionEnvironment",
    }
    assert refused('Arguments = "a"; Priority = 11; CPUTime = 0;').keys() == {
        "Executable",
        "Priority",
        "CPUTime",
    }
    assert refused(
        'Executable = a; Site = "$Parameter"; Splitter = Parametric; Parameters = 2;'
    ).keys() == {"Site"}
    assert refused("Executable = /bin/ls;\nArguments = 1 + 2;").keys() == {"line 2, column 15"}


def test_options_of_a_splitter_need_one() -> None:
    """Today's DIRAC splits without `Splitter`; here five jobs must not become one in silence. All
    mistakes of the splitter stand beside those of the attributes."""
    assert refused("Executable = a; Parameters = 5; ParameterStart.A = 2;").keys() == {
        "Parameters",
        "ParameterStart.A",
    }
    assert refused("Executable = a; SplitterMaxFilesPerJob = 5;").keys() == {
        "SplitterMaxFilesPerJob"
    }
    assert refused("Executable = a; SplitterEventsPerJob = 5; SplitterMaxGBPerJob = 1;").keys() == {
        "SplitterEventsPerJob",
        "SplitterMaxGBPerJob",
    }
    assert task("Executable = a; SplitterChosenSE = S;")["nFiles"] == 1, "a child's manifest"
    assert refused(
        'Executable = a; Splitter = Parametric; Parameters = 0; Priority = "x";'
        "NumberOfProcessors = -2;"
    ).keys() == {"Parameters", "Priority", "NumberOfProcessors"}


def test_empty_texts_lack_characters_and_hide_nothing() -> None:
    """The rule is that of a text, not of a list. A wrong splitter is one mistake, without others of
    placeholders that the user did not write."""
    found = refused('Executable = ""; JobName = "";')
    rule = "must have 1 or more characters"
    assert found == {"Executable": rule, "JobName": rule}
    for wrong in ('""', '{"ByFiles", "BySize"}'):
        read = manifests.read(f"Executable = a; Arguments = b; Splitter = {wrong};", "jdl", "anna")
        assert [one.path for one in examine(read.document)[1]] == ["splitter.name"]


def test_nothing_is_dropped_in_silence() -> None:
    """An attribute without counterpart is named; the owner is the submitter, by rule."""
    text = "Executable = a; OwnerGroup = lhcb; GridCE = ce1; Argument = x; Tags = GPU;"
    warned = " ".join(manifests.read(text, "jdl", "anna").warnings)
    assert "OwnerGroup has no effect" in warned
    assert "GridCE has no counterpart" in warned
    assert "Arguments" in warned and "Tag GPU" in warned


def test_two_spellings_of_an_attribute_are_a_mistake() -> None:
    """Site and Sites are one attribute: neither list of sites is dropped. A typing error in an
    attribute with two spellings is named like any other."""
    assert refused(
        "Executable = a; Site = A; Sites = B; BannedSites = C; BannedSite = D;Tag = x; Tags = y;"
    ).keys() == {"Sites", "BannedSite", "Tag"}
    [warned] = manifests.read("Executable = a; BannedSits = C;", "jdl", "anna").warnings
    assert "BannedSites" in warned


def test_the_environment_of_a_herd_is_that_of_one_job() -> None:
    """A blank in a value ends no word, with a splitter as without. A variable in a value with a
    blank is refused, since nothing would hold the value together."""
    job = 'Executable = a; ExecutionEnvironment = {"A=1", "B=x y"};'
    split = "Splitter = Parametric; Parameters = 2;"
    assert command(task(job)) == "env A=1 'B=x y' a"
    assert command(task(job + split)) == "env A=1 'B=x y' ${UNIT/Executable}"
    mixed = 'Executable = a; ExecutionEnvironment = {"A=$Parameter", "B=x"};' + split
    assert command(task(mixed)) == "env ${UNIT/ExecutionEnvironment} ${UNIT/Executable}"
    assert refused(
        'Executable = a; ExecutionEnvironment = {"A=$Parameter", "B=x y"};' + split
    ).keys() == {"ExecutionEnvironment"}


def test_a_submission_gives_one_id_and_keeps_the_text(world: World, tmp_path: Any) -> None:
    """RFC #15: "exactly one id"; the manifest is kept unchanged as MasterJDL; nothing is split."""
    with world.engine.begin() as tx:
        done = storing.submit(tx, world.ddm, examined(Document(RFC, "jdl", tmp_path), "anna"))
        kept = tx.exec_driver_sql("SELECT source_text, source_format FROM jedi_taskparams").one()
        units = tx.exec_driver_sql("SELECT count(*) FROM jedi_units").scalar()
    assert (tuple(kept), units) == ((RFC, "jdl"), 0)
    assert isinstance(done.jedi_task_id, int)


def test_a_herd_with_output_reads_a_dataset(world: World, tmp_path: Any) -> None:
    """Names of outputs that units make are no names of inputs."""
    put_file_dataset(world, "demo:in2", {"sandbox.1": b"x"}, "SITE_A_DATADISK")
    text = (
        "Executable = cat; StdOutput = out; OutputSandbox = out; InputData = demo:in2;"
        "Splitter = InputDataBySE;"
    )
    with world.engine.begin() as tx:
        done = storing.submit(tx, world.ddm, examined(Document(text, "jdl", tmp_path), "anna"))
    assert (done.created, done.warnings) == (True, ())


def test_input_by_storage_splits_files(world: World) -> None:
    """Files by name, two a child."""
    put_file_dataset(world, "demo:in1", {f"f{n}": b"x" for n in range(5)}, "SITE_A_DATADISK")
    lfns = ", ".join(f'"LFN:/demo/in1/f{n}"' for n in range(4))
    document = task(
        f'Executable = cat; Arguments = "*"; InputData = {{{lfns}}};'
        "Splitter = InputDataBySE; SplitterMaxFilesPerJob = 2;"
    )
    split(world, document)
    with world.engine.begin() as tx:
        rows = tx.exec_driver_sql(
            "SELECT boundaryid, array_agg(lfn ORDER BY lfn) FROM "
            "jedi_dataset_contents WHERE type = 'input' AND reason IS NULL "
            "GROUP BY 1 ORDER BY 1"
        )
        assert [tuple(row) for row in rows] == [(1, ["f0", "f1"]), (2, ["f2", "f3"])]


def test_files_of_two_datasets_are_refused() -> None:
    """An input item asks each of its datasets for the same names: files of two would be looked up
    in both. Expected: refused, with and without a splitter; whole datasets go with a splitter."""
    lfns = 'InputData = {"LFN:/demo/in1/a", "LFN:/demo/in2/b"};'
    for more in ("", "Splitter = ByFiles;"):
        assert refused(f"Executable = cat; {lfns} {more}") == {
            "InputData": "names files of 2 datasets"
        }
    whole = 'Executable = cat; InputData = {"demo:in1", "demo:in2"};'
    assert "2" in refused(whole)["InputData"]
    task(f"{whole} Splitter = ByFiles;")
