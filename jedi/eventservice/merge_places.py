"""The broker's choice of sites for merge jobs of events, among those that read all pieces.

Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from jedi.brokerage.brokers import own_or_generic
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.record import lottery_seed, record
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import Demand, InputSize
from jedi.model.sites.decision import Decision
from jedi.model.sites.request import InputAvailability, Request, SiteInput
from jedi.model.sites.snapshot import Snapshot
from jedi.model.tasks.rows import ClaimedTask


@dataclass(frozen=True, eq=False)
class PieceChoice:
    """The broker's choice for the merge of a job set, and the decision that it is."""

    choice: SiteChoice
    decision: Decision

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the sites that the broker takes."""
        names = (self.choice.sites.sites[at] for at in self.choice.candidates)
        return dict(zip(names, self.choice.weights, strict=True))


def choose(
    row: ClaimedTask, jobset_id: int, readers: Collection[str], sites: Snapshot, knobs: Knobs
) -> PieceChoice:
    """The sites for the merge job of a task's job set, of `readers`, which read all its pieces. The
    task's choice of sites does not count: jumbo jobs may have left pieces at others."""
    asked = replace(
        Request.of(row), merging=True, scout=False, jumbo=False, cloud="", included=(), excluded=()
    )
    demand = replace(
        Demand.of(row, None),
        ram_mb=float(knobs.eventservice.merge_memory_mb),
        ram_per_core=False,
        base_ram_mb=0.0,
        hs06_s_per_event=None,
        s_per_mb=None,
    )
    data = InputAvailability(0.0, 1, True, dict.fromkeys(readers, SiteInput(0.0, 1, 0.0, 1)))
    need = Requirements(demand, InputSize(0.0, 0.0), request=asked, data=data, near=True)
    broker = own_or_generic(row.vo, row.prod_source_label, knobs)
    choice = broker.choose(sites, need, knobs, (), lottery_seed(row.jedi_task_id, jobset_id))
    found = record(row.jedi_task_id, broker.name, sites, need, knobs, choice)
    return PieceChoice(choice, found)
