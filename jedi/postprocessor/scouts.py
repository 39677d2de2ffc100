"""Evaluation of scout jobs: measurements, and the decision whether the other jobs may follow.

Source: JEDI document, "Memory probe and brokerage", "IO intensity", "HS06sPerEvent" and
"Transition of task status"; docs/reference/scouts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import ceil, inf
from statistics import median
from typing import Any

from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import SIZES
from jedi.model.jobs.scouting import (
    MEASURED,
    Declared,
    Judgement,
    Measured,
    Scout,
    Scouted,
    TimedOut,
)
from jedi.model.scheduling.resource_types import ResourceType, resource_type
from jedi.model.tasks.labels import PRODUCTION_LABELS

KB, MB = 2.0**10, 2.0**20
_LONG_S = 6 * 3600.0
"""Duration from which a job measures the time of an event, even with few events."""

_MIN_EVENTS = 10
"""With fewer events, outputs are measured per MB of input."""

_MOST_OUT_PER_MB = 10 * MB
_MILLI_BELOW = 10.0
_SPARE = 1.5
_LEAST_GB, _MOST_GB = 1.0, 100.0
"""Borders of a size that follows from tgtMaxOutputForNG."""

_REAL_WALLTIME_S = 3600.0
"""A walltime per MB of input is only declared by jobs that ran so long."""


def judge(found: Scouted, knobs: Knobs) -> Judgement:
    """Decide whether a task's other jobs may follow its scouts, which have all ended."""
    task, progress, scouts = found.declared, found.progress, found.finished
    tried = progress.finished + max(0, progress.failed - _outdated(found))
    facts: dict[str, Any] = {
        "scouts": len(scouts),
        "files_finished": progress.finished,
        "files_failed": progress.failed,
    }
    percent = 0.0 if _is_production(task) else knobs.scout.min_success_percent
    if task.success_percent is not None:
        percent = task.success_percent
    rate = 100 * progress.finished / max(tried, 1)
    done = f"Scout jobs could process {progress.finished} of {tried} files"
    measured = measure(task, scouts[: knobs.scout.sample], knobs)
    events = _job_events(task, scouts, found.timed_out)
    if not (scouts and progress.finished) or rate < percent:
        if events and found.timed_out:
            reason = f"{done}; {len(found.timed_out)} had too little time. Jobs get {events} "
            reason += f"event{'s' if events > 1 else ''} instead of {task.events_per_job}, and "
            return Judgement(
                "scouting",
                "scouts_anew",
                f"{reason}new scouts follow.",
                facts,
                measured,
                None,
                events,
            )
        if 0 < knobs.scout.exhaust_from_percent <= rate:
            reason = f"{done}, less than {percent:g} %. Retry the task to run it all the same."
            return Judgement("exhausted", "scouts_partly_failed", reason, facts, measured)
        return Judgement("tobroken", "scouts_failed", f"{done}: the task is broken.", facts)
    per_job = sum(scout.n_files for scout in scouts) / len(scouts)
    expected = ceil(progress.n_files / max(per_job, 1))
    facts |= {"jobs_expected": expected}
    if expected - len(scouts) > knobs.scout.exhaust_above_jobs:
        for test in (_too_slow, _too_large, _too_short, _too_idle, _too_busy):
            if warning := test(task, scouts, measured, expected, knobs):
                code, reason, more = warning
                advice = "Retry the task to run it all the same, or submit it anew with better "
                return Judgement(
                    "exhausted", code, f"{reason} {advice}figures.", facts | more, measured
                )
    reason = f"Scout jobs processed {progress.finished} of {tried} files: all others follow."
    size = _job_size(task, scouts, found.largest_output, measured, knobs)
    return Judgement("scouted", "scouts_succeeded", reason, facts, measured, size, events)


def _is_production(task: Declared) -> bool:
    return task.label in PRODUCTION_LABELS


