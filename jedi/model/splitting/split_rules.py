"""Split rules: how a task's input becomes jobs, typed; their two-letter text is made only here.

Source: docs/reference/splitting.md#split-rules.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from jedi.model.splitting.given_rules import Count, Flag, Positive, Rules, rule

NO_SCOUT, SCOUTING, SCOUTED = 1, 2, 3
"""Values of use_scout: no scouts are wanted; files are withheld until scouts have measured the
task; they have."""

TO_PREPROCESS, PREPROCESSED, CONSUMED = 1, 2, 3
"""Values of use_pre_pro: a job defines the task first; it has done so; its result is built in."""

ONE_ID, WHOLE_IDS, TIED_IDS = (1, 2, 4), (3, 4), (2, 4)
"""Values of group_boundary_id: a job has files of one id only; ids are not divided; outputs have
the ids of the inputs."""

RANGE_ATTEMPTS, CONSUMER_RETRIES = 10, 3
"""Unless the task has maxAttemptES (docs/reference/event-service.md#attempts)."""

EventMode = Literal["es", "cloning", "fine"]

_Stage = Annotated[int, Field(ge=1, le=3)] | None


class SplitRules(Rules):
    """All rules of a task, also from other task parameters and from JEDI. None: no rule. Lists of
    sites, which have no two letters, are not in the text. GB = 2^30 bytes of input or output; hours
    of wall time.

    Of the rules that say how large a job is, the first one given counts: events, files, GB,
    events aimed at, GB of output (docs/reference/splitting.md#precedence).
    """

    n_events_per_input: Count = rule("EI", "nEventsPerInputFile")
    target_events_per_job: Count = rule("TE", "tgtNumEventsPerJob")
    max_output_gb: Positive = rule("TN", "tgtMaxOutputForNG")
    max_files_per_job: Count = rule("MF", "nMaxFilesPerJob")
    max_walltime_h: Positive = rule("MW", "maxWalltime")
    use_scout: _Stage = rule("US", "see NO_SCOUT and its neighbours")
    use_pre_pro: _Stage = rule("UP", "pre-processing is to be done, done, consumed")
    first_contents_feed: Flag = rule("FC", "the input was never looked up")
    pfn_list: Flag = rule("PL", "files are named by the task")
    load_xml: Flag = rule("LX", "a document describes the jobs")
    included_site: list[str] | None = None
    excluded_site: list[str] | None = None
    limited_sites: Literal["allow", "deny", "both"] | None = rule(
        "LS", "includedSite, excludedSite", words={"allow": 1, "deny": 2, "both": 3}
    )

    @property
    def in_containers(self) -> bool:
        """Outputs are containers, whose datasets are made for the jobs that fill them."""
        return bool(self.instantiate_tmpl or self.instantiate_tmpl_site)

    @property
    def scouting(self) -> bool:
        """Scout jobs come first, and have not all ended yet."""
        return self.use_scout == SCOUTING

    def of_scouts(self) -> SplitRules:
        """The same for scout jobs: of one file, where no rule fixes files or events."""
        fixed = self.files_per_job or self.events_per_job or self.respect_split_rule
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
    def events_to_cut(self) -> int | None:
        """Events of a job, if JEDI may change them; None: other rules say how large it is."""
        if self.group_boundary_id in WHOLE_IDS:
            return None
        return self.n_events_per_job or self.events_per_range

    @property
    def least_events(self) -> int:
        """Events that a job has at least: a file's, if it has whole ones."""
        return (self._whole_files and self.n_events_per_input) or 1

    def with_events(self, n: int) -> SplitRules:
        """The same with so many `events_to_cut`."""
        name = "n_events_per_job" if self.n_events_per_job else "target_events_per_job"
        return self.model_copy(update={name: n})

    @property
    def by_events(self) -> bool:
        """True if files are cut into ranges of events."""
        return bool(self.events_per_job or self.events_per_range)

    @property
    def event_mode(self) -> EventMode | None:
        """The way in which consumers get events while they run: pieces of a job set (es), one of
        several copies of a job counts (cloning), each range by itself (fine); None: not at all."""
        if self.use_job_cloning:
            return "cloning"
        if self.fine_grained_proc:
            return "fine"
        return "es" if self.n_events_per_worker else None

    @property
    def numbers_events(self) -> bool:
        """Each event has a number: files have as many rows as ranges, at least one."""
        return bool(self.by_events or self.n_events_per_worker)

    @property
    def records_events(self) -> bool:
        """Jobs have records of their ranges of events."""
        return bool(self.by_events or self.event_mode)

    @property
    def job_kind(self) -> str:
        """The kind of the jobs that have the task's inputs."""
        if self.use_pre_pro == TO_PREPROCESS:
            return "preprocess"
        if self.event_mode:
            return "es_merge"
        return "scout" if self.scouting else "normal"

    @property
    def n_events_per_range(self) -> int | None:
        """Events of a range that consumers get; None: an input is one range."""
        return None if self.event_mode == "cloning" else self.n_events_per_worker

    @property
    def sites_per_set(self) -> int:
        """Sites at which the consumers of a job set are."""
        return self.n_sites_per_job or (2 if self.use_job_cloning else 1)

    @property
    def consumers_per_set(self) -> int:
        """Consumers that a job set begins with."""
        return self.n_es_consumers or (self.sites_per_set if self.use_job_cloning else 1)

    @property
    def jobs_per_unit(self) -> int:
        """Jobs for pilots that a unit of work begins with."""
        return self.consumers_per_set if self.job_kind == "es_merge" else 1

    @property
    def sharers(self) -> int:
        """Jobs that process the events of one job together."""
        return self.consumers_per_set if self.event_mode in ("es", "fine") else 1

    @property
    def range_attempts(self) -> int:
        """Attempts of a range."""
        return self.max_attempt_es or RANGE_ATTEMPTS

    @property
    def consumer_retries(self) -> int:
        """Consumers that may follow the first ones of a job set."""
        if self.max_attempt_es_job is not None:
            return self.max_attempt_es_job
        return self.max_attempt_es or CONSUMER_RETRIES

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
        """The number of files with the events of a job, if the task gives the events of a file."""
        events, file = self.n_events_per_job, self.n_events_per_input
        return events // file if events and file and events >= file else None


def _extras() -> dict[str, dict[str, Any]]:
    """The notes of `rules.rule`, by name of the rule."""
    fields = SplitRules.model_fields.items()
    return {n: f.json_schema_extra for n, f in fields if isinstance(f.json_schema_extra, dict)}


_EXTRAS = _extras()


def render_split_rule(rules: SplitRules) -> str:
    """The text of jedi_tasks.splitrule, such as `NF=5,NG=2.5`."""
    given = rules.model_dump(include={*_EXTRAS}, exclude_none=True).items()
    return ",".join(f"{_EXTRAS[name]['code']}={_render(name, value)}" for name, value in given)


def _render(name: str, value: Any) -> str:
    match value:
        case bool() | int() | float():
            return f"{value:.12g}"
        case list():
            return ",".join(map(str, value))
    return str(_EXTRAS[name].get("words", {}).get(value, value))
