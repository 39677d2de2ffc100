"""The world as brokers see it, read in two statements."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, text

from jedi.core import states
from jedi.spec.snapshot import Snapshot

# Ages in minutes and room in GB: a snapshot that says nothing new is stored once.
_SITES = text("""
SELECT s.site AS sites, s.status, s.role, s.state,
  coalesce(w.ddm_endpoint, '') AS endpoint, coalesce(r.endpoints, '{}') AS endpoints,
  greatest(s.corecount, 1)::float8 AS cores,
  coalesce(nullif(s.corepower, 0), 10) AS core_power,
  nullif(s.maxtime, 0)::float8 AS max_time_s, s.mintime::float8 AS min_time_s,
  nullif(s.maxrss, 0)::float8 AS max_rss_mb, s.minrss::float8 AS min_rss_mb,
  nullif(s.maxwdir, 0)::float8 AS max_wdir_mb, w.usable_gb,
  60 * floor(extract(epoch FROM jedi_now() - s.lastpilot) / 60)::float8 AS pilot_age_s
FROM jedi_sites s LEFT JOIN LATERAL (
  SELECT array_agg(e.ddm_endpoint ORDER BY e.default_read DESC, e.order_read, e.ddm_endpoint)
    AS endpoints
  FROM jedi_site_endpoints e WHERE e.site = s.site AND e.is_local AND e.roles LIKE '%read%'
) r ON true LEFT JOIN LATERAL (
  SELECT e.ddm_endpoint,
    floor(d.space_free + coalesce(d.space_expired, 0) - coalesce(d.space_min_free, 0)) AS usable_gb
  FROM jedi_site_endpoints e JOIN jedi_ddm_endpoints d USING (ddm_endpoint)
  WHERE e.site = s.site AND e.roles LIKE '%write%'
  ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint LIMIT 1
) w ON true
ORDER BY s.site
""")

_JOBS = text("""
SELECT site, workqueue,
  coalesce(sum(jobs) FILTER (WHERE status = ANY(:at_site)), 0)::bigint AS running,
  coalesce(sum(jobs) FILTER (WHERE status = 'activated'), 0)::bigint AS activated,
  coalesce(sum(jobs) FILTER (WHERE status = ANY(:before)), 0)::bigint AS defined
FROM (
  SELECT site, workqueue, status, jobs FROM job_stats
  UNION ALL
  SELECT site, workqueue, status, jobs FROM job_stats_delta
) s WHERE status = ANY(:live) GROUP BY site, workqueue
""")
_BEFORE = [s for s in states.JOB_QUEUED if s != "activated"]
_LIVE = [*states.JOB_QUEUED, *states.JOB_AT_SITE]


def load(tx: Connection) -> Snapshot:
    """Sites with their storage and their jobs; the jobs that wait in each work queue."""
    found = tx.execute(_SITES)
    rows = found.all()
    columns = {name: [row[i] for row in rows] for i, name in enumerate(found.keys())}
    jobs = tx.execute(
        _JOBS, {"at_site": list(states.JOB_AT_SITE), "before": _BEFORE, "live": _LIVE}
    ).all()
    queued: Counter[int] = Counter()
    counts = {kind: Counter[str]() for kind in ("running", "activated", "defined")}
    for row in jobs:
        queued[row.workqueue] += row.activated + row.defined
        for kind, by_site in counts.items():
            by_site[row.site] += row._mapping[kind]
    for kind, by_site in counts.items():
        columns[kind] = [by_site[site] for site in columns["sites"]]
    return Snapshot.of(columns, dict(queued))
