"""Builders that several tests share with tests of resubmission."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jedi.agent.base import World
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from support.task_rows import INPUT, OUTPUT

OUT = {**OUTPUT, "value": "> p.${SN}", "dataset": "a:p"}


def submit(world: World, base: Path = Path(), who: str = "anna", **keys: Any) -> storing.Submitted:
    document = {
        "taskName": "p",
        "site": "SITE_A",
        "nFilesPerJob": 1,
        "maxAttempt": 1,
        "jobParameters": [INPUT, OUT],
        **keys,
    }
    with world.engine.begin() as tx:
        return storing.submit(
            tx, world.ddm, examined(Document(json.dumps(document), "json", base), who)
        )
