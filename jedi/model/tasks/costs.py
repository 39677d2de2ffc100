"""Costs of a task so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spent:
    """The costs of a task: its own attempts and those of a file, jobs that ran and failed,
    HEP-score hours of both, and the median CPU efficiency of jobs in %."""

    attempts: int = 0
    file_attempts: int = 0
    jobs: int = 0
    failed: int = 0
    hepscore_h: float = 0.0
    failed_hepscore_h: float = 0.0
    cpu_efficiency: float | None = None
