"""Alerts: states of the system that somebody should look at. Most are those of
config/prometheus-rules.yaml, without the time for which they must hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from jedi.core.knobs import Knobs
from jedi.service.queues.held import HeldTasks
from jedi.service.sites.loads import HourlyJobs, SiteLoad
from jedi.service.system.status import AgentStatus
from jedi.taskbuffer.reports.gauges import WaitingCount

COMMANDS_S = 600
"""Seconds that a command may wait."""

STATISTICS = 200_000
"""Changes of statistics that may wait."""

FAILED = 100
"""Jobs of two hours that may fail, even if fewer finish."""

Severity = Literal["page", "ticket"]


@dataclass(frozen=True, slots=True)
class Alert:
    """A state that somebody should look at: `page`: at once. `kind` and `subject` name the thing
    (an agent, a site, tasks); `since`: the time of its last good sign, if it is known."""

    code: str
    severity: Severity
    kind: str
    subject: str
    sentence: str
    remedy: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The figures that alerts come from."""

    now: datetime
    agents: Sequence[AgentStatus]
    waiting: Sequence[WaitingCount]
    rates: Sequence[HourlyJobs]
    sites: Sequence[SiteLoad]
    held: Sequence[HeldTasks]


def found(facts: Facts, knobs: Knobs) -> list[Alert]:
    """The alerts of this moment, those that page somebody first."""
    every = [
        *_agents(facts),
        *_waiting(facts),
        *_jobs(facts),
        *_sites(facts, knobs),
        *_tasks(facts),
    ]
    return sorted(every, key=lambda one: (one.severity != "page", one.code, one.subject))


def _agents(facts: Facts) -> Iterator[Alert]:
    silent = [one for one in facts.agents if not one.healthy]
    if silent:
        names = ", ".join(one.agent for one in silent)
        said = f"The agent{'s' if len(silent) > 1 else ''} {names} give{'s' * (len(silent) == 1)}"
        beats = [one.heartbeat_at for one in silent if one.heartbeat_at]
        yield Alert(
            "agent_silent",
            "page",
            "agent",
            names,
            f"{said} no heartbeat.",
            "Look at the logs, and start them: jedi up.",
            max(beats, default=None),
        )
    for one in facts.agents:
        if one.healthy and one.last_error:
            yield Alert(
                "agent_failing",
                "ticket",
                "agent",
                one.agent,
                f"The agent {one.agent} fails: {one.last_error}",
                "Look at its log.",
                None,
            )


def _waiting(facts: Facts) -> Iterator[Alert]:
    for one in facts.waiting:
        if one.queue == "commands" and one.oldest_s > COMMANDS_S:
            yield Alert(
                "commands_wait",
                "ticket",
                "agent",
                "TaskCommando",
                f"{one.depth} commands to tasks wait.",
                "TaskCommando is slow or missing.",
                facts.now - timedelta(seconds=one.oldest_s),
            )
        if one.queue == "statistics" and one.depth > STATISTICS:
            yield Alert(
                "statistics_lag",
                "ticket",
                "agent",
                "WatchDog",
                f"{one.depth} changes of statistics of jobs wait.",
                "The dog statistics does not run, or not fast enough.",
                None,
            )


def _jobs(facts: Facts) -> Iterator[Alert]:
    lately = [one.jobs for one in facts.rates if one.hour > facts.now - timedelta(hours=2)]
    failed, finished = (sum(one.get(name, 0) for one in lately) for name in ("failed", "finished"))
    if failed > max(finished, FAILED):
        yield Alert(
            "jobs_fail",
            "ticket",
            "jobs",
            "failed",
            f"{failed} jobs failed in the last two hours, {finished} finished.",
            "Look at the errors of failed jobs.",
            None,
        )
    activated = sum(one.jobs.get("activated", 0) for one in facts.sites)
    if activated and not any(one.jobs.get("running") for one in facts.sites):
        yield Alert(
            "no_job_runs",
            "ticket",
            "jobs",
            "activated",
            f"{activated} jobs wait for pilots, and none runs.",
            "Look at the pilots of sites.",
            None,
        )


def _sites(facts: Facts, knobs: Knobs) -> Iterator[Alert]:
    fresh = facts.now - timedelta(seconds=knobs.broker.pilot_fresh_s)
    for one in facts.sites:
        waiting = one.jobs.get("activated", 0)
        if waiting and (one.last_pilot is None or one.last_pilot < fresh):
            yield Alert(
                "no_pilots",
                "ticket",
                "site",
                one.site,
                f"{waiting} jobs wait at {one.site}, and it shows no pilot.",
                "Look at its submitter, or at the system that starts its pilots.",
                one.last_pilot,
            )
        elif one.trouble:
            yield Alert(
                "submitter_waits",
                "ticket",
                "site",
                one.site,
                f"{one.site} gets no pilots, or fewer: {one.trouble}",
                "Mend its batch system or its settings.",
                None,
            )


def _tasks(facts: Facts) -> Iterator[Alert]:
    for hold, sentence, remedy in (
        ("problem", "tasks wait because an agent failed at them.", "Look at their reasons."),
        (
            "exhausted",
            "tasks are exhausted: a person has to decide.",
            "Retry, finish or kill them.",
        ),
    ):
        mine = [one for one in facts.held if one.hold == hold]
        if mine:
            tasks = sum(one.tasks for one in mine)
            since = min((one.since for one in mine if one.since), default=None)
            yield Alert(
                f"tasks_{hold}", "ticket", "tasks", hold, f"{tasks} {sentence}", remedy, since
            )
