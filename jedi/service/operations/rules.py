"""Operations on retry rules: effects of jobs' errors besides another attempt."""

from __future__ import annotations

from jedi.service import retryrules, tasks
from jedi.service.operations.arguments import FILE_MAX, FileText, RowId, SettingTexts, TaskId
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.taskbuffer.jobs.retry_rules import Tested


@operation("retry_rule.list", "GET", "/v1/retry-rules", ANYBODY)
def find(call: Call) -> list[retryrules.RuleSummary]:
    """List the retry rules."""
    return retryrules.summaries(retryrules.list_rules(call.tx))


@operation(
    "retry_rule.import", "POST", "/v1/retry-rules/import", OPERATOR, body_max=FILE_MAX, dry_run=True
)
def put_file(call: Call, text: FileText) -> list[retryrules.RuleSummary]:
    """Insert or replace the retry rules of a file's text, by rule_id."""
    written = retryrules.import_rules(call.tx, call.who, text)
    call.name_objects("retry rule", [one.rule_id for one in written])
    return retryrules.summaries(written)


@operation("retry_rule.set", "PUT", "/v1/retry-rules/{rule_id}", OPERATOR, dry_run=True)
def change(call: Call, rule_id: RowId, settings: SettingTexts) -> retryrules.RuleSummary:
    """Change a retry rule, each setting NAME=VALUE with its value as in a file."""
    call.subject = f"retry rule {rule_id}"
    [changed] = retryrules.summaries([retryrules.set_rule(call.tx, call.who, rule_id, settings)])
    return changed


@operation("retry_rule.test", "GET", "/v1/retry-rules/test", ANYBODY, heavy=True)
def test(call: Call, jedi_task_id: TaskId | None = None) -> list[Tested]:
    """Show for each retry rule the number of failed jobs that match it, and the last ones."""
    if jedi_task_id is not None:
        tasks.must_exist(call.tx, jedi_task_id)
    return retryrules.test_rules(call.tx, jedi_task_id)
