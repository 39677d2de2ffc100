"""Continuation after a restore: JEDI gives, runs and writes nothing twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.ddm.interface import DDM
from jedi.taskbuffer.housekeeping import restoring
from jedi.taskbuffer.sites import sites

_PLACEHOLDER = re.compile(r"\$\{(\w+)[^}]*\}")


def go_on(tx: Connection, ddm: DDM) -> tuple[int, int, dict[str, list[str]]]:
    """Prepare database and storage for the next start. Return the number of retried jobs, the
    number of removed files (made after the backup, so made again), and the unmerged files of
    endpoints that no longer exist, by endpoint.

    For tasks that had not ended, remove files that match the task's output names and that no job
    had reported, and open the datasets again. Unmerged files may be merged and removed since the
    backup: then jobs make them again.
    """
    templates = restoring.open_templates(tx)
    made = restoring.made(tx, templates)
    late = 0
    for name, texts in templates.items():
        paths = [
            path
            for path in _lying(tx, ddm, name)
            if (name, path.name) not in made
            and any(_pattern(t).fullmatch(path.name) for t in texts)
        ]
        if paths:
            with suppress(NotFound):  # a catalogue knows of what was published before the backup
                ddm.remove_files(name, [path.name for path in paths])
        for path in paths:
            path.unlink(missing_ok=True)
        _open(ddm, name)
        late += len(paths)
    known, lost, unseen = dict(sites.ROOTS.rows(tx)), set[int](), dict[str, list[str]]()
    for part in restoring.MERGE_PARTS.rows(tx):
        if part.endpoint not in known:
            unseen.setdefault(part.endpoint, []).append(f"{part.dataset_name}/{part.lfn}")
        elif not ddm.path(part.endpoint, part.dataset_name, part.lfn).is_file():
            lost.add(part.panda_id)
    return restoring.go_on(tx, sorted(lost)), late, unseen


def _lying(tx: Connection, ddm: DDM, name: str) -> Iterator[Path]:
    """Return the files in the directories of a dataset, whether in the catalogue or not."""
    for endpoint in dict(sites.ROOTS.rows(tx)):
        home = ddm.path(endpoint, name, "any").parent
        if home.is_dir():
            yield from (path for path in home.iterdir() if path.is_file())


def _open(ddm: DDM, name: str) -> None:
    try:
        if ddm.dataset(name).state == "closed":
            for replica in ddm.replicas(name):
                ddm.create(name, replica.endpoint)
    except NotFound:
        return


def _pattern(template: str) -> re.Pattern[str]:
    """Return a pattern for the names of a template: serial numbers are digits, other placeholders
    match anything."""
    fixed = iter(_PLACEHOLDER.split(template))
    parts = [re.escape(next(fixed))]
    for placeholder, text in zip(fixed, fixed, strict=True):
        parts += [r"\d+" if placeholder == "SN" else ".+", re.escape(text)]
    return re.compile("".join(parts))
