"""Examples that the demo leaves out, run by a real system."""

from __future__ import annotations

import pytest
from scenarios.real_system import System

from jedi.core.settings import caller
from jedi.service import datasets, submission
from jedi.standalone.place import packaged

pytestmark = pytest.mark.xdist_group("examples")


def test_events(system: System) -> None:
    """Every line of three files of 150 is read once, 100 by a job."""
    paths = [system.inputs / f"lines{i}.txt" for i in range(3)]
    lines = [[f"file {i} line {n:03}" for n in range(150)] for i in range(3)]
    for path, content in zip(paths, lines, strict=True):
        path.write_text("\n".join(content) + "\n")
    examples = packaged("examples")
    with system.engine.begin() as tx:
        ddm = system.ddm(tx)
        datasets.add_files(tx, ddm, "demo:lines", paths, "DISK_A")
        text = (examples / "events.yaml").read_text()
        done = submission.submit(tx, ddm, caller(), text, "yaml", examples)
    assert system.settle(done.jedi_task_id) == ["done"]
    assert system.lines(done.jedi_task_id) == sorted(line for some in lines for line in some)
    written = [len(path.read_text().splitlines()) for path in system.outputs(done.jedi_task_id)]
    assert sorted(written) == [50, 100, 100, 100, 100]
    system.check()
