"""Facts that a process remembers while it hands out jobs: the first job that waits of each share at
a site; the site's limits and endpoints; names of datasets; the use of work queues.

Finding them takes more than a fifth of the server's time for handing out a job, and beside an old
snapshot 1 us for each job that ever waited.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import clock
from jedi.model.jobs.wire import Resources
from jedi.model.tasks.refined import EXPRESS
from jedi.taskbuffer.db.engine import prepared
from jedi.taskbuffer.db.planning import IN_ORDER
from jedi.taskbuffer.db.statement import answers
from jedi.taskbuffer.jobs.order_files import STAGING
from jedi.taskbuffer.scheduling.charges import Charges, Head

REMEMBERED_S = 1.0
"""Longest wait of a job that became more urgent."""

_prepared = prepared(
    "Each second of a site with work, and with its jobs: planning takes longer than the execution. "
    "Bound: one look at the queue's index a share, the datasets of the jobs by key.",
    IN_ORDER,
)
HEADS = answers(_prepared)(f"""
WITH RECURSIVE s AS (
  (SELECT gshare, priority, pandaid FROM jedi_job_ready WHERE site = :site
   ORDER BY gshare, priority DESC, pandaid LIMIT 1)
  UNION ALL
  SELECT n.* FROM s, LATERAL (
    SELECT gshare, priority, pandaid FROM jedi_job_ready WHERE site = :site AND gshare > s.gshare
    ORDER BY gshare, priority DESC, pandaid LIMIT 1) n
)
SELECT json_build_array(
  (SELECT json_agg(json_build_array(gshare, priority, pandaid)
    ORDER BY gshare = '{EXPRESS}' DESC, priority DESC, pandaid) FROM s),
  (SELECT json_build_array(greatest(maxwdir, 0), greatest(maxtime, 0),
    {STAGING.format(site="t.site")}) FROM jedi_sites t WHERE t.site = :site))
""")


# A dataset keeps its name and its attributes for ever.
_DATASETS = answers(_prepared)("""
SELECT json_agg(json_build_array(datasetid, datasetname,
  ('an' = ANY(string_to_array(attributes, ','))) IS TRUE))
FROM unnest(CAST(:ids AS bigint[])) i(id),
  LATERAL (SELECT * FROM jedi_datasets WHERE datasetid = i.id OFFSET 0) d
""")
DATASETS_MOST = 100_000
"""Datasets that a process remembers at a time."""


class SiteLimits(NamedTuple):
    """The scratch space and the longest wall time of a site (0: no limit), and the endpoints that
    its pilots may write to."""

    scratch_mb: int = 0
    most_s: int = 0
    endpoints: list[str] | None = None


class DatasetFacts(NamedTuple):
    """The name of a dataset; `optional`: jobs may do without their file in it."""

    name: Any
    optional: bool


class DispatchCache:
    """A process's cache of facts for handing out jobs."""

    def __init__(self) -> None:
        self.charges = Charges()
        self._known: dict[str, tuple[float, list[Head], dict[Resources, list[Head]]]] = {}
        self._sites: dict[str, SiteLimits] = {}
        self._datasets: dict[int, DatasetFacts] = {}

    def remembered(self, site: str, slot: Resources) -> list[Head]:
        """The first jobs of shares as they were up to REMEMBERED_S ago, if anybody looked, without
        shares that had too few jobs for such a slot."""
        until, heads, left = self._known.get(site, (0.0, [], {}))
        return left.get(slot, heads) if clock.monotonic() < until else []

    def note(self, site: str, slot: Resources, heads: list[Head]) -> None:
        """Note which of the remembered shares have jobs left for such a slot."""
        if site in self._known:
            self._known[site][2][slot] = heads

    def read(self, tx: Connection, site: str) -> list[Head]:
        """The first jobs of shares, urgent work before all."""
        until = clock.monotonic() + REMEMBERED_S
        found, facts = HEADS.value(tx, site=site)
        heads = [Head(*one) for one in found or ()]
        self._sites[site] = SiteLimits(*facts or ())
        self._known[site] = until, heads, {}
        return heads

    def facts(self, site: str) -> SiteLimits:
        """The facts of a site as of the last `read`."""
        return self._sites[site]

    def datasets(self, tx: Connection, ids: Set[int]) -> Mapping[int, DatasetFacts]:
        """The facts of these datasets, perhaps among others."""
        known = self._datasets
        if len(known) > DATASETS_MOST:
            known = self._datasets = {}
        if missing := [one for one in ids if one not in known]:
            for one, name, optional in _DATASETS.value(tx, ids=missing) or ():
                known[one] = DatasetFacts(name, optional)
        return known
