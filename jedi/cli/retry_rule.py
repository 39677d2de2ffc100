"""`jedi retry-rule`: effects of jobs' errors besides another attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from jedi_client.cli.common import Json, application, cell, read_file, show, table
from jedi_client.cli.task_common import task_ids

from jedi.cli.admin import ImportedFile
from jedi.cli.database import transaction
from jedi.core.settings import caller

if TYPE_CHECKING:
    from jedi.spec.jobs.retry_rules import RetryRule

app = application("Retry rules: effects of jobs' errors besides another attempt.")


@app.command("list")
def rule_list(as_json: Json = False) -> None:
    """List the retry rules.

    Example: `jedi retry-rule list`
    """
    from jedi.service.retryrules import list_rules

    with transaction() as tx:
        rules = list_rules(tx)
    show([rule.model_dump() for rule in rules], as_json, lambda: _show(rules))


@app.command("import")
def rule_import(file: ImportedFile, as_json: Json = False) -> None:
    """Insert or replace the retry rules of FILE, identified by rule_id.

    Example: `jedi retry-rule import rules.yaml`
    """
    from jedi.service.retryrules import import_rules

    with transaction() as tx:
        rules = import_rules(tx, caller(), read_file(file))
    rows = [rule.model_dump() for rule in rules]
    show(rows, as_json, lambda: typer.echo(f"{len(rows)} retry rules imported."))


@app.command("set")
def rule_set(
    rule: int,
    settings: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    as_json: Json = False,
) -> None:
    """Change a retry rule, values as in a file; a passive rule only records its matches.

    Example: `jedi retry-rule set 1 active=false`
    """
    from jedi.service.retryrules import set_rule

    with transaction() as tx:
        changed = set_rule(tx, caller(), rule, settings)
    show(changed.model_dump(), as_json, lambda: _show([changed]))


@app.command("test")
def rule_test(
    task: Annotated[
        int | None, typer.Option("--task", autocompletion=task_ids, help="Only this task.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show for each rule the number of failed jobs that match it, and the last one.

    Example: `jedi retry-rule test --task 1`
    """
    from jedi.service.retryrules import test_rules

    with transaction() as tx:
        found = test_rules(tx, task)
    headers = ["rule", "active", "action", "jobs", "such as", "description"]
    rows = [[r.rule_id, r.active, r.action, r.jobs, r.examples, r.description] for r in found]
    show(found, as_json, lambda: table(headers, rows))


def _show(rules: list[RetryRule]) -> None:
    from jedi.spec.jobs.retry_rules import CONDITIONS

    table(
        ["rule", "active", "jobs whose", "action", "attempts", "description"],
        [
            [rule.rule_id, rule.active, ", ".join(
                f"{name} = {cell(value)}" for name in CONDITIONS
                if (value := getattr(rule, name)) is not None
            ), rule.action, rule.attempts, rule.description]
            for rule in rules
        ],
    )  # fmt: skip
