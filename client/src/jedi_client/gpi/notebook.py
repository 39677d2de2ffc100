"""Jobs in notebooks: tables, a page of a job that follows it, groups of errors, and plots.

They are HTML and SVG alone: no package is needed, and no thread runs.

Source: docs/reference/ganga.md#notebooks.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from jedi_client.errors import JediError
from jedi_client.gpi.any_job import AnyJob
from jedi_client.gpi.interfaces import Attempt, Record, UnitState
from jedi_client.gpi.report import JobError, NoSuchJob
from jedi_client.gpi.status import ENDED, LIVE, STATUSES
from jedi_client.times import written

SHOWN = 50
"""Rows of a table; more are counted."""
TIMED = 100
"""Subjobs whose attempts a plot asks for, one request each, if no other number is given."""
COLOURS: Mapping[str, str] = {
    "new": "#9aa0a6",
    "submitting": "#c7b8ea",
    "submitted": "#a08bd6",
    "running": "#3f83d6",
    "completing": "#41a5b8",
    "completed": "#3a9d5d",
    "failed": "#d0453b",
    "killed": "#8a5a44",
    "unknown": "#d99a1c",
}
_FOLLOWERS: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """The subjobs that ended with one error, and the error."""

    error: str
    subjobs: Sequence[int]

    def __str__(self) -> str:
        return f"{len(self.subjobs)} x {self.error} (subjobs {_numbers(self.subjobs)})"


class Drawing:
    """An SVG drawing, and the same in words. A notebook shows it, a terminal the words; `save`
    writes it."""

    def __init__(self, svg: str, words: str) -> None:
        self.svg, self.words = svg, words

    def __repr__(self) -> str:
        return self.words

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:  # in the page itself: its words and colours, also dark ones
        return self.svg


class JobView:
    """A job as people look at it."""

    @property
    def why(self) -> str:
        """The reason for the status, with the errors of subjobs."""
        return why(_looked_at(self))

    @property
    def errors(self) -> Sequence[ErrorGroup]:
        """The errors of failed and killed subjobs, the most frequent first."""
        return errors(_states(_looked_at(self)))

    def plot(self, subjobs: int = TIMED) -> Drawing:
        """Progress and times as SVG. Times of the first `subjobs` subjobs: each takes a request."""
        return plot(_looked_at(self), subjobs)

    def show(self) -> None:
        """Show the page of the job. In a notebook, the page follows the job to its end: between
        cells, and whenever a cell asks for the job."""
        show(_looked_at(self))

    def _repr_html_(self) -> str:
        return page(_looked_at(self))


class LivePage:
    """The page of a job on display, which changes in place."""

    def __init__(self, job: AnyJob, display: Any) -> None:
        self.job = job
        self._shown = self._current()
        self._handle = display(self._shown, raw=True, display_id=True)

    def update(self, _: object = None) -> None:
        """Show the job as it was read last, if that is news."""
        self._show(self._current())

    def end(self, sentence: str) -> None:
        """Show a sentence instead of the job."""
        self._show({"text/html": f"<p>{escape(sentence)}</p>", "text/plain": sentence})

    def goes_on(self) -> bool:
        """The job has not ended."""
        return self.job.record.status in (*LIVE, "unknown")

    def _current(self) -> Mapping[str, str]:
        return {"text/html": page(self.job), "text/plain": why(self.job)}

    def _show(self, data: Mapping[str, str]) -> None:
        if data != self._shown:
            self._shown = data
            self._handle.update(data, raw=True)


def _looked_at(view: Any) -> AnyJob:
    """The job, whose record is as new as its backend allows."""
    job: AnyJob = view
    job._registry.session.monitor.look()
    return job


def jobs_table(records: Sequence[Record], total: int) -> str:
    """A table of jobs or templates."""
    heads = ["id", "name", "status", "subjobs", "backend", "submitted", "comment"]
    rows = [
        [
            str(one.id),
            one.name,
            "template" if one.kind == "template" else one.status,
            _counted(one.counts),
            (one.backend or "").partition(" ")[0],
            _time(one.submitted),
            one.comment,
        ]
        for one in records
    ]
    return _table(heads, rows, total)


def units_table(states: Sequence[UnitState], total: int) -> str:
    """A table of subjobs."""
    heads = ["id", "status", "attempt", "site", "exit code", "reason"]
    rows = [
        [
            str(one.k),
            one.status + (" (superseded)" if one.superseded else ""),
            _text(one.attempt),
            _text(one.site),
            _text(one.exit_code),
            _text(one.reason),
        ]
        for one in states
    ]
    return _table(heads, rows, total)


def why(job: AnyJob) -> str:
    """The reason for a job's status in a few sentences."""
    record = job.record
    status = record.status
    if status == "new" and not record.reason:
        return f"Job {job.id} is new. Submit it: j.submit()"
    lines = [f"Job {job.id} is {status}" + (f": {record.reason}" if record.reason else ".")]
    split = _is_split(job)
    lines += [f"  {one if split else one.error}" for one in errors(_states(job))]
    lost = job._registry.session.monitor.errors
    for key in (str(record.backend), f"job {job.id}"):
        if status not in ENDED and key in lost and str(lost[key]) != record.reason:
            lines.append(f"  This may be out of date: {lost[key]}")
    return "\n".join(lines)


