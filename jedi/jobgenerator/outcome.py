"""Result for one task: its new jobs, or the reason for none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jedi.brokerage.explain import counts, why_nowhere
from jedi.core.knobs import Knobs
from jedi.eventservice.job_sets import as_job_sets, as_placeholders
from jedi.jobgenerator.plan import ShortStream
from jedi.jobgenerator.propose import Proposal
from jedi.model.jobs.building import Builds
from jedi.model.jobs.generation import NewJobs, TaskOrder
from jedi.model.sites.decision import Decision


@dataclass(frozen=True, eq=False)
class Merges:
    """Merge jobs to be written, if any; the task's status stays. `waits`: no site takes some."""

    task: TaskOrder
    jobs: NewJobs | None
    decisions: Sequence[Decision] = ()
    waits: bool = False


@dataclass(frozen=True, eq=False)
class Made:
    """Jobs to be written: the task's own, if any, and the builds of its software."""

    task: TaskOrder
    jobs: NewJobs | None
    decisions: Sequence[Decision]
    builds: tuple[TaskOrder, NewJobs] | None = None


@dataclass(frozen=True, eq=False)
class NoJobs:
    """No jobs, and why; `target` is the task's status until it is looked at again."""

    code: str
    reason: str
    target: str
    wait_s: float
    facts: dict[str, Any] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()


GenerationOutcome = Made | NoJobs


JobForm = Callable[[Made, NewJobs, Proposal], Made]


def _job_sets(made: Made, jobs: NewJobs, found: Proposal) -> Made:
    chosen = dict.fromkeys(at for one in found.proposals for at in one.choice.candidates)
    sets = as_job_sets(made.task, jobs, found.sites, [*chosen])
    return replace(made, jobs=as_placeholders(sets) if found.waits else sets)


FORMS: dict[str, JobForm] = {"es_merge": _job_sets}
"""Forms of kinds of jobs that differ from the plan."""


def formed(made: Made, found: Proposal) -> Made:
    """The jobs of a task in their form."""
    form = FORMS.get(made.task.columns["kind"])
    return form(made, made.jobs, found) if form and made.jobs else made


def status_and_reason(made: Made) -> tuple[str, str, str]:
    """The status of a task that gets jobs, with the code and the sentence of the reason."""
    task, jobs = made.task, made.jobs
    if jobs is None:
        target = "scouting" if task.rules.scouting else "running"
        return target, "builds_generated", "The software is built first."
    if task.status in ("topreprocess", "preprocessing"):
        return "preprocessing", "preprocessing_job_generated", "The pre-processing job was made."
    kind = "scout job" if task.rules.scouting else "job"
    reason = f"{len(jobs)} {kind}{'s' if len(jobs) > 1 else ''} made."
    if task.rules.scouting:
        return "scouting", "scouts_generated", reason
    return "running", "jobs_generated", reason


def nowhere(found: Proposal, knobs: Knobs, decisions: Sequence[Decision]) -> NoJobs:
    """The hold of a task without a site. If time may free a site, JEDI tries soon again, else with
    the other pending tasks. Of several datasets the reason names the one that may be first."""
    task, verdict = found.task, found.nowhere[0].verdict
    unit = next((one.unit for one in found.proposals if one.choice.verdict is verdict), "")
    wait_s = knobs.watchdog.pending_retry_s if verdict.lasting else knobs.jobgen.retry_s
    where = f" among {', '.join(task.sites)}" if task.sites else ""
    several = f", which has {len(found.proposals)} datasets" if len(found.proposals) > 1 else ""
    reason = f"No site{where} can run the task{several}: {why_nowhere(verdict)}."
    refused = counts(verdict)
    facts = {"lasting": verdict.lasting, "refused": refused}
    if unit and "little_scratch" in refused:
        reason = f"{reason[:-1]}; {unit}."
    code = "no_site_fits" if verdict.lasting else "no_site_now"
    return NoJobs(code, reason, "pending", wait_s, facts, decisions)


def too_few(task: TaskOrder, short: Sequence[ShortStream], knobs: Knobs) -> NoJobs:
    """Too few files follow the master's: more may come. Known ones that are on their way, from tape
    say, are no hold that ends by a time-out."""
    coming = {one.stream: one.coming for one in task.inputs if one.master_id and one.coming > 0}
    sentences = (
        f"{one}, {coming[one.stream]} more on their way" if one.stream in coming else str(one)
        for one in short
    )
    shortages = f": {'; '.join(sentences)}" if short else ""
    reason = f"The files that follow the master's do not suffice{shortages}."
    facts = {one.stream: {"wanted": one.wanted, "left": one.left} for one in short}
    comes = bool(short) and all(one.stream in coming for one in short)
    target = task.status if comes else "pending"
    return NoJobs("secondary_files_short", reason, target, knobs.jobgen.retry_s, facts)


def without_software(
    task: TaskOrder,
    known: Builds,
    lacking: Collection[str],
    knobs: Knobs,
    decisions: Sequence[Decision],
) -> NoJobs:
    """No job can be made, since the software is not at these endpoints and no build is to be made
    there. JEDI document, "Broken tasks": where scouts wait for it that breaks the task."""
    if "running" in known.statuses.values():
        reason, wait_s = "Its software is being built.", knobs.jobgen.retry_s
        return NoJobs("build_running", reason, task.status, wait_s, {}, decisions)
    reason = f"Its software could not be built at {', '.join(sorted(lacking))}."
    if task.status == "scouting":
        return NoJobs("build_failed", reason, "tobroken", 0.0, {}, decisions)
    wait_s = knobs.watchdog.pending_retry_s
    return NoJobs("build_failed", reason, "pending", wait_s, {}, decisions)
