"""A criterion of a broker, as data: the figure of each site, its comparison, the words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isinf

import numpy as np

from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot

SiteColumn = Callable[[Snapshot, Requirements, Knobs], Numbers | float]
Compare = Callable[[Numbers, Numbers], Bools]


When = Callable[[Requirements, Knobs], bool]
Strict = Callable[[Knobs], bool]


def always(_need: Requirements, _knobs: Knobs) -> bool:
    """The criterion holds for every task."""
    return True


def _at_limit_passes(_knobs: Knobs) -> bool:
    """Leave it to `keep` whether a site at the limit passes."""
    return False


def not_asked(need: Requirements, _knobs: Knobs) -> bool:
    """The criterion holds unless the task names its sites."""
    return not need.sites


@dataclass(frozen=True, slots=True)
class Filter:
    """Sites pass where `keep(observed, limit)`, all of them where `when` is false; where `strict`,
    sites exactly at the limit fail. `say` is the sentence about a refused site, with {observed} and
    {limit}, `unknown` the one where one of them is not known: it is infinite, or the limit 0;
    `remedy` is the advice. A lasting reason needs a person's change, others pass with time."""

    code: str
    observed: SiteColumn
    keep: Compare
    limit: SiteColumn
    say: str
    remedy: str
    unit: str = ""
    lasting: bool = True
    when: When = always
    strict: Strict = _at_limit_passes
    unknown: str = ""

    def sentence(self, observed: float | None, limit: float | None) -> str:
        """The sentence about a site that was refused with these figures; None: infinite."""
        observed, limit = (inf if one is None else one for one in (observed, limit))
        lacks = self.unknown and (not limit or isinf(observed))
        return (self.unknown if lacks else self.say).format(observed=observed, limit=limit)


def wanted(
    code: str,
    test: Callable[[Snapshot, Requirements, Knobs], Bools | Numbers],
    say: str,
    remedy: str,
    *,
    lasting: bool = True,
    when: When = always,
) -> Filter:
    """A criterion without a figure: sites pass where the test is true."""
    return Filter(
        code=code,
        observed=lambda sites, need, knobs: test(sites, need, knobs).astype(float),
        keep=np.greater_equal,
        limit=lambda _sites, _need, _knobs: 1.0,
        say=say,
        remedy=remedy,
        lasting=lasting,
        when=when,
    )
