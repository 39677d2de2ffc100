"""The page of a job, and of its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jedi.core.errors import NotFound, Refused
from jedi.core.states import JOB, JOB_AT_SITE
from jedi.monitor import charts
from jedi.monitor.filters import size
from jedi.monitor.pages.jobs import WAITS
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.operations.arguments import TaskId
from jedi.taskbuffer.jobs.job_figures import JobFigures
from jedi.taskbuffer.jobs.one_job import OneJob

CLOSE = 0.9
"""A resource of which more than this part was used limits a job, or nearly so."""

BUSY_BYTES_PER_S = 1_000_000
"""A job with idle cores that reads and writes less is not limited by input and output."""

LIMIT_CODES: Mapping[str, str] = {
    "memory_limit": "memory",
    "wall_limit": "wall time",
    "cpu_limit": "CPU time",
    "workdir_limit": "disk",
    "process_limit": "processes",
}
"""Resources by the codes of errors that say that their limit was reached."""

TAIL_SHOWN = 200_000
"""Characters of a log on its page."""


@dataclass(frozen=True)
class Resource:
    """A resource of a job in `unit`: asked (None: no limit), used, the limit of a slot of its site,
    and the used part of the smaller limit in percent."""

    name: str
    unit: str
    asked: float | None
    used: float | None
    site: float | None

    @property
    def percent(self) -> float | None:
        """The used part of the limit; None: there is none, or nothing was measured."""
        limit = min((one for one in (self.asked, self.site) if one), default=None)
        return 100 * self.used / limit if limit and self.used is not None else None


def resources(found: JobFigures) -> list[Resource]:
    """The resources of a job."""
    memory_kb = found.max_pss_kb or found.max_rss_kb
    return [
        Resource(
            "memory",
            "MB",
            found.memory_mb or None,
            memory_kb and memory_kb / 1024,
            found.site_memory_mb or None,
        ),
        Resource(
            "wall time", "s", found.walltime_s or None, found.wall_s, found.site_walltime_s or None
        ),
        Resource(
            "disk",
            "MB",
            found.disk_mb or None,
            found.workdir_kb and found.workdir_kb / 1024,
            found.site_disk_mb or None,
        ),
        Resource("cores", "", found.cores, _cores(found), None),
    ]


def _cores(found: JobFigures) -> float | None:
    """The cores that a job kept busy, on average."""
    return found.cpu_s / found.wall_s if found.cpu_s is not None and found.wall_s else None


def limited_by(job: OneJob, figures: JobFigures) -> str:
    """The resource that limited a job, as a sentence; empty: none, or nothing was measured."""
    used = resources(figures)
    if name := LIMIT_CODES.get(job.error_code or ""):
        return f"Limited by {name}: it reached its limit ({job.error_code})."
    known = [(one.percent, one.name) for one in used if one.percent is not None]
    close = [(part, name) for part, name in known if part >= 100 * CLOSE and name != "cores"]
    if close:
        part, name = max(close)
        return f"Close to its limit of {name}: {part:.0f} % used."
    if any(name == "cores" and part < 100 * 0.5 for part, name in known):
        return f"Its cores waited: less than half of their time was used{_while(figures)}."
    return "No resource came near its limit." if known else ""


def _while(figures: JobFigures) -> str:
    """The thing that a job with idle cores did instead, as far as it was measured."""
    moved = [one for one in (figures.read_bytes, figures.write_bytes) if one is not None]
    if not moved or not figures.wall_s:
        return ""
    rate = sum(moved) / figures.wall_s
    if rate < BUSY_BYTES_PER_S:
        return f", and it read and wrote {size(rate)}/s: it mostly waited"
    return f", and it read and wrote {size(rate)}/s: input and output limit it"


def waits_for(job: OneJob) -> str:
    """The next thing that a job waits for, as a sentence; empty: it has ended."""
    if job.status in JOB.final:
        return ""
    if job.hold_kind:
        return f"It is held ({job.hold_kind}): {job.hold_reason or 'no reason is known'}"
    return WAITS.get(job.status, "It runs.").format(site=job.site)


@page("job", "/jobs/{panda_id}", topics=("jobs",))
def job(ask: Ask, panda_id: TaskId) -> View:
    """A job: status and hold, times, resources, attempts, files, steps."""
    found = ask("job.show", panda_id=panda_id)
    one, figures = found.job, found.figures
    used = resources(figures)
    facts = {
        "job": one,
        "figures": figures,
        "details": found,
        "waits": waits_for(one),
        "over": one.status in JOB.final,
        "limited": limited_by(one, figures),
        "resources": used,
        "bar": _times(found),
        "at_site": one.status in JOB_AT_SITE,
        "later": [other for other in found.latest if other != panda_id],
        "crumbs": [
            ("/tasks", "Tasks"),
            (f"/tasks/{one.jedi_task_id}", f"Task {one.jedi_task_id}"),
            (f"/tasks/{one.jedi_task_id}/jobs", "Jobs"),
        ],
    }
    return View(f"Job {panda_id}", facts, (_files(found), _steps(found)))


def _files(found: Any) -> Sheet:
    columns = (
        Column("type", "Type"),
        Column("lfn", "File"),
        Column("size", "Size", "bytes"),
        Column("start_event", "First event", "number", wide=True),
        Column("end_event", "Last event", "number", wide=True),
        Column("endpoint", "Endpoint", wide=True),
        Column("dataset", "Dataset", wide=True),
    )
    return Sheet("files", "Files", columns, found.files, "lfn", empty="It has no files.")


def _steps(found: Any) -> Sheet:
    columns = (
        Column("time", "Time", "time"),
        Column("status", "Status", "status"),
        Column("agent", "By"),
        Column("reason_code", "Code", "code", wide=True),
        Column("reason", "Why"),
    )
    rows = [
        {
            "key": f"{at}",
            "time": one.time,
            "status": one.status,
            "agent": one.agent,
            "reason_code": one.reason_code,
            "reason": one.reason,
        }
        for at, one in enumerate(found.steps)
    ]
    return Sheet("steps", "Steps", columns, rows, "key", empty="Its steps are not kept.")


def _times(found: Any) -> Any:
    """The times of a job as bars: its statuses, and the resources that it held."""
    lanes = [charts.Lane("Status", [*_spans(found)])]
    lanes += [
        charts.Lane(
            one.resource.replace("_", " "),
            [charts.LaneSpan("held", one.allocated_at, one.released_at, "s0")],
        )
        for one in found.allocations
    ]
    known = _known_times(found)
    begin, end = min(known), max(known)
    return charts.timeline("times", "Times", lanes, begin, end) if end > begin else None


def _spans(found: Any) -> Iterator[charts.LaneSpan]:
    steps = [one for one in found.steps if one.from_status != one.status]
    for one, after in zip(steps, [*steps[1:], None], strict=True):
        if one.status not in JOB.final:
            end = after.time if after else None
            yield charts.LaneSpan(one.status, one.time, end, charts.look_of(one.status))


def _known_times(found: Any) -> list[datetime]:
    """The times of all signs of a job."""
    figures = found.figures
    signs = (
        figures.creation_time,
        figures.heartbeat_at,
        figures.end_time,
        figures.state_change_time,
    )
    return [*(one.time for one in found.steps), *filter(None, signs)]


@page("job_log", "/jobs/{panda_id}/log", topics=("jobs",))
def log(ask: Ask, panda_id: TaskId, pilot: bool = False) -> View:
    """The output of a job's payload, or of its pilot; while it runs, its last lines."""
    [one] = ask("job.look", panda_ids=[panda_id])
    printed, missing = None, ""
    try:
        printed = ask("job.log", panda_id=panda_id, pilot=pilot)
    except (NotFound, Refused) as error:
        missing = error.sentence
    texts = (
        [
            (name, text[-TAIL_SHOWN:], len(text) > TAIL_SHOWN)
            for name, text in (("stdout", printed.stdout), ("stderr", printed.stderr))
            if text or name == "stdout"
        ]
        if printed
        else []
    )
    facts = {
        "job": one,
        "printed": printed,
        "texts": texts,
        "missing": missing,
        "pilot": pilot,
        "live": one.status not in JOB.final,
        "at_site": one.status in JOB_AT_SITE,
        "crumbs": [
            ("/tasks", "Tasks"),
            (f"/tasks/{one.jedi_task_id}", f"Task {one.jedi_task_id}"),
            (f"/jobs/{panda_id}", f"Job {panda_id}"),
        ],
    }
    return View(f"Log of job {panda_id}", facts)
