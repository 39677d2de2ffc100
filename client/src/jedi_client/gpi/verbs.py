"""Verbs on submitted jobs and their subjobs: one request for all subjobs of a job.

Source: docs/reference/ganga.md#verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from jedi_client.errors import BadInput, JediError, Problem, Refused
from jedi_client.gpi import results
from jedi_client.gpi.any_job import AnyJob
from jedi_client.gpi.interfaces import Backend, InputCutter, Refusals
from jedi_client.gpi.report import Report
from jedi_client.gpi.splitters import FileSplitter
from jedi_client.gpi.status import ENDED, LIVE

DYING_S = 30.0
"""Seconds that the removal of a live job waits for its end."""


def kill(job: AnyJob, ks: Sequence[int] | None, *, keep_going: bool) -> Report:
    """Kill live subjobs; None: all. Ended ones stay as they are."""
    status = job.status
    if ks is None and status in ENDED:
        return Report("kill")
    failed = _not_running(job, ks)
    chosen = ks
    if ks is not None and not failed:
        now = {k: job.unit(k).state.status for k in ks}
        failed = {k: "The subjob was not submitted." for k in ks if now[k] == "new"}
        chosen = [k for k in ks if now[k] in LIVE]
    return _act(
        job, "kill", chosen, failed, keep_going, lambda backend, id: backend.kill(id, chosen)
    )


def resubmit(job: AnyJob, ks: Sequence[int] | None, settings: Any, *, keep_going: bool) -> Report:
    """Run ended subjobs again, in place. None: the failed, killed and refused ones, or the
    completed ones if there are no others. `settings`: the same backend with other options."""
    failed = _not_running(job, ks)
    options: dict[str, Any] = {}
    if settings is not None and not failed:
        problems: list[Problem] = []
        asked = type(job)._properties["backend"].checked(settings, "backend", problems)
        if problems:
            raise BadInput(problems)
        if type(asked) is not type(job.backend):
            there = type(job.backend).__name__
            why = f"The job is on {there}; a resubmission can't move it. Submit a copy."
            failed = {None: why}
        else:
            options = _changed(job.backend, asked)
    chosen: list[int] = []
    if not failed:
        job.units()  # look
        states = [job.unit(k).state for k in (job.units(look=False).ids if ks is None else ks)]
        again = [
            one.k
            for one in states
            if not one.superseded and one.status in ("failed", "killed", "new")
        ]
        completed = [one.k for one in states if not one.superseded and one.status == "completed"]
        chosen = sorted(again + completed) if ks is not None else again or completed
        if ks is not None:
            taken = set(chosen)
            failed = {
                one.k: "The subjob is superseded."
                if one.superseded
                else f"The subjob is {one.status}."
                for one in states
                if one.k not in taken
            }
        elif not chosen:
            failed = {None: f"Job {job.id} is {job.record.status}: nothing has ended yet."}
    units = None if ks is None and not job.split else chosen
    return _act(
        job,
        "resubmit",
        units,
        failed,
        keep_going,
        lambda backend, id: backend.resubmit(id, units, options),
    )


def resplit(job: AnyJob, ks: Sequence[int], splitter: Any, *, keep_going: bool) -> Report:
    """Cut the input of ended subjobs again: they are superseded, and new ones get the next ids."""
    problems: list[Problem] = []
    asked = FileSplitter.accept(splitter, "splitter", problems)
    if not problems and not isinstance(asked, FileSplitter):
        name = type(splitter).__name__
        rule = "doesn't cut by files"
        problems.append(
            Problem("splitter", name, rule, "Give a FileSplitter, or a number of files")
        )
    if problems:
        raise BadInput(problems)
    failed = _not_running(job, ks)
    files: int = asked.files
    return _act(
        job,
        "resplit",
        [] if failed else ks,
        failed,
        keep_going,
        lambda backend, id: cast(InputCutter, backend).resplit(id, ks, files),
    )


def _changed(there: Any, asked: Any) -> dict[str, Any]:
    """The options that differ from the job's; empty ones stay as they were."""
    old = there.document()
    return {name: value for name, value in asked.document().items() if value and value != old[name]}


def remove(job: AnyJob, *, keep_going: bool, force: bool = False) -> Report:
    """Remove a job: its record, its links, its folder, and its output on the backend. No session
    may be submitting it. `force`: also if the backend does not answer, or it is unknown whether it
    has the job; the report then names possible remains."""
    with job._registry.session.workspace.claim(job.id) as mine:
        if mine:
            return _forgotten(job) if force else _removed(job, keep_going=keep_going)
    why = f"Another session submits job {job.id} just now. Remove it later."
    return Report("remove", (), {None: why}).checked(keep_going=keep_going)


