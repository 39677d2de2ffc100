"""The sample distribution, installed by pip as people do, used by a real system, and removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jedi.agent.plugins import ROOMS
from jedi.demo.__main__ import still_running
from jedi.host.home import Home

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).parents[2]
PLUGINS = CHECKOUT / "examples" / "plugins"
QUEUE = "- {queue_id: 10, queue_name: sample, queue_type: user, vo: sample, queue_order: 10}\n"
TASK = """
taskName: mc25.lenient
vo: sample
maxAttempt: 1
skipScout: true
transPath: "! grep -h bad"
jobParameters:
  - {type: template, param_type: input, value: "${IN}", dataset: "sample:in"}
"""
FIND = "from jedi.agent import plugins; print(plugins.find({room!r}, 'sample', 'user').__module__)"
CAMPAIGN = """
from sqlalchemy import text
from jedi.cli.database import transaction
with transaction() as tx:
    print(tx.scalar(text("SELECT campaign FROM jedi_tasks")))
"""


class Place:
    """A virtual environment with pip's installation of the plug-ins, and a home beside it. A .pth
    file leads to JEDI and to what it depends on."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.home = scratch, Home(scratch / "home")
        self.python = str(scratch / "venv" / "bin" / "python")
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("JEDI_", "PYTHON"))}
        self._environment = {**ours, "JEDI_HOME": str(self.home.path)}
        self.run(sys.executable, "-m", "venv", "--without-pip", str(scratch / "venv"))
        purelib = self.run(self.python, "-c", "import sysconfig as s; print(s.get_path('purelib'))")
        leads = f"{CHECKOUT}\n{CHECKOUT}/client/src\n{sysconfig.get_path('purelib')}\n"
        (Path(purelib.strip()) / "jedi.pth").write_text(leads)

    def run(self, *command: str) -> str:
        """What a command prints; it must succeed."""
        done = subprocess.run(
            command,
            cwd=self.scratch,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def pip(self, *words: str) -> None:
        self.run(sys.executable, "-m", "pip", "--quiet", "--python", self.python, *words)

    def jedi(self, *words: str) -> str:
        return self.run(self.python, "-m", "jedi", *words)

    def task(self, *words: str) -> Any:
        """What `jedi-task` tells as JSON."""
        program = "import sys; from jedi_client.cli.task import main; main()"
        return json.loads(self.run(self.python, "-c", program, *words, "--json"))

    def found(self) -> dict[str, str]:
        """The module that serves tasks of vo sample, by room."""
        found = {}
        for room in ROOMS:
            found[room] = self.run(self.python, "-c", FIND.format(room=room)).strip()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    if place.home.path.exists():
        place.jedi("down", "--drain", "0")
        assert not still_running(place.home)
        place.home.discard()


def test_every_kind_of_plugin_has_a_sample(place: Place) -> None:
    """The sample distribution in examples/plugins/ has one plug-in of every kind and is really
    installed. By hand: five files in pairs make 3 jobs; the bad one
    is alone in the last, which fails, so 4 of 5 are processed: 80 %, which is enough."""
    assert not any("sample" in module for module in place.found().values())
    place.pip("install", "--no-index", "--no-build-isolation", "--no-deps", str(PLUGINS))
    names = {room: module.rpartition(".")[2] for room, module in place.found().items()}
    assert names == {room: room for room in ROOMS}

    for number, text in enumerate(["good"] * 4 + ["bad"]):
        (place.scratch / f"in.{number}").write_text(f"{text}\n")
    (place.scratch / "queues.yaml").write_text(QUEUE)
    (place.scratch / "task.yaml").write_text(TASK)
    place.jedi("up", "--detach")
    place.jedi("queue", "import", "queues.yaml")
    place.jedi("dataset", "add", "sample:in", *(f"in.{n}" for n in range(5)))
    task = str(place.task("submit", "task.yaml")["jedi_task_id"])
    place.task("wait", task, "--timeout", "200")

    why = place.task("why", task)
    assert why["status"] == "done"
    assert why["detail"] == (
        "4 of 5 input files were processed; 1 failed. That is enough for vo sample."
    )
    assert why["brokerage"]["broker"] == "fastest"
    assert len(place.task("jobs", task)) == 3
    assert place.run(place.python, "-c", CAMPAIGN).strip() == "mc25"

    place.pip("uninstall", "--yes", "jedi-sample-plugins")
    assert not any("sample" in module for module in place.found().values())
