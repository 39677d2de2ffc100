"""Manifests of DIRAC on a real system: children of a herd, and a job without splitter.

Expected: RFC #15, "Manifest changes"; docs/reference/jdl.md#attributes.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from scenarios.real_system import System
from support.adding import add_files
from support.calls import call

from jedi.core.settings import caller
from jedi.demo import truth
from jedi.service.herds import herd_report
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.standalone.installation import packaged

pytestmark = pytest.mark.long


def submit(system: System, file: Path) -> int:
    """Submit a manifest; the id of its task."""
    with system.engine.begin() as tx:
        return storing.submit(
            tx, system.ddm(tx), examined(Document(file.read_text(), "jdl", file.parent), caller())
        ).jedi_task_id


def test_ten_children_and_one_job(system: System, tmp_path: Path) -> None:
    """The ten children print the RFC's numbers, each into its own files. A job has its executable
    from the input sandbox, its output data under its own number, and a file that it did not make
    is no mistake."""
    (tmp_path / "hello.sh").write_text("#!/bin/sh\necho $* $WHO; echo data > made.txt\n")
    (tmp_path / "one.jdl").write_text("""
Executable = "hello.sh"; InputSandbox = hello.sh; Arguments = "hello $UNKNOWN";
ExecutionEnvironment = "WHO=you"; StdOutput = out; OutputSandbox = {out, missing};
OutputData = "made.txt";""")
    herd = submit(system, packaged("examples") / "parametric.jdl")
    one = submit(system, tmp_path / "one.jdl")
    assert system.settle(herd, one) == ["done", "done"]
    archives = sorted(system.outputs(herd))
    assert " ".join(truth.printed(archives)) == truth.RFC_VALUES
    for number, file in enumerate(archives):
        with tarfile.open(file) as archive:
            assert sorted(archive.getnames()) == [f"StdErr_{number:02}", f"StdOut_{number:02}"]
    with system.engine.begin() as tx:
        assert herd_report.show(call(tx), herd, after=0, limit=100).statuses == {"finished": 10}
    found = {file.name: file for file in system.outputs(one)}
    assert found["made.000001.txt"].read_text() == "data\n"
    with tarfile.open(found["sandbox.000001.tgz"]) as archive:
        content = archive.extractfile("out")
        assert content and content.read() == b"hello you\n"
    system.check()


def test_files_go_together_by_storage(system: System, tmp_path: Path) -> None:
    """Two files a child; together the children count all words."""
    paths = [tmp_path / f"f{n}.py" for n in range(5)]
    for path in paths:
        path.write_text("one two three\n")
    with system.engine.begin() as tx:
        add_files(tx, system.ddm(tx), "demo:pieces", paths, "DISK_A")
    example = tmp_path / "by-storage.jdl"
    written = (packaged("examples") / "by-storage.jdl").read_text()
    example.write_text(written.replace("demo:texts", "demo:pieces"))
    task = submit(system, example)
    assert system.settle(task) == ["done"]
    counted = []
    for file in system.outputs(task):
        with tarfile.open(file) as archive:
            content = archive.extractfile("words.txt")
            counted.append(int(content.read() if content else 0))
    assert sorted(counted) == [3, 6, 6]
