"""Local files become datasets, as their owner adds them through the service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jedi_client.dataset_files import measure
from jedi_client.errors import BadInput
from sqlalchemy import Connection

from jedi.ddm.interface import DDM
from jedi.service.datasets import uploads
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users.users import PUT_USER


def add_files(
    tx: Connection, ddm: DDM, name: str, paths: Sequence[Path], endpoint: str | None = None
) -> list[uploads.AddedFile]:
    """Upload files and add them to a dataset, as the user of its scope, or an operator."""
    scope = name.partition(":")[0]
    if (who := scope.removeprefix("user.")) == scope:
        PUT_USER.run(tx, user=who, role="operator", gridpref=None, cap=None)
    to, known = uploads.destination(tx, ddm, who, name, endpoint), knobs.load(tx)
    local, problems = measure(paths)
    if problems:
        raise BadInput(problems)
    files = [uploads.NewFile(**one) for one in local]
    states = uploads.offer(ddm, known, to, files)
    for one, file, had in zip(local, files, states, strict=True):
        if had.status == "wanted":
            uploads.put_piece(ddm, known, to, file, 0, one.path.read_bytes())
    return uploads.add(tx, ddm, known, to, files)