def _forgotten(job: AnyJob) -> Report:
    """Remove a job whatever its backend says. Nobody waits for it."""
    job._registry.sync(float("-inf"))
    record = job.record
    left: Refusals = {}
    if record.backend is not None and record.status != "new":
        name = record.backend.partition(" ")[0]
        try:
            if record.backend_id is None:
                raise JediError(f"It is not known whether {name} has the job.")
            backend = job._registry.session.monitor.connections.to(record.backend)
            if record.status in LIVE:
                backend.kill(record.backend_id, None)
            backend.remove(record.backend_id)
        except JediError as error:
            place = f" as {record.backend_id}" if record.backend_id else ""
            left = {None: f"{error.sentence} It may go on there{place}."}
    _lost(job)
    return Report("remove", (job.id,), left)


def _lost(job: AnyJob) -> None:
    """Remove a job from this session, its registry and its workspace."""
    session = job._registry.session
    session.store.remove("job", [job.id])
    job._registry.lose(job.id)
    session.workspace.remove(job.id)
    session.monitor.dispatch()


def _removed(job: AnyJob, *, keep_going: bool) -> Report:
    session = job._registry.session
    job._registry.sync(float("-inf"))
    record = job.record
    if job.status in ("submitting", "unknown"):
        why = (
            f"Job {job.id} is {job.record.status}: wait until its submission is settled, or "
            "forget it: remove(force=True)."
        )
        return Report("remove", (), {None: why}).checked(keep_going=keep_going)
    if job.record.status in LIVE:
        report = kill(job, None, keep_going=True)
        try:
            session.monitor.wait([job.id], DYING_S)
        except TimeoutError:
            why = f"Job {job.id} is not dead yet. Remove it later. {report}"
            return Report("remove", (), {None: why}).checked(keep_going=keep_going)
    record = job.record
    if record.backend_id is not None and record.backend is not None:
        try:
            session.monitor.connections.to(record.backend).remove(record.backend_id)
        except JediError as error:
            return Report("remove", (), {None: error.sentence}).checked(keep_going=keep_going)
    _lost(job)
    return Report("remove", (job.id,))


def _not_running(job: AnyJob, ks: Sequence[int] | None) -> dict[int | None, str]:
    """The refusal of jobs that no backend has."""
    status = job.status
    if status in ("new", "submitting", "unknown") or job.record.backend_id is None:
        why = f"Job {job.id} is {status}: no backend has it."
        return dict.fromkeys([None] if ks is None else ks, why)
    return {}


def _act(
    job: AnyJob,
    verb: str,
    ks: Sequence[int] | None,
    failed: Refusals,
    keep_going: bool,
    ask: Callable[[Backend, str], Refusals],
) -> Report:
    """Ask the backend once, unless nothing is left to ask for."""
    if failed and (not keep_going or None in failed):
        return Report(verb, (), dict(failed)).checked(keep_going=keep_going)
    refused = dict(failed)
    again = verb in ("resubmit", "resplit")
    if ks is None or ks:
        if again:
            results.forget_merged(job)
        refused.update(_asked(job, verb, ask, keep_going))
    members: Sequence[int | None] = [None] if ks is None else ks
    done = () if None in refused else [k for k in members if k not in refused]
    monitor = job._registry.session.monitor
    monitor.expire(job.id)
    if again:
        monitor.look()  # an ended job is not asked for otherwise
    return Report(verb, done, refused).checked(keep_going=keep_going)


def _asked(
    job: AnyJob, verb: str, ask: Callable[[Backend, str], Refusals], keep_going: bool
) -> Refusals:
    """The refusals of the backend; its errors are refusals, too, with `keep_going`."""
    record = job.record
    backend = job._registry.session.monitor.connections.to(str(record.backend))
    name = str(record.backend).partition(" ")[0]
    if not callable(getattr(backend, verb, None)):
        return {None: f"Backend {name} can't {verb} jobs."}
    try:
        return ask(backend, str(record.backend_id))
    except NotImplementedError:
        return {None: f"Backend {name} can't {verb} this job."}
    except JediError as error:
        if not keep_going and not isinstance(error, Refused):
            raise
        return {None: error.sentence}