def _is_split(job: AnyJob) -> bool:
    try:
        return job.split
    except JobError:  # a torn record
        return True


def errors(states: Sequence[UnitState]) -> Sequence[ErrorGroup]:
    """Failed and killed units grouped by their errors, the largest group first."""
    groups: dict[str, list[int]] = {}
    for one in states:
        if one.status in ("failed", "killed") and not one.superseded:
            groups.setdefault(_error(one), []).append(one.k)
    found = [ErrorGroup(error, ks) for error, ks in groups.items()]
    return sorted(found, key=lambda one: (-len(one.subjobs), one.subjobs[0]))


def page(job: AnyJob) -> str:
    """The page of a job."""
    record, states = job.record, _states(job)
    head = f"<h3>Job {job.id} {escape(record.name)} {_badge(record.status)}</h3>"
    parts = [head, f"<pre>{escape(why(job))}</pre>"]
    if shown := _of_service(job):
        return f"<div class='jedi-job'>{''.join(parts)}{shown}</div>"
    if states:
        counted = escape(_counted(_counts(states)))
        parts.append(
            f"<svg width='600' height='18' role='img' aria-label='{counted}'>"
            f"{_bar(_counts(states))}</svg><p>{counted}</p>"
        )
    try:
        values = [
            [name, _short(repr(value))]
            for name, value in job._values.items()
            if value not in (None, [], "")
        ]
        parts.append(_table(["property", "value"], values, len(values)))
    except JobError as error:
        parts.append(f"<p>{escape(error.sentence)}</p>")
    return f"<div class='jedi-job'>{''.join(parts)}</div>"


def _of_service(job: AnyJob) -> str | None:
    """The page that the job's backend has of it; None: it has none, or can't be reached."""
    record = job.record
    if record.backend_id is None or not record.backend:
        return None
    backend = job._registry.session.monitor.connections.to(str(record.backend))
    paged = getattr(backend, "page", None)
    return paged(record.backend_id) if paged else None


def show(job: AnyJob) -> None:
    """Show the page of a job, and follow the job by a task of the kernel's own loop."""
    ipython: Any = sys.modules.get("IPython")
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # no notebook: nothing runs between two inputs
        loop = None
    if loop is None or ipython is None or ipython.get_ipython() is None:
        print(job)
        return
    live = LivePage(job, ipython.display.display)
    if live.goes_on():
        watching = job._registry.session.monitor.observe(live.update, job.id)
        task = loop.create_task(_follow(live))
        _FOLLOWERS.add(task)
        task.add_done_callback(_FOLLOWERS.discard)
        task.add_done_callback(lambda _: watching.stop())


async def _follow(live: LivePage) -> None:
    """Look whenever the kernel is idle, until the job has ended or was removed."""
    monitor = live.job._registry.session.monitor
    try:
        while live.goes_on():
            await asyncio.sleep(monitor.pause([live.job.id]))
            monitor.look()
            live.update()
    except NoSuchJob as error:
        live.end(error.sentence)
    except JediError as error:
        live.end(f"{error.sentence} Show the job again.")


def plot(job: AnyJob, subjobs: int = TIMED) -> Drawing:
    """A drawing of progress and times."""
    status = job.record.status
    if status == "new":
        raise JobError(f"Job {job.id} is new: nothing has run. Submit it.")
    states = _states(job)
    asked = states[: max(subjobs, 0)]
    backend_id = job.record.backend_id
    tried: list[tuple[int, Attempt]] = []
    if backend_id is not None:
        backend = job._registry.session.monitor.connections.to(str(job.record.backend))
        tried = [(one.k, each) for one in asked for each in backend.attempts(backend_id, one.k)]
    title = f"Job {job.id} {job.record.name}: {status}"
    return draw(title, _counts(states), tried, len(asked), len(states))


