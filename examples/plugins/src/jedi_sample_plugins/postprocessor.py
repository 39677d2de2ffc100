"""The end of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jedi.postprocessor.outcome import EndingDataset, PostProcessing, TaskVerdict

ENOUGH = 0.8


class MostIsEnough(PostProcessing):
    """A task is done when four fifths of its input files were processed."""

    def conclude(
        self, status: str, datasets: Sequence[EndingDataset], *more: Any, **named: Any
    ) -> TaskVerdict:
        verdict = super().conclude(status, datasets, *more, **named)
        masters = [d for d in datasets if d.is_master and d.status != "removed"]
        share = sum(d.finished for d in masters) / max(1, sum(d.to_be_used for d in masters))
        if verdict.target != "finished" or share < ENOUGH:
            return verdict
        reason = f"{verdict.reason} That is enough for vo sample."
        return replace(verdict, target="done", code="inputs_done", reason=reason)
