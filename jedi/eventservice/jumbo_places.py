"""The broker's view of sites for jumbo jobs: the criteria on the site itself, and the weights.

Source: docs/reference/event-service.md#jumbo-jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from jedi.brokerage.brokers import own_or_generic
from jedi.brokerage.record import refusals
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import judge
from jedi.brokerage.weights import product
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import Demand, InputSize
from jedi.model.sites.request import Request
from jedi.model.sites.snapshot import Snapshot
from jedi.model.tasks.rows import ClaimedTask

_OF_SITES = frozenset(
    {
        "status_offline",
        "status_brokeroff",
        "status_paused",
        "status_test",
        "status_standby",
        "no_pilots",
        "no_endpoint",
        "little_storage",
        "output_unwritable",
    }
)
"""Criteria that do not depend on the shape of a job: a jumbo job takes the slot as it is."""


class JumboRanking(NamedTuple):
    """Sites for jumbo jobs of a task, best first, and the reasons against the others, in words."""

    order: list[str]
    troubles: dict[str, str]


def ranked(
    row: ClaimedTask,
    names: Collection[str],
    left: Iterable[tuple[int, str]],
    sites: Snapshot,
    knobs: Knobs,
) -> JumboRanking:
    """Sites by the weights of the task's broker; those where no pilot took a jumbo job come last
    (`left`, by task). A site without free slots weighs little, one without pilots is refused."""
    last = {site for task, site in left if task == row.jedi_task_id}
    known = sites.only([one for one in sites.sites if one in names])
    broker = own_or_generic(row.vo, row.prod_source_label, knobs)
    need = Requirements(Demand.of(row, None), InputSize(0.0, 0.0), request=Request.of(row))
    filters = tuple(one for one in broker.filters if one.code in _OF_SITES)
    verdict = judge(filters, known, need, knobs)
    worth = product(broker.factors(known, need, knobs))
    order = sorted(
        np.flatnonzero(verdict.passed).tolist(),
        key=lambda at: (known.sites[at] in last, -worth[at], known.sites[at]),
    )
    by_code = {one.code: one for one in filters}
    troubles = {
        one.site: by_code[one.codes[0]].sentence(one.observed[0], one.limits[0])
        for one in refusals(verdict)
    }
    return JumboRanking([known.sites[at] for at in order], troubles)
