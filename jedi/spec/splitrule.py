"""Split rules: how a task's input becomes jobs, typed; their two-letter text is made only here.

Source: engine.md §2.5. Rules come in as task parameters arrive at the features behind them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_CODES = {
    "n_files_per_job": "NF",
    "n_gb_per_job": "NG",
    "max_files_per_job": "MF",
    "max_walltime_h": "MW",
}


class SplitRules(BaseModel):
    """Sizes of a job. None: no rule. GB = 2^30 bytes of input; hours of wall time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_files_per_job: Annotated[int, Field(ge=1)] | None = None
    n_gb_per_job: Annotated[float, Field(gt=0)] | None = None
    max_files_per_job: Annotated[int, Field(ge=1)] | None = None
    max_walltime_h: Annotated[float, Field(gt=0)] | None = None


def render_split_rule(rules: SplitRules) -> str:
    """The text of jedi_tasks.splitrule, such as `NF=5,NG=2.5`."""
    given = rules.model_dump(exclude_none=True)
    return ",".join(f"{_CODES[name]}={value:.12g}" for name, value in given.items())


def parse_split_rule(text: str) -> SplitRules:
    """The rules behind a text; ValueError if it holds an unknown code or a bad value."""
    names = {code: name for name, code in _CODES.items()}
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        code, _, value = part.partition("=")
        if code not in names:
            raise ValueError(f"unknown split rule {part!r}")
        found[names[code]] = value
    return SplitRules.model_validate(found)
