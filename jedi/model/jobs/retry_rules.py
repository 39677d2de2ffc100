"""Retry rules: the effects of a job's error besides another attempt; the file of rules.

    - {rule_id: 1, error_code: memory_limit, action: increase_memory}

Source: docs/reference/retries-and-timeouts.md#retry-rules;
docs/reference/retries-and-timeouts.md#memory-increase.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import floor
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from jedi.model.list_file import Entry, read_list
from jedi.model.splitting.split_rules import SplitRules

MEMORY_STEPS = (1000, 2000, 3000, 4000, 6000, 8000)
"""MB that jobs which ran out of memory ask for next; by core where the task counts so."""

FOR_JOBS = ("no_retry", "limit_retry")
"""Actions that concern no more than the inputs of the job."""

FOR_TASKS = ("increase_cputime", "reduce_input_per_job")
"""Actions that concern the task alone: until it is changed, its next jobs would fail in the same
way. (More memory is for the inputs of the job at once.)"""

LONGEST = 256
_KEPT = re.compile(r"(MF|NG):([0-9.]+)")
_UNBOUNDED = re.compile(r"\\\d|\(\?[=!<]|^\*\*\*")

_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Word = Annotated[str, Field(min_length=1, max_length=128)]


def _quick(pattern: str) -> str:
    if _UNBOUNDED.search(pattern):
        raise ValueError("back-references, look-around and *** may take for ever")
    return pattern


class RetryRule(Entry):
    """A rule. It concerns failed jobs for which all that it names is as it says."""

    rule_id: _Number
    active: bool = Field(True, description="false = matches are only noted")
    error_source: Literal["pilot", "payload", "jedi", "user"] | None = None
    error_code: _Word | None = None
    exit_code: int | None = Field(None, description="of the payload")
    message: (
        Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_quick)] | None
    ) = Field(None, description="regular expression of PostgreSQL found in the error's sentence")
    site: _Word | None = None
    queue_id: _Number | None = Field(None, description="the work queue")
    label: _Word | None = Field(None, description="the task's prodSourceLabel")
    architecture: _Word | None = Field(None, description="the task's")
    release: _Word | None = Field(None, description="the task's transUses")
    action: Literal[
        "no_retry",
        "limit_retry",
        "increase_memory",
        "increase_memory_xtimes",
        "increase_cputime",
        "reduce_input_per_job",
    ]
    attempts: Annotated[int, Field(ge=1, le=32_767)] | None = Field(
        None, description="limit_retry: attempts that an input has at most"
    )
    description: Annotated[str, Field(max_length=256)] | None = None

    @model_validator(mode="after")
    def _together(self) -> RetryRule:
        if (self.action == "limit_retry") != (self.attempts is not None):
            raise ValueError("limit_retry needs attempts, and nothing else has them")
        if not any(getattr(self, name) is not None for name in CONDITIONS):
            raise ValueError(f"it would match every failure: give one of {', '.join(CONDITIONS)}")
        return self


CONDITIONS = (
    "error_source",
    "error_code",
    "exit_code",
    "message",
    "site",
    "queue_id",
    "label",
    "architecture",
    "release",
)


def read_rules(text: str) -> list[RetryRule]:
    """The rules of a file; BadInput holds every mistake."""
    return read_list(text, RetryRule, "rule_id")


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A failed job that a rule concerns. `asked_mb` and `used_mb`, its memory, are in the task's
    unit: by core, without the base, where that says so."""

    panda_id: int
    rule_id: int
    jedi_task_id: int
    active: bool
    action: str
    attempts: int | None
    asked_mb: float
    used_mb: float
    ram_offset: int | None
    ram_step: int | None
    ram_max: int | None


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a rule on the inputs of a job, and its sentence: attempts that they have at
    most (0: no more), MB that their next jobs ask for (None: as before)."""

    sentence: str
    attempts: int | None = None
    ram_mb: int | None = None


def effect(match: RuleMatch) -> Effect:
    """The effect of a rule on the inputs of a job."""
    match match.action:
        case "no_retry":
            return Effect("not tried again", attempts=0)
        case "limit_retry":
            return Effect(f"tried {match.attempts} times at most", attempts=match.attempts)
        case "increase_memory" | "increase_memory_xtimes":
            return _more_memory(match)
    return Effect("the task is changed")


def _more_memory(match: RuleMatch) -> Effect:
    present = max(match.asked_mb, match.used_mb)
    own = match.action == "increase_memory_xtimes" and (match.ram_offset or match.ram_step)
    target = _own_step(match, present) if own else _next(present)
    if target is None:
        return Effect(f"more than {present:.0f} MB can't be asked for")
    return Effect(f"asks for {target} MB, had {match.asked_mb:.0f}", ram_mb=target)


def _next(present: float) -> int | None:
    return next((step for step in MEMORY_STEPS if step > present), None)


def _own_step(match: RuleMatch, present: float) -> int | None:
    """retryRamOffset, then retryRamStep more each time, up to retryRamMax."""
    offset, step = match.ram_offset or 0, match.ram_step or 0
    if present < offset:
        target = offset
    elif step:
        target = offset + (floor((present - offset) / step) + 1) * step
    else:
        return None
    target = min(target, match.ram_max or target)
    return target if target > present else None


def reduced(rules: SplitRules, attempt_nr: int, most_files: int) -> SplitRules | None:
    """The rules of a task whose jobs had too much input at this attempt: they get a half, a
    quarter, then one file and 1 GB. The first sizes stay in retry_module_rules. None: other rules
    fix the size, or it is as small already."""
    if rules.n_files_per_job or rules.n_events_per_job or rules.target_events_per_job:
        return None
    kept = dict(_KEPT.findall(rules.retry_module_rules or ""))
    first = kept or {
        "MF": str(rules.max_files_per_job or most_files),
        **({"NG": f"{rules.n_gb_per_job:.12g}"} if rules.n_gb_per_job else {}),
    }
    share = 0.0 if attempt_nr > 2 else 0.5**attempt_nr
    files = max(1, int(float(first.get("MF", most_files)) * share))
    if files >= (rules.max_files_per_job or most_files):
        return None
    size = {"n_gb_per_job": float(first["NG"]) * share or 1.0} if "NG" in first else {}
    kept_text = "|".join(f"{code}:{value}" for code, value in first.items())
    return rules.model_copy(
        update={"max_files_per_job": files, "retry_module_rules": kept_text, **size}
    )
