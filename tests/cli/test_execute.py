"""`jedi-task exec`: a command becomes a task, worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jedi.model.tasks.text import examine
from jedi.service.submission.execution import task_of

NOW = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def made(*command: str, **given: Any) -> dict[str, Any]:
    """The task, which is well formed."""
    document = task_of(command, "me", NOW, **given)
    assert examine(document)[1] == []
    return document


def test_a_command_is_one_job() -> None:
    """What it prints is the output; its words are those that were given, blanks and all."""
    task = made("echo", "hello  world", "it's")
    assert (task["noInput"], task["nFiles"]) == (True, 1)
    assert task["taskName"] == "exec.echo.20260102T030405.000006"
    command, printed = task["jobParameters"]
    assert command == {"type": "constant", "value": "echo 'hello  world' 'it'\"'\"'s'"}
    assert (printed["value"], printed["dataset"]) == (
        "> printed.${SN}.txt",
        "user.me:exec.$JEDITASKID",
    )


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("wc", "-w"), "wc -w ${IN/S}"),
        (("sort ${IN/S} | uniq",), "(sort ${IN/S} | uniq)"),
        (("date; wc",), "(date; wc ${IN/S})"),
        (("./mine",), "./mine ${IN/S}"),
    ],
)
def test_a_dataset_is_a_job_a_file(command: tuple[str, ...], line: str) -> None:
    """The file stands where ${IN} is, else at the end; all that several commands print is kept."""
    task = made(*command, dataset="a:in", per_job=3)
    assert task["nFilesPerJob"] == 3 and "noInput" not in task
    assert task["jobParameters"][0] == {
        "type": "template",
        "param_type": "input",
        "value": line,
        "dataset": "a:in",
    }


def test_odd_names_are_names_all_the_same() -> None:
    assert made("/usr/bin/env", "x")["taskName"].startswith("exec.env.")
    assert made("(ls)")["taskName"].startswith("exec.ls.")
    assert made("...")["taskName"].startswith("exec.it.")
    assert made("ls", name="mine")["taskName"] == "mine"
    assert made("ls", files=["a.sh"])["sandbox"] == ["a.sh"]


def test_a_user_whose_name_fits_no_scope_has_one_all_the_same() -> None:
    """It is short enough, always the same, and no other user's."""

    def scope(user: str) -> str:
        dataset: str = task_of(["ls"], user, NOW)["jobParameters"][1]["dataset"]
        return dataset.partition(":")[0]

    odd = scope("o'neil " * 9)
    assert odd.startswith("user.") and len(odd) <= 30
    assert odd == scope("o'neil " * 9) != scope("o_neil " * 9)
    assert scope("a.b") == "user.a.b"
