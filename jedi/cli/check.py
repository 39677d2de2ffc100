"""`jedi check`: do the records agree with each other, and with storage?"""

from __future__ import annotations

from typing import Annotated

import typer
from jedi_client.cli.common import NO, Json, console, show, table

from jedi.cli.database import transaction


def check(
    files: Annotated[
        bool, typer.Option("--files", help="Read every finished output in storage, too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the invariants: counters, statistics, jobs and their files, status logs.

    Exit code 0: all hold, 1: one does not.

    Example: `jedi check --files`
    """
    from jedi.ddm import factory
    from jedi.service.system.check import check
    from jedi.taskbuffer.db import knobs

    with transaction() as tx:
        invariants = check(tx, factory.load(tx, knobs.load(tx)) if files else None)
    violated = [one for one in invariants if one.violations]

    def people() -> None:
        table(
            ["invariant", "meaning", "examined", "violations"],
            [[one.invariant, one.meaning, one.examined, one.violations] for one in invariants],
            folded=True,
        )
        for one in violated:
            more = ", ..." if one.violations > len(one.ids) else ""
            ids = ", ".join(map(str, one.ids))
            console().print(f"{one.invariant}: {one.of} {ids}{more}")

    show({"healthy": not violated, "invariants": invariants}, as_json, people)
    if violated:
        raise typer.Exit(NO)
