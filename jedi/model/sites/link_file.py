"""The network file: figures of the links between places, as operators write it.

    - {src: A, dst: B, closeness: 3, production_queued: 12, mb_s_1h: 80.5}

Places are grid sites, or queues that belong to none. Missing figures stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from jedi.core import names, strictyaml
from jedi.core.errors import BadInput, Problem
from jedi.model.list_file import Entry, no_mapping, read_entry

_Name = Annotated[str, AfterValidator(names.site)]
_Figure = Annotated[float, Field(ge=0, le=1e12)]
KEYS = {
    "closeness": "closeness",
    "production_queued": "production_queued",
    "express_queued": "express_queued",
    "mb_s_1h": "mbps_1h",
    "mb_s_1d": "mbps_1d",
    "mb_s_1w": "mbps_1w",
}
"""Measurements of a link, with the keys under which they are stored."""


@dataclass(frozen=True, slots=True)
class LinkMetric:
    """One figure of a link; speeds in MB/s."""

    src: str
    dst: str
    key: str
    value: float


class Link(Entry):
    """The measurements of the way from one place to another."""

    src: _Name = Field(description="the source of the files")
    dst: _Name = Field(description="where they go")
    closeness: Annotated[float, Field(ge=-1, le=11)] | None = Field(
        None, description="0 best to 11 worst, -1 = closed"
    )
    production_queued: _Figure | None = Field(None, description="queued output files")
    express_queued: _Figure | None = Field(None, description="queued files of urgent jobs")
    mb_s_1h: _Figure | None = Field(None, description="MB/s over the last hour")
    mb_s_1d: _Figure | None = Field(None, description="MB/s over the last day")
    mb_s_1w: _Figure | None = Field(None, description="MB/s over the last week")

    def figures(self) -> list[LinkMetric]:
        """Every figure that is given."""
        given = self.model_dump(exclude={"src", "dst"}, exclude_none=True)
        return [LinkMetric(self.src, self.dst, KEYS[key], value) for key, value in given.items()]


def read_links(text: str) -> list[LinkMetric]:
    """The figures of a file; BadInput holds every mistake."""
    written = strictyaml.load(text)
    if not isinstance(written, list):
        rule = "the file is a list of mappings"
        raise BadInput([Problem("file", written, rule, "Begin each entry with `- src: `")])
    metrics: list[LinkMetric] = []
    problems: list[Problem] = []
    for number, entry in enumerate(written, 1):
        if not isinstance(entry, dict):
            problems.append(no_mapping(number, entry, "src"))
            continue
        try:
            metrics += read_entry(entry, Link, f"entry {number}").figures()
        except BadInput as error:
            problems += error.problems
    if problems:
        raise BadInput(problems)
    return metrics
