"""A restored database goes on: nothing is given, run or written twice."""

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
    """Put database and storage where work can go on; how many jobs are tried again, how many files
    that were made after the backup were removed, for they are made again, and which files that wait
    to be merged, by endpoint, nobody can look for, since there is no such endpoint any more.

    Outputs of tasks that had not ended: a file is removed if its name is one that such a task
    gives and no job had told of it. Their datasets are open again. What waited to be merged may
    have been merged and removed since: then it is made again.
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
    known, lost, unseen = sites.roots(tx), set[int](), dict[str, list[str]]()
    for part in restoring.parts(tx):
        if part.endpoint not in known:
            unseen.setdefault(part.endpoint, []).append(f"{part.datasetname}/{part.lfn}")
        elif not ddm.path(part.endpoint, part.datasetname, part.lfn).is_file():
            lost.add(part.pandaid)
    return restoring.go_on(tx, sorted(lost)), late, unseen


def _lying(tx: Connection, ddm: DDM, name: str) -> Iterator[Path]:
    """What lies in the directories of a dataset; not all of it need be in the catalogue."""
    for endpoint in sites.roots(tx):
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
    """The names that a template gives: serial numbers are digits, anything else may be there."""
    fixed = iter(_PLACEHOLDER.split(template))
    parts = [re.escape(next(fixed))]
    for placeholder, text in zip(fixed, fixed, strict=True):
        parts += [r"\d+" if placeholder == "SN" else ".+", re.escape(text)]
    return re.compile("".join(parts))
