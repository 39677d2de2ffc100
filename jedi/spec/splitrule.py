"""Split rules: how a task's input becomes jobs, typed; their two-letter text is made only here.

Source: engine.md §2.5. Rules come in as task parameters arrive at the features behind them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_CODES = {
    "n_events_per_job": "NE",
    "n_events_per_input": "EI",
    "n_files_per_job": "NF",
    "n_gb_per_job": "NG",
    "target_events_per_job": "TE",
    "max_output_gb": "TN",
    "first_event": "FT",
    "max_files_per_job": "MF",
    "max_walltime_h": "MW",
    "use_scout": "US",
}


_Count = Annotated[int, Field(ge=1)]
_Size = Annotated[float, Field(gt=0)]

NO_SCOUT, SCOUTING, SCOUTED = 1, 2, 3
"""Values of use_scout: no scouts are wanted; files are withheld until scouts have measured the
task; they have."""


class SplitRules(BaseModel):
    """Sizes of a job. None: no rule. GB = 2^30 bytes of input or output; hours of wall time.

    Of the rules that say how large a job is, the first one given counts: events, files, GB,
    events aimed at, GB of output (contracts §15).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_events_per_job: _Count | None = None
    n_events_per_input: _Count | None = None
    n_files_per_job: _Count | None = None
    n_gb_per_job: _Size | None = None
    target_events_per_job: _Count | None = None
    max_output_gb: _Size | None = None
    first_event: Annotated[int, Field(ge=0)] | None = None
    max_files_per_job: _Count | None = None
    max_walltime_h: _Size | None = None
    use_scout: Annotated[int, Field(ge=1, le=3)] | None = None

    @property
    def scouting(self) -> bool:
        """Scout jobs come first, and have not all ended yet."""
        return self.use_scout == SCOUTING

    def of_scouts(self) -> SplitRules:
        """The same for scout jobs: of one file, where no rule fixes files or events."""
        fixed = self.files_per_job or self.events_per_job
        return self if fixed else self.model_copy(update={"n_files_per_job": 1})

    def then(self, use_scout: int) -> SplitRules:
        """The same with another stage of scouting."""
        return self.model_copy(update={"use_scout": use_scout})

    @property
    def events_per_job(self) -> int | None:
        """Events of a job that is made of ranges of events, which may lie in several files."""
        return self.n_events_per_job if self._whole_files is None else None

    @property
    def events_per_range(self) -> int | None:
        """Events aimed at where each file is cut evenly, a job a range."""
        higher = self.n_events_per_job or self.n_files_per_job or self.n_gb_per_job
        return None if higher else self.target_events_per_job

    @property
    def by_events(self) -> bool:
        """True if files are cut into ranges of events."""
        return bool(self.events_per_job or self.events_per_range)

    @property
    def files_per_job(self) -> int | None:
        """Master files of a job, or ranges of them, if a fixed number."""
        if self.n_events_per_job is not None:
            return self._whole_files
        return 1 if self.events_per_range else self.n_files_per_job

    @property
    def output_gb_per_job(self) -> float | None:
        """Most GB of output of a job, where no other rule says how large it is."""
        higher = self.n_events_per_job or self.n_files_per_job or self.n_gb_per_job
        return None if higher or self.target_events_per_job else self.max_output_gb

    @property
    def _whole_files(self) -> int | None:
        """How many files hold the events of a job, if the task says how many a file has."""
        events, file = self.n_events_per_job, self.n_events_per_input
        return events // file if events and file and events >= file else None


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
