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
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from scenarios.real_system import System, until
from slurm.cluster import Cluster
from support.calls import call
from support.statuses import statuses

from jedi.host import processes
from jedi.service.tasks import waiting

pytestmark = pytest.mark.long

JOBS = int(os.environ.get("JEDI_SLURM_JOBS", "40"))
SITES = [
    {
        "site": "SITE_A",
        "nslots": 12,
        "submitter": "slurm",
        "queue": "main",
        "maxtime": 3600,
        "endpoints": [{"ddm_endpoint": "DISK_A", "path": "storage/A"}],
    }
]
KNOBS = {"submitter.queue_s": 0.5, "agent.max_deaths": 1000, "pilot.idle_s": 2}
PAUSE_S = 2.0
"""Between two deaths, on average."""


@pytest.fixture
def system(cluster: Cluster, tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path)
    system.site_file.write_text(yaml.safe_dump(SITES))
    system.up()
    for name, value in KNOBS.items():
        system.put(name, value)
    yield system
    system.down()
    until(lambda: cluster.jobs() == [], "the queue is empty")
    system.home.discard()


def kill_a_submitter(system: System) -> None:
    rows = json.loads((system.home.path / "processes.json").read_text())
    submitters = [row for row in rows if row["name"].startswith("Submitter")]
    if process := processes.note(random.choice(submitters)["pid"] or 0):
        process.signal(signal.SIGKILL)


def kill_a_pilot(cluster: Cluster) -> None:
    if living := list(cluster.pilots().values()):
        random.choice(living).signal(signal.SIGKILL)


def settled(system: System, task: int) -> bool:
    with system.engine.begin() as tx:
        return waiting.look(call(tx), [task])[0].settled


@pytest.mark.timeout(120 + 2 * JOBS)
def test_whatever_dies_each_file_counts_once(system: System, cluster: Cluster) -> None:
    lines = system.texts("user:many", JOBS, "DISK_A")
    task = system.copying("user:many", "sleep 0.5; cat", nFilesPerJob=1, maxAttempt=1000)
    until(cluster.pilots, "a pilot runs")
    deaths: itertools.cycle[Callable[[], None]] = itertools.cycle(
        [
            lambda: kill_a_pilot(cluster),
            lambda: kill_a_submitter(system),
            lambda: cluster.kill("slurmd"),
        ]
    )
    died = 0
    while died < 3 or not settled(system, task):
        next(deaths)()
        died += 1
        time.sleep(random.uniform(0, 2 * PAUSE_S))
        if not cluster.alive("slurmd"):
            cluster.launch("slurmd")
    print(f"{died} deaths")
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    assert set(statuses(system.engine, task, "files", type="input")) == {"finished"}
    system.check()
