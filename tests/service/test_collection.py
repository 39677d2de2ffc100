"""Collections of tasks: all are stored, in their order, or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from support.cli_task import HELLO, run  # noqa: F401 - a fixture
from support.helpers import Run

from jedi.model.tasks.text import parse_text, split

TASK = """taskName: {0}
noInput: true
jobParameters:
  - {{type: constant, value: "é {0}"}}
  - {{type: template, param_type: output, value: "> o.${{SN}}", dataset: "a:{0}"}}
"""


def texts(engine: Engine) -> list[tuple[str, str]]:
    query = text(
        "SELECT taskname, source_text FROM jedi_tasks JOIN jedi_taskparams "
        "USING (jeditaskid) ORDER BY jeditaskid"
    )
    with engine.begin() as tx:
        return [(row.taskname, row.source_text) for row in tx.execute(query)]


def test_documents_files_and_lists(run: Run, engine: Engine, tmp_path: Path) -> None:  # noqa: F811
    documents, listed, as_json = (tmp_path / name for name in ("d.yaml", "l.yaml", "j.json"))
    documents.write_text("---\n" + TASK.format("one") + "---\n# a word\n" + TASK.format("two"))
    items = [TASK.format(name).replace("\n", "\n  ").rstrip(" ") for name in ("three", "four")]
    listed.write_text("".join(f"- {item}" for item in items))
    as_json.write_text(f"\n [ {json.dumps(parse_text(TASK.format('five'), 'yaml'))}\n, ".ljust(9))
    with as_json.open("a") as file:
        file.write('{"taskName": "six", "noInput": true, "jobParameters": ')
        file.write('[{"type": "constant", "value": "1.00"}, {"type": "template", ')
        file.write('"param_type": "output", "value": "> o.${SN}", "dataset": "a:6"}]} ]\n')
    answer = run("submit", documents, listed, as_json, HELLO, "--json")
    ids = [one["jedi_task_id"] for one in answer.value]
    assert (answer.code, ids) == (0, sorted(ids))
    stored = texts(engine)
    assert [name for name, _ in stored[:6]] == ["one", "two", "three", "four", "five", "six"]
    assert len(stored) == 7
    assert stored[1][1] == TASK.format("two")
    assert stored[2][1].strip().startswith("taskName: three\n")
    assert '"value": "1.00"' in stored[5][1]
    assert stored[6][1] == HELLO.read_text()
    for (_, one), format in zip(stored[:6], ["yaml"] * 4 + ["json"] * 2, strict=True):
        assert "jobParameters" in parse_text(one, format)


def test_all_or_none(run: Run, engine: Engine, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "tasks.yaml"
    bad = [TASK.format("good"), "taskName: 7\n", TASK.format("odd").replace("noInput", "noImput")]
    file.write_text("---\n".join(bad))
    answer = run("submit", file, HELLO, "--json")
    assert answer.code == 2
    paths = {problem["path"] for problem in json.loads(answer.err)["facts"]["problems"]}
    assert {path.partition(":")[0] for path in paths} == {f"{file}#2", f"{file}#3"}
    assert f"{file}#3: noImput" in paths
    assert texts(engine) == []


def test_a_later_one_may_build_on_an_earlier_one(
    run: Run,  # noqa: F811
    engine: Engine,
    tmp_path: Path,
) -> None:
    file = tmp_path / "tasks.yaml"
    child = TASK.format("child") + "parentTaskName: parent\n"
    file.write_text(TASK.format("parent") + "---\n" + child)
    assert run("submit", file, "--validate", "--json").value == {"valid": True, "warnings": []}
    assert texts(engine) == []
    first = run("submit", file, "--key", "monday", "--json").value
    assert run("submit", file, "--key", "monday", "--json").value == first
    assert len(first) == len(texts(engine)) == 2


@pytest.mark.parametrize(
    ("written", "format"),
    [
        ("", "yaml"),
        ("[]", "yaml"),
        ("[]", "json"),
        ("a: [", "yaml"),
        ("[1,", "json"),
        ("a: 1", "yaml"),
        ('{"a": 1}', "json"),
        ("3", "json"),
        ("word", "yaml"),
        ("a: 1\na: 2", "yaml"),
        ("---\na: &x 1\n---\nb: *x", "yaml"),
        ("[" * 5000, "json"),
    ],
)
def test_what_is_no_collection(written: str, format: str) -> None:
    assert split(written, format) is None


def test_a_collection_of_one(run: Run, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([parse_text(TASK.format("alone"), "yaml")]))
    [answer] = run("submit", file, "--json").value
    assert answer["status"] == "registered"


def test_what_is_refused_or_only_validated_uses_up_no_ids(
    run: Run,  # noqa: F811
    engine: Engine,
    tmp_path: Path,
) -> None:
    """Ids are consecutive for people: the next task has the next one. A task may build on one
    before it in its collection, also while they are tried."""

    def last() -> int:
        with engine.begin() as tx:
            found = tx.scalar(text("SELECT last_value FROM jedi_task_id_seq"))
        return int(found or 0)

    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    one = TASK.format("one")
    reader = one.replace("taskName: one", "taskName: two").replace("noInput: true\n", "")
    reader = reader.replace("a:one", "a:two").replace(
        "jobParameters:",
        "jobParameters:\n  - {type: template, param_type: input, value: '${IN}', dataset: 'a:one'}",
    )
    good.write_text(one + "---\n" + reader)
    bad.write_text(one + "---\n" + reader + "---\ntaskName: 7\n")
    first = run("submit", HELLO, "--json").value["jedi_task_id"]
    before = last()
    assert run("submit", bad, "--json").code == 2
    assert run("submit", good, "--validate", "--json").value == {"valid": True, "warnings": []}
    assert run("submit", HELLO, "--validate", "--json").value == {"valid": True, "warnings": []}
    assert last() == before
    ids = [task["jedi_task_id"] for task in run("submit", good, "--json").value]
    assert ids == [first + 1, first + 2]
