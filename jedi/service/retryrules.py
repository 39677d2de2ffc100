"""Retry rules: list, import, change, test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from jedi.core import strictyaml
from jedi.core.errors import BadInput, NotFound, Problem
from jedi.model.jobs.retry_rules import RetryRule, read_rules
from jedi.model.list_file import read_entry
from jedi.service.steering import must_be_operator
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


def list_rules(tx: Connection) -> list[RetryRule]:
    """Return all rules, in order."""
    return [_rule(row) for row in retry_rules.rules(tx)]


def summaries(rules: Sequence[RetryRule]) -> list[RuleSummary]:
    """Return rules as typed answers."""
    return [RuleSummary(**rule.model_dump()) for rule in rules]


def import_rules(tx: Connection, user_name: str, text: str) -> list[RetryRule]:
    """Insert or replace the rules of a file by rule_id; others stay. BadInput holds every mistake;
    then nothing is stored. Forbidden: `user_name` is no operator."""
    must_be_operator(tx, user_name)
    written = read_rules(text)
    _put(tx, user_name, written)
    return written


def set_rule(tx: Connection, user_name: str, rule_id: int, settings: Sequence[str]) -> RetryRule:
    """Change a rule: NAME=VALUE, values as in a file. NotFound: there is no such rule; Forbidden as
    above."""
    must_be_operator(tx, user_name)
    rows = retry_rules.rules(tx, [rule_id])
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
    _put(tx, user_name, [rule])
    return rule


def test_rules(tx: Connection, jedi_task_id: int | None = None) -> list[Tested]:
    """Return, for each rule, the matching failed jobs of all tasks or of one task."""
    return retry_rules.TEST.rows(tx, task=jedi_task_id)


def _rule(row: RetryRuleRow) -> RetryRule:
    return RetryRule.model_construct(**row._asdict())


def _put(tx: Connection, user_name: str, rules: Sequence[RetryRule]) -> None:
    problems = [
        Problem(f"{rule.rule_id}.message", rule.message, wrong, "Correct the expression")
        for rule in rules
        if rule.message and (wrong := retry_rules.mistake(tx, rule.message))
    ]
    if problems:
        raise BadInput(problems)
    retry_rules.put(tx, [rule.model_dump() for rule in rules], user_name)
