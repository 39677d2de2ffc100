"""Local files of tasks: packed here, kept by the service under their sha256."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jedi_client.errors import BadInput, Problem

if TYPE_CHECKING:
    from jedi_client.operations import Client

MOST_MB = 512
"""The service may keep less (knob sandbox.max_mb)."""
SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jdl": "jdl"}


def task_format(file: Path) -> str:
    """The format of a task file by its suffix. BadInput."""
    if file.suffix.lower() not in SUFFIXES:
        rule = f"a task file ends in {', '.join(SUFFIXES)}"
        raise BadInput([Problem(str(file), file.suffix, rule, "Rename the file")])
    return SUFFIXES[file.suffix.lower()]


def upload(jedi: Client, files: Sequence[str], base: Path) -> str:
    """Pack files, named relative to `base`, and give them to the service, unless it has them; the
    sha256. BadInput names all that can't be packed."""
    from jedi_client.sandbox import bundle

    sandbox, problems = bundle(files, base, MOST_MB)
    if sandbox is None or problems:
        raise BadInput(problems)
    if not jedi.sandbox_known(sandbox.sha256):
        jedi.sandbox_put(sandbox.sha256, data=sandbox.data)
    return sandbox.sha256


def upload_all(
    jedi: Client, texts: Sequence[dict[str, Any]], bases: Sequence[Path]
) -> list[str | None] | None:
    """The sandboxes of the tasks in texts, in their order; `bases`: the directory of each text.
    None: no task names local files."""
    if not any("sandbox" in text["text"].lower() for text in texts):
        return None
    found: list[str | None] = []
    for text, base in zip(texts, bases, strict=True):
        [*needed] = jedi.task_needs(texts=[text])
        found += [upload(jedi, paths, base) if paths else None for paths in needed]
    return found
