"""`jedi retry-rule`: effects of jobs' errors besides another attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer
from jedi_client.cli.common import DryRun, Json, application, cell, read_file, service, show, table
from jedi_client.cli.task_common import task_ids

from jedi.cli.admin import ImportedFile

if TYPE_CHECKING:
    from jedi_client.models import RuleSummary

app = application("Retry rules: effects of jobs' errors besides another attempt.")

EFFECTS = {"rule_id", "active", "action", "attempts", "description"}
"""Fields of a rule that are no conditions."""


@app.command("list")
def rule_list(as_json: Json = False) -> None:
    """List the retry rules.

    Example: `jedi retry-rule list`
    """
    with service() as jedi:
        rules = jedi.retry_rule_list()
    show(rules, as_json, lambda: _show(rules))


@app.command("import")
def rule_import(file: ImportedFile, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Insert or replace the retry rules of FILE, identified by rule_id.

    Example: `jedi retry-rule import rules.yaml`
    """
    with service() as jedi:
        rules = jedi.retry_rule_import(text=read_file(file), dry_run=dry_run)
    show(rules, as_json, lambda: typer.echo(f"{len(rules)} retry rules imported."), dry_run=dry_run)


@app.command("set")
def rule_set(
    rule: int,
    settings: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Change a retry rule, values as in a file; a passive rule only records its matches.

    Example: `jedi retry-rule set 1 active=false`
    """
    with service() as jedi:
        changed = jedi.retry_rule_set(rule, settings=settings, dry_run=dry_run)
    show(changed, as_json, lambda: _show([changed]), dry_run=dry_run)


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
    with service() as jedi:
        rules = jedi.retry_rule_test(jedi_task_id=task)
    headers = ["rule", "active", "action", "jobs", "such as", "description"]
    rows = [[r.rule_id, r.active, r.action, r.jobs, r.examples, r.description] for r in rules]
    show(rules, as_json, lambda: table(headers, rows))


def _show(rules: Sequence[RuleSummary]) -> None:
    table(
        ["rule", "active", "jobs whose", "action", "attempts", "description"],
        [
            [
                rule.rule_id,
                rule.active,
                ", ".join(
                    f"{one.name} = {cell(value)}"
                    for one in fields(rule)
                    if one.name not in EFFECTS and (value := getattr(rule, one.name)) is not None
                ),
                rule.action,
                rule.attempts,
                rule.description,
            ]
            for rule in rules
        ],
    )
