"""Sites of merge jobs: the broker's choice among sites with the files, else among all.

Source: docs/reference/merging.md#sites-of-merge-jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.requirements import Requirements
from jedi.model.jobs.demand import InputSize
from jedi.model.jobs.generation import TaskOrder
from jedi.model.jobs.merging import Stream
from jedi.model.sites.request import InputAvailability

AskBroker = Callable[[Requirements], SiteChoice]


@dataclass(frozen=True, eq=False)
class MergeChoice:
    """The broker's choice for the merge jobs of the files of one site."""

    need: Requirements
    choice: SiteChoice

    @property
    def site(self) -> str | None:
        """The site of the merge jobs, drawn by weight; None: no site takes them now."""
        if not self.choice.candidates:
            return None
        return self.choice.sites.sites[self.choice.candidates[self.choice.lottery().draw()]]


def place(
    task: TaskOrder, streams: Sequence[Stream], data: InputAvailability, choose: AskBroker
) -> MergeChoice:
    """The site for merge jobs of these files, which lie as `data` says: one that has them; else one
    to which they move; a site where no pilot took the last merge job only if no other is left."""
    request = replace(task.request, merging=True, scout=False)
    left = tuple(sorted({site for one in streams for site in one.left}))
    near = Requirements(
        task.demand, _largest(streams), task.sites, request, data, near=True, left=left
    )
    anywhere = replace(near, data=replace(data, at={}), near=False)
    again = [replace(near, left=())] if left else []
    choices: list[MergeChoice] = []
    for need in (near, anywhere, *again):
        choices.append(MergeChoice(need, choose(need)))
        if choices[-1].choice.candidates:
            return choices[-1]
    return choices[1]


def _largest(streams: Sequence[Stream]) -> InputSize:
    """The files of the largest job, which stay together."""
    sizes = np.sum([one.files.sizes for one in streams], axis=0)
    return InputSize(float(sizes.max()), float(streams[0].files.events.max()))
