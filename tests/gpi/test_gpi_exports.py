"""Exports of registries. Source: docs/reference/ganga.md#exports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client import Job, JobTemplate, Script, folders, jobs, templates
from jedi_client.errors import BadInput, JediError, NotFound, Problem
from jedi_client.gpi.exports import export, load
from jedi_client.gpi.interfaces import Accepted, Document
from jedi_client.gpi.store.sqlite_store import SqliteStore

ODD = {
    "type": "Job",
    "args": ["quote \" ' \\", "\udc80", "\0", "日本語 🙂", "yes", "1e3", "\x85", ""],
    "depth": [{"a": [None, True, 2**70, -0.5]}],
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "registry.db")
    yield made
    made.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "other" / "registry.db")
    made.create("job", [{}] * 5)
    yield made
    made.close()


@pytest.mark.parametrize("name", ["jobs.json", "jobs.yaml"])
def test_a_registry_goes_into_another(
    store: SqliteStore, other: SqliteStore, tmp_path: Path, name: str
) -> None:
    """Row 115: "export to a human-readable file and load gives equal objects, state new"; check
    21: "round trip, odd characters, registry export"."""
    store.create("job", [ODD, {"n": 1}], ["Z → µµ", ""], ["good\nvery", ""])
    store.create("template", [{"t": 1}], ["recipe"])
    store.put("/2025/zmumu", [0])
    store.begin(0, 1, "JEDI")
    store.accept(0, Accepted("17"), "submitted", [])
    report = export(store, tmp_path / name)
    assert (report.done, report.failed) == ([0, 1, 0], {})
    assert store.guid in (tmp_path / name).read_text(encoding="ascii")
    made = load(other, tmp_path / name)
    assert [(one.id, one.status, one.name, one.comment) for one in made["job"]] == [
        (5, "new", "Z → µµ", "good\nvery"),
        (6, "new", "", ""),
    ]
    assert [one.document for one in made["job"]] == [ODD, {"n": 1}]
    assert [(one.id, one.name) for one in made["template"]] == [(0, "recipe")]
    assert other.folders()["/2025/zmumu"] == [5]


def test_an_export_can_be_continued(store: SqliteStore, other: SqliteStore, tmp_path: Path) -> None:
    """Check 21: "append"."""
    store.create("job", [{"n": n} for n in range(3)])
    path = tmp_path / "jobs.json"
    export(store, path, [2])
    export(store, path, [0], append=True)
    assert [one.document for one in load(other, path)["job"]] == [{"n": 2}, {"n": 0}]
    with pytest.raises(NotFound):
        export(store, path, [7], append=True)
    export(store, path, [1])
    assert [one.document for one in load(other, path)["job"]] == [{"n": 1}]
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".jobs")] == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "__import__('os').system('touch evaluated')"),
        ("a.json", "{"),
        ("a.json", "[" * 100_000),
        ("a.json", "[]"),
        ("a.json", '{"format": "x"}'),
        ("a.json", '{"format": "jedi-client export", "version": 2, "entries": []}'),
        ("a.json", '{"format": "jedi-client export", "version": 1}'),
        ("a.json", '{"format": "jedi-client export", "version": 1, "entries": [3]}'),
        ("a.yaml", "!!python/object/apply:os.system ['touch evaluated']"),
        ("a.yaml", "a: &a [1]\nb: [*a, *a]"),
        ("a.yaml", "&a [*a]"),
        ("a.yaml", "{"),
    ],
)
def test_other_files_are_refused_and_never_evaluated(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    """Row 115: "never executed"."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInput):
        load(store, tmp_path / name)
    assert not (tmp_path / "evaluated").exists()
    assert store.list("job") == []


def test_all_mistakes_of_an_export_at_once(store: SqliteStore, tmp_path: Path) -> None:
    """Nothing is stored if one document is wrong."""

    def check(document: Document) -> None:
        if "typ" in document:
            raise BadInput([Problem("typ", document["typ"], "is unknown", "Did you mean type?")])

    store.create("job", [{"typ": 1}, {"type": 2}, {"typ": 3}])
    export(store, tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text().replace('"type": 2', '"type": NaN')
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInput) as refused:
        load(store, tmp_path / "a.json", check)
    assert [one.path for one in refused.value.problems] == [
        "entries[0].typ",
        "entries[1].document",
        "entries[2].typ",
    ]
    assert len(store.list("job")) == 3


def test_yaml_without_its_package(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jedi-client does not depend on pyyaml."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(JediError, match=r"Install it, or name a file that ends in \.json"):
        export(store, tmp_path / "a.yaml")
    export(store, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["entries"] == []


def test_people_export_and_load_jobs(home: Path, tmp_path: Path) -> None:
    """Check 21: "export/append/load round trip": equal objects, new ids, state new, in their
    folders; a wrong property refuses the file with a remedy."""
    first = Job(name="one", application=Script("fit.py", args=['a " b']), splitter=20)
    Job(name="two", inputdata=["lfn:/a"])
    JobTemplate(first, name="recipe")
    folders.cd("/2025").add(first)
    path = tmp_path / "jobs.json"
    assert jobs.select(name="one").export(path).done == [0]
    assert jobs.export(path, append=True).done == [0, 1]
    loaded = jobs.load(path)
    assert [(one.id, one.name, one.status) for one in loaded] == [
        (2, "one", "new"),
        (3, "one", "new"),
        (4, "two", "new"),
    ]
    assert [one.document() for one in loaded] == [jobs(id).document() for id in (0, 0, 1)]
    assert [one.folder for one in loaded] == ["/2025", "/2025", None]
    templates.export(path)
    [copy] = templates.load(path)
    assert (copy.id, copy.name, len(jobs)) == (1, "recipe", 5)
    path.write_text(path.read_text().replace('"fit.py"', "3").replace('"splitter"', '"spliter"'))
    with pytest.raises(BadInput, match="Did you mean splitter") as refused:
        templates.load(path)
    assert len(refused.value.problems) == 2
    assert len(templates) == 2
