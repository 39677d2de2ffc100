"""Entries that are no files, files without events, and long names, on a real system.

contracts 17: "links that end at regular files inside the endpoint are files (the content is the
target's); all other entries are left out, each with a reason; none holds or breaks the whole task".
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scenarios.real_system import System

from jedi.service.tasks import task_details

pytestmark = pytest.mark.long


def home_of(system: System, dataset: str) -> Path:
    """The directory of a dataset at DISK_A."""
    with system.engine.begin() as tx:
        return system.ddm(tx).path("DISK_A", dataset, "f").parent


def counted(system: System, task: int) -> tuple[int, int, dict[str, int]]:
    """Files of a task's input, those that are finished, and those that are left out by reason."""
    found = next(one for one in system.show(task).datasets if one.type == "input")
    return found.n_files, found.n_files_finished, found.left_out


@pytest.mark.parametrize("keys", [{"nFilesPerJob": 2}, {"nEventsPerJob": 5, "site": "SITE_B"}])
def test_odd_entries_are_left_out_and_links_are_read(system: System, keys: dict[str, Any]) -> None:
    """A link is moved to another site like any other file."""
    name = f"user:odd{len(keys)}"
    lines = system.texts(name, 3, "DISK_A")
    home = home_of(system, name)
    (home.parent / f"{home.name}.target").mkdir()
    (home.parent / f"{home.name}.target/t").write_text("linked\n")
    (home / "link").symlink_to(f"../{home.name}.target/t")
    (home / "dangling").symlink_to("nowhere")
    (home / "outside").symlink_to("/etc/hostname")
    (home / "odd name").write_text("odd\n")
    (home / "directory").mkdir()
    os.mkfifo(home / "fifo")
    files = [path.name for path in home.glob("*.txt")]
    events = "".join(f"  {lfn}: {{nevents: 5}}\n" for lfn in [*files[1:], "link"])
    (home / ".dataset.yaml").write_text(f"files:\n  {files[0]}: {{nevents: 0}}\n{events}")
    task = system.copying(name, skipScout=True, **keys)
    assert system.settle(task) == ["done"]
    odd = {"bad_file_name": 1, "link_broken": 1, "link_outside": 1, "not_a_file": 2}
    if "nEventsPerJob" in keys:
        assert counted(system, task) == (3, 3, odd | {"no_events": 1})
        assert Counter(system.lines(task)) < Counter([*lines, "linked"])
    else:
        assert counted(system, task) == (4, 4, odd)
        assert system.lines(task) == sorted([*lines, "linked"])
    system.check()


def test_a_job_reads_a_thousand_files_of_long_names(system: System) -> None:
    """The command has 185,000 characters, more than one argument may have."""
    system.texts("user:long", 1, "DISK_A")
    home = home_of(system, "user:long")
    for i in range(999):
        (home / f"{i:03}".ljust(184, "x")).write_text(f"{i}\n")
    task = system.copying("user:long", nFilesPerJob=1000, skipScout=True)
    assert system.settle(task) == ["done"]
    assert len(system.lines(task)) == 1000
    with system.engine.begin() as tx:
        (job,) = task_details.jobs(tx, task)
    assert job.attempt_nr == 1
