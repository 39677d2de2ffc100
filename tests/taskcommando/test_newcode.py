"""Retrying with other local files, and what a command can't be made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client.cli.task import main
from support.helpers import Run, put_file_dataset, script
from support.resubmission import submit
from support.task_rows import INPUT, OUTPUT, good

from jedi.agent.base import World
from jedi.core.errors import BadInput
from jedi.model.tasks.text import validate
from jedi.service.submission.newcode import lacking


def test_what_a_command_lacks() -> None:
    """The local files that it names, those of before and `./NAME`; nothing else of it."""
    command = "python ./run.py --config=conf.yaml ${IN/S} > out.${SN}.txt"
    assert lacking(command, ["run.py", "conf.yaml"], ["run.py", "conf.yaml"]) == []
    assert lacking(command, ["run.py", "conf.yaml"], ["mended.py"]) == ["run.py", "conf.yaml"]
    assert lacking(command, ["run.py", "conf.yaml", "unused"], ["run.py"]) == ["conf.yaml"]
    assert lacking(command, [], ["mended.py"]) == ["run.py"]  # the old ones are forgotten
    assert lacking("cat ${IN/S} | sh 'run.sh'; ./run.sh", ["run.sh"], ["x"]) == ["run.sh"]


@pytest.fixture
def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    yield from script(main, "jedi-task", world, monkeypatch, capsys)


def test_new_code_without_what_the_command_runs_is_warned_of(
    run: Run, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which file of which task, and what there is; with all files it says nothing."""
    put_file_dataset(world, "demo:in", {"a": b"a"}, "SITE_A_DATADISK")
    monkeypatch.chdir(tmp_path)
    for name in ("run.sh", "lib.sh", "mended.sh"):
        (tmp_path / name).write_text("true")
    task = submit(world, tmp_path, sandbox=["run.sh", "lib.sh"], transPath="sh run.sh").jedi_task_id
    told = run("retry", task, "--new-code", "mended.sh").err
    assert f"Warning: Task {task} runs run.sh, but the new files are only mended.sh" in told
    assert "Warning" not in run("retry", task, "--new-code", "run.sh").err


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("python ${IN/S}", "Put it into the job parameters"),
        ("python ${SN}", "Put it into the job parameters"),
        ("python ${OUTPUT0}", "Put it into the job parameters"),
        ("${TOOL}/run", "Write $TOOL if it is a variable of the shell"),
    ],
)
def test_placeholders_in_trans_path_are_refused(text: str, remedy: str) -> None:
    """docs/reference/payload-and-processes.md#payload: transPath, a blank, the job parameters: in
    transPath nothing is rendered, and the shell would put nothing for ${IN/S}."""
    for key, document in {
        "transPath": good(transPath=text),
        "buildSpec.transPath": good(
            jobParameters=[{**INPUT, "value": "cat ${IN/S} ${LIB}"}, OUTPUT],
            buildSpec={"transPath": text, "jobParameters": "${OUT}"},
        ),
        "mergeSpec.transPath": good(
            mergeOutput=True,
            mergeSpec={"transPath": text, "jobParameters": "${TRN_OUTPUT0} ${OUTPUT0}"},
        ),
    }.items():
        with pytest.raises(BadInput) as refused:
            validate(document)
        found = {problem.path: problem.remedy for problem in refused.value.problems}
        assert key in found
        assert key != "transPath" or found[key] == remedy
    assert validate(good(transPath="$TOOL/run ${PATH%:*} ${lower}")).trans_path


def test_what_is_filled_before_stays_in_trans_path() -> None:
    """Variables by the shell, ${PP_...} by the pre-processing job."""
    told = good(transPath="nice -n ${PP_HOW}", preproSpec={"transPath": "tell"})
    assert validate(told).trans_path
    assert validate(good(transPath="$SITE/run $JEDITASKID")).trans_path == "$SITE/run $JEDITASKID"
