"""The scenario file: an invented grid, its submissions, and its troubles with their times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, Field, JsonValue

from jedi.core import strictyaml
from jedi.core.errors import BadInput, Problem
from jedi.core.knobs import KNOBS
from jedi.core.suggest import suggest
from jedi.model.list_file import Entry, read_entry
from jedi.model.scheduling.queue_file import QueueEntry, check_queues
from jedi.model.sites import site_file
from jedi.model.tasks.text import examine
from jedi.taskbuffer.scheduling import queues

START = datetime(2026, 1, 1, tzinfo=UTC)
USER = "simulator"

_Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]
_Files = Annotated[int, Field(ge=1, le=10_000_000)]
_Hours = Annotated[float, Field(ge=0, le=24 * 366)]
_Seconds = Annotated[float, Field(gt=0, le=1e8)]
_Part = Annotated[float, Field(ge=0, le=1)]
_Spread = Annotated[float, Field(ge=0, le=3)]
_MB = Annotated[int, Field(ge=1, le=1_000_000)]


class ScenarioFailure(Entry):
    """A way for jobs to go wrong."""

    kind: Literal["error", "never_starts", "falls_silent", "never_ends", "not_stored"] = Field(
        description="error: the payload fails; never_starts: the pilot takes a job and falls"
        " silent; falls_silent: it falls silent while the job runs; never_ends: the job runs until"
        " it is killed; not_stored: storage refuses its outputs"
    )
    probability: _Part = Field(description="probability for each job, 0 to 1")
    code: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")] = Field(
        "payload_exit", description="the error code in the pilot's report"
    )


class Transfers(Entry):
    """Transfers of files to a site."""

    mean_s: _Seconds = Field(600.0, description="mean duration of a transfer, in s")
    spread: _Spread = Field(0.5, description="sigma of the logarithm of that duration")
    stuck: _Part = Field(0.0, description="part of the transfers that never end")


class ScenarioSite(Entry):
    """A site, or several that are alike."""

    site: _Word = Field(description="the site's name; several get the endings _1, _2, ...")
    count: Annotated[int, Field(ge=1, le=1000)] = Field(1, description="number of equal sites")
    slots: Annotated[int, Field(ge=0, le=1_000_000)] = Field(description="slots: jobs at once")
    speed: Annotated[float, Field(gt=0, le=1000)] = Field(
        1.0, description="speed of its slots; jobs take 1/speed of their time"
    )
    endpoints: Annotated[list[_Word], Field(min_length=1)] = Field(
        description="at least one name; the endpoint is called SITE_NAME"
    )
    reads: list[_Word] = Field([], description="other sites whose storage its jobs read from afar")
    attributes: dict[str, JsonValue] = Field({}, description="attributes, as in a site file")
    failures: list[ScenarioFailure] = Field([], description="failures of jobs at this site")
    transfers: Transfers = Field(Transfers(), description="transfers of files to this site")

    def names(self) -> list[str]:
        """The sites that this describes."""
        return _numbered(self.site, self.count)

    @property
    def cores(self) -> int:
        """Cores of a slot."""
        return max(1, int(str(self.attributes.get("corecount", 1))))

    def storage(self, name: str) -> list[str]:
        """The endpoints of one of them."""
        return [f"{name}_{endpoint}" for endpoint in self.endpoints]

    def entry(self, name: str, afar: Iterable[str] = ()) -> dict[str, Any]:
        """The entry of one of the sites in a site file; it reads the endpoints `afar`, too."""
        read = {"roles": "read", "is_local": False}
        storage: list[dict[str, Any]] = [
            {"ddm_endpoint": one, "path": one} for one in self.storage(name)
        ]
        storage += [{"ddm_endpoint": one, "path": one} | read for one in afar]
        return {**self.attributes, "site": name, "nslots": self.slots, "endpoints": storage}


def _numbered(site: str, count: int) -> list[str]:
    width = len(str(count))
    return [f"{site}_{n:0{width}d}" for n in range(1, count + 1)] if count > 1 else [site]


class ScenarioTask(Entry):
    """A task, or several that are alike, once or again and again."""

    name: _Word = Field(description="the tasks' name; they get the endings .1, .2, ...")
    count: _Count = Field(1, description="number of tasks at each time")
    at_h: _Hours = Field(0.0, description="hours from the start to the first submission")
    every_h: Annotated[float, Field(gt=0)] | None = Field(
        None, description="interval of further submissions, in hours"
    )
    until_h: _Hours | None = Field(
        None, description="time of the last submission, in hours after the start; default: the end"
    )
    files: _Files = Field(description="input files; without `at`: jobs")
    at: list[_Word] = Field([], description="the sites that have the input; empty: no input")
    file_mb: _MB = Field(1000, description="size of an input file")
    output_mb: _MB = Field(100, description="size of an output file")
    run_s: _Seconds = Field(description="mean duration of a job at speed 1, in s")
    spread: _Spread = Field(0.3, description="sigma of the logarithm of that duration")
    event_s: _Seconds = Field(
        10.0,
        description="mean time of an event at speed 1, in s, for consumers; a consumer that"
        " fails does so within run_s",
    )
    merge_s: _Seconds = Field(
        600.0, description="mean duration of a job at speed 1 that merges events, in s"
    )
    failures: list[ScenarioFailure] = Field([], description="failures of jobs of these tasks")
    left: Literal["pending", "waiting", "defined"] | None = Field(
        None, description="status in which its new jobs stay, as after a crash of their agent"
    )
    parameters: dict[str, JsonValue] = Field({}, description="further task parameters")

    def times(self, end_h: float) -> list[float]:
        """When they are submitted, in hours after the start."""
        hours, last = [self.at_h], min(end_h, self.until_h if self.until_h is not None else end_h)
        while self.every_h and hours[-1] + self.every_h <= last:
            hours.append(hours[-1] + self.every_h)
        return [at for at in hours if at < end_h]

    def document(self, number: int) -> dict[str, Any]:
        """The task parameters of one of them."""
        name = f"{self.name}.{number}"
        output = {
            "type": "template",
            "param_type": "output",
            "value": "-o out.${SN}.data",
            "dataset": f"sim:{name}.out",
        }
        source = {
            "type": "template",
            "param_type": "input",
            "value": "-i ${IN}",
            "dataset": f"sim:{name}.in",
        }
        pseudo = {"noInput": True, "nFiles": self.files}
        known = {"taskName": name, "nFilesPerJob": 1, "jobParameters": [output], **pseudo}
        if self.at:
            known |= {"jobParameters": [source, output]}
            known = {key: value for key, value in known.items() if key not in pseudo}
        if {"nEventsPerWorker", "fineGrainedProc"} & {*self.parameters}:
            known["esmergeSpec"] = {"transPath": "merge", "jobParameters": "${OUTPUT0}"}
        if self.parameters.get("mergeOutput"):
            parameters = "${TRN_OUTPUT0} ${OUTPUT0}"
            known["mergeSpec"] = {"transPath": "merge", "jobParameters": parameters}
        return {**known, **self.parameters}


class Outage(Entry):
    """Sites do not work for a time."""

    site: str = Field(description="a site, or a pattern of names: *, ?, [abc]")
    from_h: _Hours = Field(description="beginning, in hours after the start")
    hours: Annotated[float, Field(gt=0, le=24 * 366)] = Field(description="duration, in hours")
    announced: bool = Field(
        False, description="true: the site goes offline and its jobs end; false: they are lost"
    )


class ScenarioCommand(Entry):
    """A person's command to the tasks of one name."""

    tasks: _Word = Field(description="the tasks' name")
    at_h: _Hours = Field(description="time, in hours after the start")
    command: Literal[
        "kill", "finish", "retry", "pause", "resume", "avalanche", "hold", "release"
    ] = Field(description="the command; hold and release go to jobs of the tasks that have not run")