def _job_size(
    task: Declared,
    scouts: Sequence[Scout],
    largest_output: int,
    measured: Measured,
    knobs: Knobs,
) -> float | None:
    """The nGBPerJob of a job whose largest output is as large as the task wants it."""
    if not (task.max_output_gb and largest_output):
        return None
    times, least = task.max_output_gb / largest_output, float(knobs.jobgen.ng_output_gb)
    read = times * sum(scout.input_bytes for scout in scouts)
    made = times * sum(scout.output_bytes for scout in scouts)
    if knobs.jobgen.ng_covers_all:
        work_kb = measured.work_disk_count or task.work_disk_kb
        size = read + max(made, least) + work_kb * SIZES["kB"] / SIZES["GB"]
    else:
        size = read + made - least
    return min(max(size, _LEAST_GB), _MOST_GB)


def _job_events(
    task: Declared, scouts: Sequence[Scout], timed_out: Sequence[TimedOut]
) -> int | None:
    """Events of a job that the time suffices for, where events say how large a job is and the task
    aims at more. Scouts that had too little time limit it as maxWalltime does, and count as if they
    needed twice as much.

    Source: docs/reference/event-ranges.md#cutting-unused-ranges-anew.
    """
    if not task.events_per_job:
        return None
    base = task.base_walltime_s
    limits = [task.max_walltime_s] if task.max_walltime_s else []
    limits += [one.lasted_s for one in timed_out if one.lasted_s > base]
    spent = [(_seconds(s) - base) / s.n_events for s in scouts if s.n_events]
    spent += [2 * (t.lasted_s - base) / t.n_events for t in timed_out if t.lasted_s > base]
    halves = [t.n_events / 2 for t in timed_out if t.lasted_s <= base]
    fits = list(halves)
    if limits and max(spent, default=0.0) > 0:
        fits.append((min(limits) - base) / max(spent))
    fit = min(fits, default=inf)
    fewer = max(task.least_events, int(min(fit, task.events_per_job)))
    return fewer if fewer < task.events_per_job else None


def _outdated(found: Scouted) -> int:
    """Scouts that had too little time with more events than ranges have by now."""
    now = found.declared.events_per_job
    return sum(one.n_events > now for one in found.timed_out) if now else 0


# --------------------------------------------------------------------------------- measuring


def measure(task: Declared, scouts: Sequence[Scout], knobs: Knobs) -> Measured:
    """The figures that a sample of finished scouts gives; of none, nothing."""
    if not scouts:
        return Measured()
    cpu_time, cpu_time_unit = _cpu_time(task, scouts, knobs)
    out, out_unit = _out_disk(scouts, knobs)
    work = max(scout.workdir_kb for scout in scouts)
    work_known = work > task.work_disk_kb
    longest = max(scout.cpu_s for scout in scouts)
    real = longest >= _REAL_WALLTIME_S
    moved = sum(scout.input_bytes + scout.output_bytes for scout in scouts)
    core_seconds = sum(_seconds(scout) * scout.cores for scout in scouts)
    return Measured(
        cpu_time=cpu_time,
        cpu_time_unit=cpu_time_unit,
        ram_count=_ram(task, scouts, knobs),
        out_disk_count=out,
        out_disk_unit=out_unit,
        work_disk_count=work if work_known else None,
        work_disk_unit="kB" if work_known else None,
        walltime=_up(longest / max(map(_input_mb, scouts)) * _SPARE) if real else None,
        walltime_unit="sPerMB" if real else None,
        io_intensity=round(moved / 1000 / core_seconds),
        io_intensity_unit="kBPerS",
        disk_io=round(sum(map(_disk_io, scouts)) / len(scouts)),
        disk_io_unit="kBPerS",
    )


