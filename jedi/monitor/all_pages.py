"""All pages, in the order of the menu."""

from __future__ import annotations

from jedi.monitor.pages import (
    agents,
    audit,
    decisions,
    job,
    jobs,
    knobs,
    me,
    overview,
    past,
    queues,
    sites,
    task,
    tasks,
)
from jedi.monitor.table import PAGES as _ENTERED

__all__ = ["MODULES", "PAGES"]
MODULES = (
    overview,
    tasks,
    task,
    jobs,
    job,
    sites,
    queues,
    decisions,
    agents,
    knobs,
    audit,
    me,
    past,
)
_PLACES = {module.__name__: place for place, module in enumerate(MODULES)}
PAGES = dict(sorted(_ENTERED.items(), key=lambda one: _PLACES[one[1].run.__module__]))