def draw(
    title: str,
    counts: Mapping[str, int],
    tried: Sequence[tuple[int, Attempt]],
    asked: int,
    total: int,
) -> Drawing:
    """Draw numbers of subjobs by status, ended attempts over time, and a line for each attempt."""
    drawn = [(k, one, one.started) for k, one in tried if one.started is not None]
    lines, parts = (
        [title, _counted(counts)],
        [f"<g transform='translate(10 26)'>{_bar(counts)}</g>"],
    )
    if drawn:
        first = min(begin for _, _, begin in drawn)
        last = max(one.ended or begin for _, one, begin in drawn)
        span = max((last - first).total_seconds(), 1e-3)

        def x(at: datetime) -> float:
            return round(10 + 600 * (at - first).total_seconds() / span, 1)

        ends = sorted(one.ended for _, one, _ in drawn if one.ended is not None)
        of = f"the first {asked} of {total}" if asked < total else f"all {total}"
        lines.append(f"{len(ends)} ended attempts of {of} subjobs in {_duration(span)}")
        parts += [_steps([x(end) for end in ends]), _axis(_duration(span))]
        for row, (k, one, begin) in enumerate(drawn):
            y = 186 + 4 * row
            label = escape(f"subjob {k}, attempt {one.attempt}: {one.status}")
            parts.append(
                f"<line x1='{x(begin)}' x2='{max(x(one.ended or last), x(begin) + 1)}' "
                f"y1='{y}' y2='{y}' stroke-width='3' stroke='{_colour(one)}'>"
                f"<title>{label}</title></line>"
            )
    shown = [escape(line) for line in lines]
    height = 190 + 4 * len(drawn) if drawn else 70
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='620' height='{height}' role='img' "
        "font-family='sans-serif' font-size='12' fill='currentColor'>"
        f"<title>{shown[0]}</title><desc>{'. '.join(shown[1:])}</desc>"
    )
    texts = [
        f"<text x='10' y='{y}'>{line}</text>" for y, line in zip((16, 60, 76), shown, strict=False)
    ]
    return Drawing("".join([head, *texts, *parts, "</svg>"]), "\n".join(lines))


def _steps(ends: Sequence[float]) -> str:
    """A line that rises at each end, to its top at the last."""
    points = ["10,160"]
    for n, x in enumerate(ends):
        points += [f"{x},{160 - 76 * i / len(ends):.1f}" for i in (n, n + 1)]
    return f"<polyline points='{' '.join(points)}' fill='none' stroke='#3f83d6'/>"


def _axis(last: str) -> str:
    """The axis of time, between the ended attempts above and the lines of attempts below."""
    return (
        "<path d='M10 160H610' stroke='#9aa0a6'/><g font-size='11'>"
        "<text x='10' y='174'>0 s</text>"
        "<text x='310' y='174' text-anchor='middle'>above: ended attempts; below: a line for "
        f"each attempt</text><text x='610' y='174' text-anchor='end'>{last}</text></g>"
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _states(job: AnyJob) -> Sequence[UnitState]:
    """The units of a job that count, also that of a job without splitter."""
    units = job.units(look=False)
    found = [units.record(k).state for k in units.ids]
    return [one for one in found if not one.superseded]


def _counts(states: Sequence[UnitState]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in states:
        found[one.status] = found.get(one.status, 0) + 1
    return found


def _error(one: UnitState) -> str:
    code = f"exit code {one.exit_code}" if one.exit_code else ""
    return one.reason or code or one.status


def _colour(one: Attempt) -> str:
    if one.status in ("finished", "completed"):
        return COLOURS["completed"]
    return COLOURS["running"] if one.ended is None else COLOURS["failed"]


def _bar(counts: Mapping[str, int]) -> str:
    """Rectangles of 600 pixels in all, one for each status."""
    total, left, parts = sum(counts.values()), 0.0, []
    for status in STATUSES:
        if number := counts.get(status, 0):
            width = 600 * number / total
            title = f"<title>{number} {status}</title>"
            parts.append(
                f"<rect x='{left:.1f}' width='{width:.1f}' height='18' "
                f"fill='{COLOURS[status]}'>{title}</rect>"
            )
            left += width
    return "".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> str:
    head = "".join(f"<th style='text-align:left'>{escape(one)}</th>" for one in heads)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(one)}</td>" for one in row) + "</tr>"
        for row in rows
    )
    more = f"<p>The first {len(rows)} of {total}.</p>" if total > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _badge(status: str) -> str:
    colour = COLOURS.get(status, "#9aa0a6")
    return f"<span style='color:#fff;background:{colour};padding:0 .4em'>{escape(status)}</span>"


def _counted(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{counts[one]} {one}" for one in STATUSES if counts.get(one))


def _numbers(ks: Sequence[int]) -> str:
    more = ", ..." if len(ks) > 10 else ""
    return ", ".join(map(str, ks[:10])) + more


def _time(at: datetime | None) -> str:
    return written(at, None) if at else ""


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."
