"""Jobs through a real Slurm while its daemon, submitters and pilots are killed.

`make test-slurm` does it with 1,000 jobs.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from scenarios.real_system import System, until
from slurm.cluster import Cluster, pilots_here

from jedi.core import processes
from jedi.service import waiting

JOBS = int(os.environ.get("JEDI_SLURM_JOBS", "40"))
SITES = [
    {"site": "SITE_A", "nslots": 6, "submitter": "slurm", "queue": "main", "maxtime": 3600,
     "endpoints": [{"ddm_endpoint": "DISK_A", "path": "storage/A"}]}
]  # fmt: skip
KNOBS = {"submitter.queue_s": 0.5, "agent.max_deaths": 1000, "pilot.idle_s": 2}
PAUSE_S = 1.0


def kill_submitters(system: System) -> None:
    rows = json.loads((system.home.path / "processes.json").read_text())
    for row in rows:
        process = processes.note(row["pid"]) if row["name"].startswith("Submitter") else None
        if process:
            process.signal(signal.SIGKILL)


def kill_a_pilot() -> None:
    if living := list(pilots_here().values()):
        random.choice(living).signal(signal.SIGKILL)


def settled(system: System, task: int) -> bool:
    with system.engine.begin() as tx:
        return waiting.look(tx, [task])[0].settled


@pytest.mark.timeout(120 + 2 * JOBS)
def test_whatever_dies_each_file_counts_once(cluster: Cluster, tmp_path: Path) -> None:
    system = System(tmp_path)
    system.site_file.write_text(yaml.safe_dump(SITES))
    system.up()
    for name, value in KNOBS.items():
        system.put(name, value)
    lines = system.texts("user:many", JOBS, "DISK_A")
    task = system.copying("user:many", "sleep 0.3; cat", nFilesPerJob=1, maxAttempt=1000)
    until(pilots_here, "a pilot runs")
    deaths: itertools.cycle[Callable[[], None]] = itertools.cycle(
        [kill_a_pilot, lambda: kill_submitters(system), lambda: cluster.kill("slurmd")]
    )
    died = 0
    while died < 3 or not settled(system, task):
        next(deaths)()
        died += 1
        time.sleep(random.uniform(0, PAUSE_S))
        if not cluster.alive("slurmd"):
            cluster.launch("slurmd")
    print(f"{died} deaths")
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    assert set(system.file_statuses(task)) == {"finished"}
    system.check()
    system.down()
    until(lambda: cluster.jobs() == [], "the queue is empty")
    system.home.discard()