def shaped(task: Declared, measured: Measured, types: Sequence[ResourceType]) -> Measured:
    """With the figures that failed jobs proved, where larger, and the shape of jobs that need so
    much memory. Source: docs/reference/scouts.md#the-larger-figure-counts."""
    names = (one.name for one in fields(measured))
    seen = {
        name: {MEASURED: value}
        for name in names
        if isinstance(value := getattr(measured, name), int)
    }
    found = replace(measured, figures=seen)
    if found.cpu_time and task.proven("cpu_time") > _hs06(found.cpu_time, found.cpu_time_unit):
        found = replace(found, cpu_time=task.proven("cpu_time"), cpu_time_unit="HS06sPerEvent")
    if found.ram_count is None:
        return found
    ram = max(found.ram_count, task.proven("ram_count"))
    shape = resource_type(types, task.core_count, ram, task.ram_unit, task.base_ram_mb)
    return replace(found, ram_count=ram, resource_type=shape)


def nearest_rank(values: Sequence[float], percent: float) -> int:
    """The position of the value that so many percent of all do not exceed."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return order[max(1, ceil(percent / 100 * len(order))) - 1]


def _percentile(values: Sequence[float], percent: float) -> float:
    return values[nearest_rank(values, percent)]


def _cpu_time(
    task: Declared, scouts: Sequence[Scout], knobs: Knobs
) -> tuple[int | None, str | None]:
    """HS06 seconds an event, by the job that stands at the percentile of (end - start) x
    corePower; in thousandths where they are few."""
    least = knobs.scout.events_per_core
    able = [
        scout
        for scout in scouts
        if scout.counted_events >= least * scout.cores
        or scout.lasted_s > _LONG_S
        or not scout.input_bytes
    ]
    if not able or task.cpu_time_unit.endswith("Fixed"):
        return None, None
    works = [scout.lasted_s * scout.core_power for scout in able]
    value = _hs06_s_per_event(task, able[nearest_rank(works, knobs.scout.cpu_percentile)])
    if not value:  # no longer than what does not depend on events
        return None, None
    if value < _MILLI_BELOW:
        return _up(value * 1000), "mHS06sPerEvent"
    return _up(value), "HS06sPerEvent"


def _hs06_s_per_event(task: Declared, job: Scout) -> float:
    seconds = max(0.0, job.lasted_s - task.base_walltime_s)
    work = seconds * job.core_power * job.cores * task.cpu_efficiency / 100
    return work / job.counted_events * _SPARE


def _ram(task: Declared, scouts: Sequence[Scout], knobs: Knobs) -> int | None:
    """MB, of each job by its own cores where the task counts per core."""
    jobs = [scout for scout in scouts if scout.memory_kb]
    if not jobs or task.ram_unit.endswith("Fixed"):
        return None
    per_core = task.ram_unit.startswith("MBPerCore")
    figures = [
        (job.memory_kb / KB - task.base_ram_mb) / job.cores if per_core else job.memory_kb / KB
        for job in jobs
    ]
    value = _percentile(figures, knobs.scout.ram_percentile)
    margin: float = 1 + knobs.scout.ram_margin_percent / 100
    return _up(max(value * margin, float(knobs.scout.ram_min_mb), 1.0))


def _out_disk(scouts: Sequence[Scout], knobs: Knobs) -> tuple[int, str]:
    """kB of outputs, per event where enough of them are known, else per MB of input."""
    rich = [scout for scout in scouts if (scout.n_events or 0) >= _MIN_EVENTS]
    if rich:
        sizes, unit = [s.output_bytes / (s.n_events or 1) for s in rich], "kBPerEvent"
    else:
        sizes = [min(s.output_bytes / _input_mb(s), _MOST_OUT_PER_MB) for s in scouts]
        unit = "kB"
    return _up(_percentile(sizes, knobs.scout.out_percentile) / KB), unit


def _input_mb(scout: Scout) -> float:
    """A file without contents counts as 1 MB."""
    return scout.input_bytes / MB or float(max(scout.n_files, 1))


def _disk_io(scout: Scout) -> float:
    """kB a second."""
    return scout.local_bytes / 1000 / max(scout.lasted_s, 1.0)


def _seconds(scout: Scout) -> float:
    """For rates; over less than a second they mean nothing."""
    return max(scout.wall_s, 1.0)


def _up(value: float) -> int:
    """The next whole number, unless only a rounding error is above one."""
    return ceil(round(value, 6))


# ---------------------------------------------------------------------- reasons to ask a person

_Warning = tuple[str, str, dict[str, Any]] | None


def _hs06(value: int, unit: str | None) -> float:
    return value / 1000 if (unit or "").startswith("m") else float(value)


def _too_slow(
    task: Declared, scouts: Sequence[Scout], measured: Measured, expected: int, knobs: Knobs
) -> _Warning:
    """Much more time an event than the task says."""
    most = knobs.scout.max_cpu_ratio
    if not (most and task.cpu_time and measured.cpu_time and measured.cpu_time_unit):
        return None
    declared = _hs06(task.cpu_time, task.cpu_time_unit)
    seen = _hs06(measured.cpu_time, measured.cpu_time_unit)
    longest_s = max(scout.wall_s for scout in scouts)
    if seen <= most * declared or longest_s <= knobs.scout.max_cpu_ratio_from_h * 3600:
        return None
    reason = (
        f"Scout jobs took {seen:g} HS06 s an event, more than {most:g} times the {declared:g} of "
        "the task's cpuTime."
    )
    return "scouts_too_slow", reason, {"cpu_time": seen, "cpu_time_declared": declared}


def _too_large(
    task: Declared, scouts: Sequence[Scout], measured: Measured, expected: int, knobs: Knobs
) -> _Warning:
    """More memory than most sites have, although the task asks for less."""
    most = knobs.scout.max_ram_mb
    declared, seen = task.ram_count or 0, measured.ram_count or 0
    if not most or not task.ram_unit.startswith("MBPerCore") or not declared < most < seen:
        return None
    reason = (
        f"Scout jobs needed {seen} MB a core, the task asks for {declared} MB (limit {most} MB)."
    )
    return "scouts_too_large", reason, {"ram_count": seen, "ram_count_declared": declared}


def _too_short(
    task: Declared, scouts: Sequence[Scout], measured: Measured, expected: int, knobs: Knobs
) -> _Warning:
    """Very many very short jobs of an analysis task."""
    limit_s, most = knobs.scout.short_s, knobs.scout.short_max_expected_jobs
    short = sum(scout.wall_s < limit_s for scout in scouts)
    if short <= knobs.scout.short_max_scouts or expected <= most or _is_production(task):
        return None
    reason = (
        f"{short} of {len(scouts)} scout jobs took less than {limit_s:g} s, and {expected} jobs "
        f"are expected, more than {most}: let each job do more (nFilesPerJob)."
    )
    return "scouts_too_short", reason, {"short_scouts": short, "short_s": limit_s}


def _too_idle(
    task: Declared, scouts: Sequence[Scout], measured: Measured, expected: int, knobs: Knobs
) -> _Warning:
    """Cores that wait more than the task allows."""
    used = [100 * scout.cpu_s / (scout.cores * _seconds(scout)) for scout in scouts]
    seen = median(used)
    if seen >= task.min_cpu_efficiency:
        return None
    reason = (
        f"Half of the scout jobs kept their cores busy for less than {seen:.0f} % of the time, the "
        f"task wants {task.min_cpu_efficiency} % (minCpuEfficiency)."
    )
    return "scouts_too_idle", reason, {"cpu_efficiency": round(seen, 1)}


def _too_busy(
    task: Declared, scouts: Sequence[Scout], measured: Measured, expected: int, knobs: Knobs
) -> _Warning:
    """More processors in use than were asked for."""
    most = knobs.scout.max_cpu_use
    busy = sum(scout.cpu_s > most * scout.cores * _seconds(scout) for scout in scouts)
    if not most or not busy:
        return None
    reason = (
        f"{busy} scout jobs used more than {most:g} times the processor time that their cores "
        "have: ask for more cores (coreCount)."
    )
    return "scouts_too_busy", reason, {"busy_scouts": busy}