class Scenario(Entry):
    """The scenario of a simulation. Times are simulated ones."""

    about: str = Field("", description="one sentence about the scenario")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(
        1, description="seed of all random draws"
    )
    start: Annotated[AwareDatetime, Field(strict=False)] = Field(
        START, description="beginning, ISO 8601 with a time zone"
    )
    days: Annotated[float, Field(gt=0, le=366)] = Field(description="duration, in days")
    tick_s: Annotated[int, Field(ge=1, le=86_400)] = Field(
        60, description="length of a step, in s; all events of a step happen at once"
    )
    sample_min: Annotated[int, Field(ge=1, le=1440)] = Field(
        60, description="interval between points of the curves, in minutes"
    )
    knobs: dict[str, JsonValue] = Field({}, description="knobs by name")
    queues: Annotated[list[QueueEntry], Field(min_length=1)] = Field(
        [QueueEntry(queue_id=1, queue_name="user", queue_type="user", vo="local")],
        description="work queues, as in a queue file",
    )
    sites: Annotated[list[ScenarioSite], Field(min_length=1)] = Field(description="the grid")
    tasks: Annotated[list[ScenarioTask], Field(min_length=1)] = Field(
        description="the submitted tasks"
    )
    outages: list[Outage] = Field([], description="times at which sites do not work")
    commands: list[ScenarioCommand] = Field([], description="commands of people")

    def sites_by_name(self) -> dict[str, ScenarioSite]:
        """All sites by name."""
        return {name: site for site in self.sites for name in site.names()}

    def smaller(self, factor: float) -> Scenario:
        """The same with so much of the slots and of the files."""

        def part(number: int) -> int:
            return number and max(1, round(number * factor))

        return self.model_copy(
            update={
                "sites": [s.model_copy(update={"slots": part(s.slots)}) for s in self.sites],
                "tasks": [t.model_copy(update={"files": part(t.files)}) for t in self.tasks],
            }
        )


_Any = TypeVar("_Any", bound=Entry)


