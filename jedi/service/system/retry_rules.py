"""Retry rules: list, import, change, test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jedi.core import strictyaml
from jedi.core.errors import BadInput, NotFound, Problem
from jedi.model.jobs.retry_rules import RetryRule, read_rules
from jedi.model.list_file import read_entry
from jedi.service.operations.arguments import FILE_MAX, FileText, RowId, SettingTexts, TaskId
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.service.tasks import task_details
from jedi.taskbuffer.jobs import retry_rules
from jedi.taskbuffer.jobs.retry_rules import RetryRuleRow, Tested


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """A retry rule: its conditions, its action, and for limit_retry the most attempts."""

    rule_id: int
    active: bool
    error_source: str | None
    error_code: str | None
    exit_code: int | None
    message: str | None
    site: str | None
    queue_id: int | None
    label: str | None
    architecture: str | None
    release: str | None
    action: str
    attempts: int | None
    description: str | None


@operation("retry_rule.list", "GET", "/v1/retry-rules", ANYBODY)
def find(call: Call) -> list[RuleSummary]:
    """List the retry rules."""
    return [RuleSummary(*row) for row in retry_rules.rules(call.tx)]


@operation(
    "retry_rule.import", "POST", "/v1/retry-rules/import", OPERATOR, body_max=FILE_MAX, dry_run=True
)
def import_rules(call: Call, text: FileText) -> list[RuleSummary]:
    """Insert or replace the retry rules of a file's text, by rule_id.

    Others stay. BadInput holds every mistake; then nothing is stored.
    """
    written = read_rules(text)
    _put(call, written)
    call.name_objects("retry rule", [one.rule_id for one in written])
    return [_summary(one) for one in written]


@operation("retry_rule.set", "PUT", "/v1/retry-rules/{rule_id}", OPERATOR, dry_run=True)
def set_rule(call: Call, rule_id: RowId, settings: SettingTexts) -> RuleSummary:
    """Change a retry rule, each setting NAME=VALUE with its value as in a file.

    NotFound: there is no such rule.
    """
    call.subject = f"retry rule {rule_id}"
    rows = retry_rules.rules(call.tx, [rule_id])
    if not rows:
        raise NotFound(f"There is no retry rule {rule_id}.", rule_id=rule_id)
    given: dict[str, Any] = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise BadInput([Problem(setting, setting, "lacks a =", "Write NAME=VALUE")])
        given[name] = strictyaml.load(value, name)
    rule = read_entry(_rule(rows[0]).model_dump() | given, RetryRule, str(rule_id))
    if rule.rule_id != rule_id:
        raise BadInput(
            [
                Problem(
                    "rule_id",
                    rule.rule_id,
                    "is the id of the rule and can't change",
                    "Import another one",
                )
            ]
        )
    _put(call, [rule])
    return _summary(rule)


@operation("retry_rule.test", "GET", "/v1/retry-rules/test", ANYBODY, heavy=True)
def test_rules(call: Call, jedi_task_id: TaskId | None = None) -> list[Tested]:
    """Show for each retry rule the number of failed jobs that match it, and the last ones."""
    if jedi_task_id is not None:
        task_details.must_exist(call.tx, jedi_task_id)
    return retry_rules.TEST.rows(call.tx, task=jedi_task_id)


def _rule(row: RetryRuleRow) -> RetryRule:
    return RetryRule.model_construct(**row._asdict())


def _summary(rule: RetryRule) -> RuleSummary:
    return RuleSummary(**rule.model_dump())


def _put(call: Call, rules: Sequence[RetryRule]) -> None:
    problems = [
        Problem(f"{rule.rule_id}.message", rule.message, wrong, "Correct the expression")
        for rule in rules
        if rule.message and (wrong := retry_rules.mistake(call.tx, rule.message))
    ]
    if problems:
        raise BadInput(problems)
    retry_rules.put(call.tx, [rule.model_dump() for rule in rules], call.who)
