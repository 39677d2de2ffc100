"""Retrying has limits: the costs of a task so far decide whether it is tried once more.

Source: docs/reference/retries-and-timeouts.md#retry-limits.
"""

from __future__ import annotations

from jedi.core.knobs import Knobs
from jedi.model.tasks.costs import Spent


def exceeded(spent: Spent, knobs: Knobs) -> str | None:
    """The reason not to try a task again, with its knob; None: it is tried."""
    failed = _percent(spent.failed, spent.jobs)
    failed_hours = _percent(spent.failed_hepscore_h, spent.hepscore_h)
    most = (
        ("max_attempts", spent.attempts, "attempts of the task were made"),
        ("max_file_attempts", spent.file_attempts, "attempts of a file are allowed already"),
        ("max_failed_hepscore_h", spent.failed_hepscore_h, "HEP-score hours were lost"),
        ("max_failed_hepscore_percent", failed_hours, "% of the HEP-score hours were lost"),
        ("max_failed_jobs_percent", failed, "% of the jobs failed"),
    )
    for key, value, what in most:
        limit = knobs[f"retry.{key}"]
        if limit and value >= limit:
            return f"{value:.4g} {what}, the limit is {limit:g} (knob retry.{key})."
    least = knobs.retry.min_cpu_efficiency_percent
    if spent.cpu_efficiency is not None and spent.cpu_efficiency < least:
        return (
            f"The jobs used {spent.cpu_efficiency:.4g} % of their cores, the limit is {least:g} "
            "(knob retry.min_cpu_efficiency_percent)."
        )
    return None


def limited(knobs: Knobs) -> bool:
    """Return True if any limit is set."""
    return any(value for name, value in knobs.items() if name.startswith("retry."))


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0