def read_scenario(text: str) -> Scenario:
    """The scenario in a text; BadInput holds every mistake with its remedy."""
    written = strictyaml.load(text, "scenario")
    if not isinstance(written, dict):
        remedy = "Begin with `days:`, `sites:` and `tasks:`"
        raise BadInput([Problem("scenario", written, "the file is a mapping", remedy)])
    problems: list[Problem] = []
    try:
        scenario = read_entry(written, Scenario, "scenario")
    except BadInput as error:
        problems += error.problems
    problems += _beside(written)
    if problems:
        raise BadInput(problems)
    return scenario


def check_knobs(path: str, written: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The values of these knobs, and their mistakes."""
    values, problems = {}, []
    for name, value in written.items():
        if name not in KNOBS:
            remedy = suggest(name, KNOBS, "docs/knobs.md has all")
            problems.append(Problem(f"{path}.{name}", value, "there is no such knob", remedy))
            continue
        try:
            values[name] = KNOBS[name].check(value)
        except BadInput as error:
            problems += [
                Problem(f"{path}.{p.path}", p.value, p.rule, p.remedy) for p in error.problems
            ]
    return values, problems


def _beside(written: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield contradictions between entries. Names count even if their entries have other
    mistakes."""
    if isinstance(written.get("knobs"), dict):
        yield from check_knobs("scenario.knobs", written["knobs"])[1]
    sites: dict[str, str] = {}
    for path, one in _entries(written, "sites"):
        for name in _sites(one):
            if sites.setdefault(name, path) != path:
                yield Problem(path, name, f"{sites[name]} has this site too", "Rename one")
    tasks: dict[str, str] = {}
    for path, one in _entries(written, "tasks"):
        if tasks.setdefault(str(one.get("name")), path) != path:
            yield Problem(f"{path}.name", one.get("name"), "several tasks have it", "Rename them")
    yield from _within(written, sites, tasks)
    good = [queue for _, queue in _good(written, "queues", QueueEntry)]
    yield from _under("scenario.queues", partial(check_queues, good, queues.COLUMNS))


def _within(
    written: Mapping[str, Any], sites: Mapping[str, str], tasks: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield mistakes in well-formed entries, given these sites and tasks."""
    for path, site in _good(written, "sites", ScenarioSite):
        yield from (
            _unknown(f"{path}.reads", one, "site", sites) for one in site.reads if one not in sites
        )
        entry = site.entry(site.names()[0])
        yield from _under(path, partial(site_file.read_attributes, "attributes", entry))
        yield from _certain(path, site.failures)
    for path, task in _good(written, "tasks", ScenarioTask):
        yield from (
            _unknown(f"{path}.at", one, "site", sites) for one in task.at if one not in sites
        )
        yield from (
            Problem(f"{path}.parameters.{p.path}", p.value, p.rule, p.remedy)
            for p in examine(task.document(1))[1]
        )
        yield from _certain(path, task.failures)
    for path, command in _good(written, "commands", ScenarioCommand):
        if command.tasks not in tasks:
            yield _unknown(f"{path}.tasks", command.tasks, "task", tasks)
    for path, outage in _good(written, "outages", Outage):
        if not any(fnmatchcase(name, outage.site) for name in sites):
            yield _unknown(f"{path}.site", outage.site, "site", sites)


def _good(written: Mapping[str, Any], key: str, model: type[_Any]) -> Iterator[tuple[str, _Any]]:
    """The well-formed entries of a list, with their paths."""
    for path, one in _entries(written, key):
        try:
            yield path, read_entry(one, model, key)
        except BadInput:
            continue


def _entries(written: Mapping[str, Any], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of a list, with their paths."""
    listed = written.get(key)
    for number, one in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(one, dict):
            yield f"scenario.{key}[{number}]", one


def _sites(entry: Mapping[str, Any]) -> list[str]:
    """The sites that an entry describes, well formed or not."""
    site, count = entry.get("site"), entry.get("count", 1)
    plain = isinstance(site, str) and isinstance(count, int) and count <= 1000
    return _numbered(str(site), count) if plain else []


def _under(path: str, check: Callable[[], object]) -> Iterator[Problem]:
    """Yield the problems that a check finds, with the path before theirs."""
    try:
        check()
    except BadInput as error:
        for p in error.problems:
            yield Problem(f"{path}.{p.path}", p.value, p.rule, p.remedy)


def _certain(path: str, failures: list[ScenarioFailure]) -> Iterator[Problem]:
    total = sum(failure.probability for failure in failures)
    if total > 1 + 1e-9:
        rule = "their probabilities are more than 1 together"
        yield Problem(f"{path}.failures", total, rule, "Lower some of them")


def _unknown(path: str, name: str, what: str, known: Mapping[str, str]) -> Problem:
    return Problem(
        path,
        name,
        f"no {what} here has this name",
        suggest(name, known, f"There are {', '.join([*known][:10])}"),
    )
