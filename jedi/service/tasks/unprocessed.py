"""The input that a task submitted again would still process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from jedi.model.datasets.chunk import Files

Done = Counter[tuple[str, int]]
"""Number of times that a file is processed, by its first event."""


@dataclass(frozen=True, slots=True)
class Continued:
    """A task that is submitted again, and the files that it has processed, by dataset."""

    jedi_task_id: int
    done: Mapping[str, Done] = field(default_factory=dict)

    def left(self, dataset: str, files: Files) -> Files:
        """The files of a dataset without those processed."""
        done = Counter(self.done.get(dataset, ()))
        keep = []
        for row, one in enumerate(zip(files.lfns, files.start_events.tolist(), strict=True)):
            if done[one]:
                done[one] -= 1
            else:
                keep.append(row)
        return files.take(np.array(keep, np.int64))
