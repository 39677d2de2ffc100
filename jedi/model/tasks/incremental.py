"""Incremental execution: the parts of a refined task that may change, and the effects.

The rest is built into its rows. Source: JEDI document,
"Task retry and resubmission"; docs/reference/retries-and-timeouts.md#incremental-execution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic.alias_generators import to_camel

from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.model.splitting.given_rules import Rules
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks import unsupported
from jedi.model.tasks.contradictions import NOT_YET
from jedi.model.tasks.params import TaskParams
from jedi.model.tasks.refined import RefinedTask
from jedi.model.tasks.text import examine

_RULES = {
    "nMaxFilesPerJob": ("max_files_per_job",),
    "includedSite": ("included_site", "limited_sites"),
    "excludedSite": ("excluded_site", "limited_sites"),
    **{
        Rules.model_fields[name].alias or to_camel(name): (name,)
        for name in (
            *("n_files_per_job", "n_gb_per_job", "ignore_missing_in_ds", "allow_incomplete_in_ds"),
            *("t1_weight", "n_es_consumers", "n_events_per_worker", "n_jumbo_jobs", "avoid_vp"),
            *("no_input_pooling", "allow_input_lan", "use_local_io", "no_looping_check"),
            *("max_core_count", "only_tags_for_fc", "use_zip_to_pin", "no_auto_pause"),
        )
    },
}
_COLUMNS = {
    "site": ("site",),
    "cloud": ("cloud",),
    "ramCount": ("ram_count", "resource_type"),
}
_READ_WHERE_NEEDED = (
    *("nFiles", "nEvents", "taskPriority", "maxAttempt", "maxFailure"),
    *("cliParams", "fixedSandbox", "sandbox"),
)
INPUTS = "jobParameters"
"""The key of the job parameters, of which only the input datasets can change."""
CHANGEABLE = (*_RULES, *_COLUMNS, *_READ_WHERE_NEEDED)
"""Task parameters that may change."""


def _is_text(annotation: Any) -> bool:
    """Return True if a value of this type may be a text."""
    if get_origin(annotation) in (list, dict, tuple):
        return False
    return annotation is str or any(_is_text(one) for one in get_args(annotation))


TEXTS = frozenset(
    field.alias or name
    for name, field in TaskParams.model_fields.items()
    if (field.alias or name) in CHANGEABLE and _is_text(field.annotation)
)
"""Task parameters that may change and whose value is a text."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The changes in the rows of a refined task: its rules, and columns of jedi_tasks under their
    Python names. `task`: as if it were refined now."""

    task: RefinedTask
    rules: SplitRules
    columns: dict[str, Any]


def revise(task: RefinedTask, rules: SplitRules, changed: Collection[str]) -> Revision:
    """Only effects of the `changed` parameters: the present `rules` and columns may hold later
    measurements and decisions."""
    fields = [field for key in changed for field in _RULES.get(key, ())]
    names = [name for key in changed for name in _COLUMNS.get(key, ())]
    return Revision(
        task=task,
        rules=rules.model_copy(update={field: getattr(task.rules, field) for field in fields}),
        columns={name: getattr(task.columns, name) for name in names},
    )


def change(
    document: Mapping[str, Any], changes: Mapping[str, Any]
) -> tuple[TaskParams | None, list[Problem]]:
    """The task with these parameters instead (None takes one back), and all mistakes. The task
    keeps parameters that can't change."""
    fixed = list(_fixed(document, changes))
    merged = {**document, **changes, **{one.path: document.get(one.path) for one in fixed}}
    params, problems = examine({key: value for key, value in merged.items() if value is not None})
    return params, [*fixed, *problems]


def same_but_inputs(old: Any, new: Any) -> bool:
    """Return True if two lists of items differ only in the datasets that they read, or not at
    all."""

    def rest(items: Any) -> Any:
        return [
            {**item, "dataset": None} if item.get("param_type") == "input" else item
            for item in items
        ]

    return bool(rest(old) == rest(new))


def with_inputs(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the old list of items with the datasets that the new one reads, in their order."""
    read = iter([item["dataset"] for item in new if item.get("param_type") == "input"])
    return [
        {**item, "dataset": next(read, item["dataset"])}
        if item.get("param_type") == "input"
        else dict(item)
        for item in old
    ]


def _fixed(document: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[Problem]:
    known = [field.alias or name for name, field in TaskParams.model_fields.items()]
    for key, value in changes.items():
        if key in CHANGEABLE or (
            key == INPUTS and isinstance(value, list) and same_but_inputs(document[key], value)
        ):
            continue
        if key in known:
            rule, remedy = "can't be changed after the submission", "Submit a new task"
        elif key in unsupported.TASK_KEYS:
            rule, remedy = NOT_YET, unsupported.TASK_KEYS[key]
        else:
            listed = f"Keys that can change: {', '.join(sorted(CHANGEABLE))}"
            rule, remedy = "no such key", suggest(key, CHANGEABLE, listed)
        yield Problem(key, value, rule, remedy)
