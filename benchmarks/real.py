"""The real system, every agent a process, on the database of a benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from jedi.core import states
from jedi.core.settings import caller
from jedi.ddm import factory
from jedi.host.home import Home
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.taskbuffer.db import knobs

TINY = {
    "taskName": "bench",
    "noInput": True,
    "nFiles": 1,
    "transPath": "true",
    "jobParameters": [{"type": "constant", "value": "."}],
}
"""A task of one job that does nothing."""

_ENDED = text("SELECT count(*) FROM jedi_tasks WHERE status = ANY(:final)")


@contextmanager
def system(engine: Engine, **settings: object) -> Iterator[Callable[..., None]]:
    """`jedi up` with these knobs (`_` for the first dot), down again afterwards; runs `jedi`."""
    with tempfile.TemporaryDirectory(prefix="jedi-bench-") as path:
        home = Home(Path(path) / "home")
        url = engine.url.render_as_string(hide_password=False)
        environment = {**os.environ, "JEDI_HOME": str(home.path), "JEDI_DATABASE_URL": url}

        def jedi(*words: str) -> None:
            command = [sys.executable, "-m", "jedi", *words]
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)

        jedi("up", "--detach")
        try:
            with engine.begin() as tx:
                for name, value in settings.items():
                    knobs.put(tx, name.replace("_", ".", 1), value, "bench")
            yield jedi
        finally:
            jedi("down")
            home.discard()


def submit(engine: Engine, task: Mapping[str, Any] = TINY) -> int:
    """Store a task, a tiny one unless given, in a transaction of its own."""
    with engine.begin() as tx:
        ddm = factory.load(tx, knobs.load(tx))
        return storing.submit(
            tx, ddm, examined(Document(json.dumps(task), "json", Path()), caller())
        ).jedi_task_id


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():
        time.sleep(0.1)


def ended(engine: Engine) -> int:
    """How many tasks have come to their end."""
    with engine.begin() as tx:
        return int(tx.scalar(_ENDED, {"final": sorted(states.TASK.final)}) or 0)
