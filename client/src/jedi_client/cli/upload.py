"""Local files of tasks: packed here, kept by the service under their sha256."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jedi_client.cli.common import service
from jedi_client.errors import BadInput, Problem, Unreachable

if TYPE_CHECKING:
    from jedi_client.operations import Client

MOST_MB = 512
"""The service may keep less (knob sandbox.max_mb)."""
Unpacked = tuple[Sequence[str], Sequence[Problem]]
"""The local files of a task, and the reasons why they can't be packed."""
SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jdl": "jdl"}


def task_format(file: Path) -> str:
    """The format of a task file by its suffix. BadInput."""
    if file.suffix.lower() not in SUFFIXES:
        rule = f"a task file ends in {', '.join(SUFFIXES)}"
        raise BadInput([Problem(str(file), file.suffix, rule, "Rename the file")])
    return SUFFIXES[file.suffix.lower()]


@contextmanager
def submitting() -> Iterator[Client]:
    """The service, for a submission. It has answered a question first: nothing was sent through a
    proxy that reaches no service."""
    with service() as jedi:
        try:
            if not jedi.profile.url.startswith("unix:"):
                jedi.me_show()
        except Unreachable as error:
            sentence = f"{error} Nothing was submitted."
            raise type(error)(sentence, code=error.code, **error.facts) from error
        yield jedi


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
    jedi: Client,
    texts: Sequence[dict[str, Any]],
    bases: Sequence[Path],
    check: Callable[[list[str | None]], object],
) -> list[str | None] | None:
    """The sandboxes of the tasks in texts, in their order; `bases`: the directory of each text.
    None: no task names local files. If some can't be packed, `check` asks the service about the
    tasks with the other sandboxes, and BadInput names all mistakes."""
    if not any("sandbox" in text["text"].lower() for text in texts):
        return None
    found: list[str | None] = []
    bad: list[Unpacked] = []
    for text, base in zip(texts, bases, strict=True):
        for paths in jedi.task_needs(texts=[text]):
            try:
                found.append(upload(jedi, paths, base) if paths else None)
            except BadInput as error:
                found.append(None)
                bad.append((paths, error.problems))
    if bad:
        raise BadInput(all_mistakes(bad, lambda: check(found)))
    return found


def all_mistakes(bad: Sequence[Unpacked], check: Callable[[], object]) -> Sequence[Problem]:
    """The mistakes that `check` finds, with those in local files of tasks, which stand where the
    service misses the files."""
    from jedi_client.sandbox import NOT_HERE

    left, found = list(bad), list[Problem]()
    try:
        check()
    except BadInput as error:
        for missed in error.problems:
            paths = missed.value if missed.rule == NOT_HERE else None
            one = next((one for one in left if one[0] == paths), None)
            if one is None:
                found.append(missed)
                continue
            left.remove(one)
            found += [
                replace(problem, path=problem.path.replace("sandbox", missed.path, 1))
                for problem in one[1]
            ]
    return [*found, *(problem for _, problems in left for problem in problems)]
