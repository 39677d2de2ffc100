"""Files that belong together go to one job, which is told their names in a file."""

from __future__ import annotations

from scenarios.real_system import System


def test_boundaries(system: System) -> None:
    lines = system.texts("user:runs", 5, "DISK_A")
    lfns = [f"{line.replace(':', '.')}.txt" for line in lines]
    with system.engine.begin() as tx:
        home = system.ddm(tx).path("DISK_A", "user:runs", lfns[0]).parent
    said = "".join(f"  {lfn}: {{boundary: {1 + i % 2}}}\n" for i, lfn in enumerate(lfns))
    (home / ".dataset.yaml").write_text(f"files:\n{said}")
    source = {"type": "template", "param_type": "input", "value": "< ${IN/F}"}
    task = system.submit("xargs cat", {**source, "dataset": "user:runs"}, groupBoundaryID=4)
    assert system.settle(task) == ["done"]
    found = sorted(path.read_text().splitlines() for path in system.outputs(task))
    assert found == [lines[::2], lines[1::2]]
    system.check()
