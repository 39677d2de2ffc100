"""The verbs of `jedi-task` that show the keys of a task."""

from __future__ import annotations

from typing import Annotated

import typer

from jedi_client.cli.common import Json, service, show, table


def params(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Only keys that contain one of these words."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the keys of a task with their values and meanings.

    Example: `jedi-task params event`
    """
    wanted = [word.lower() for word in words or [""]]
    with service() as jedi:
        known = jedi.task_parameters()
    found = [
        one
        for one in known
        if any(word in f"{one.where} {one.key} {one.meaning}".lower() for word in wanted)
    ]
    rows = [(one.where, one.key, one.values, one.default or None, one.meaning) for one in found]
    show(found, as_json, lambda: table(("of", "key", "is", "default", "meaning"), rows))


def schema(as_json: Json = True) -> None:
    """Print the JSON Schema of a task, for editors: always as JSON.

    Example: `jedi-task schema > task.schema.json`
    """
    with service() as jedi:
        found = jedi.task_schema()
    show(found, as_json, lambda: None)  # it has no other form
