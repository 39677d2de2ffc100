"""The world as brokers see it, read in a constant number of statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.sites.snapshot import Snapshot
from jedi.taskbuffer.db.sql_lists import JOB_TO_START
from jedi.taskbuffer.db.statement import Columns, returns

FRESH = {
    "production_queued": "1 hour",
    "express_queued": "1 hour",
    "mbps_1h": "1 hour",
    "mbps_1d": "1 day",
    "mbps_1w": "1 week",
    "closeness": "10 years",
}
"""Measurements of links, with the time while each counts."""
FIGURES = {
    "closeness": ("closeness",),
    "production_queued": ("production_queued",),
    "express_queued": ("express_queued",),
    "mb_s": ("mbps_1h", "mbps_1d", "mbps_1w"),
}
"""Figures of links for brokers; the first measurement that is fresh counts."""


def _on(what: str) -> str:
    return f"coalesce(d.detailed_status ->> '{what}', 'ON') NOT IN ('OFF', 'TEST')"


def _figure(column: str, least: str = ">= 0") -> str:
    """A figure that means something, else NULL: not NaN, infinite, or below `least`."""
    return f"CASE WHEN {column} {least} AND {column} <= 1e12 THEN {column} END"


def _listed(what: str) -> str:
    """A list of catchall, joined; text stands for itself, false for nothing."""
    return (
        f"CASE jsonb_typeof(s.catchall -> '{what}') WHEN 'array' THEN (SELECT string_agg(w, ',') "
        f"FROM jsonb_array_elements_text(s.catchall -> '{what}') w) "
        f"ELSE coalesce(nullif(s.catchall ->> '{what}', 'false'), '') END"
    )


def _flag(what: str) -> str:
    """Something true of catchall: no list, and not 0 or empty."""
    return (
        f"((jsonb_typeof(s.catchall -> '{what}') IN ('boolean', 'number', 'string') "
        f"AND s.catchall ->> '{what}' NOT IN ('false', '0', '')) IS TRUE)::int::float8"
    )


# Ages in minutes and room in GB: a snapshot that says nothing new is stored once.
_SITES = returns(Columns)(f"""
WITH e AS (
  SELECT e.*, {_on("read_lan")} AS read_lan, {_on("write_lan")} AS write_lan,
    {_on("read_wan")} AS read_wan, {_on("write_wan")} AS write_wan,
    {_figure("d.space_free")} + coalesce({_figure("d.space_expired")}, 0) AS free,
    {_figure("d.space_total")} AS total, coalesce({_figure("d.space_min_free")}, 0) AS least,
    coalesce({_figure("d.space_unavailable")}, 0) AS unavailable
  FROM jedi_site_endpoints e JOIN jedi_ddm_endpoints d USING (ddm_endpoint)
), r AS (
  SELECT site, array_agg(ddm_endpoint ORDER BY default_read DESC, order_read, ddm_endpoint)
      AS endpoints, bool_or(read_lan) AS reads_lan, bool_or(write_wan) AS gets_wan
  FROM e WHERE is_local AND roles LIKE '%read%' GROUP BY site
), o AS (
  SELECT site, bool_or(write_lan) AS writes_lan, bool_or(read_wan) AS sends_wan
  FROM e WHERE roles LIKE '%write%' GROUP BY site
), w AS (
  SELECT DISTINCT ON (site) * FROM e WHERE roles LIKE '%write%'
  ORDER BY site, default_write DESC, order_write, ddm_endpoint
), q AS (
  SELECT dst, sum(value) AS files FROM jedi_network_matrix
  WHERE key = 'production_queued' AND value BETWEEN 0 AND 1e12
    AND ts > jedi_now() - interval '{FRESH["production_queued"]}' GROUP BY dst
), p AS (
  SELECT site, count(*) AS pilots FROM jedi_pilots WHERE endtime IS NULL GROUP BY site
), m AS (
  SELECT site, max(CASE WHEN jsonb_typeof(value) = 'number' AND value::numeric BETWEEN 0 AND 1e12
    THEN value::float8 END) AS disk_io
  FROM jedi_site_metrics WHERE metric = 'diskio' GROUP BY site
), h AS (
  SELECT site, sum(jobs) FILTER (WHERE hour >= jedi_now() - interval '1 hour') AS last_hour,
    sum(jobs) FILTER (WHERE hour >= jedi_now() - interval '1 day') / 24.0 AS last_day,
    sum(jobs) / 168.0 AS last_week
  FROM job_stats_hourly WHERE status = 'running' AND hour >= jedi_now() - interval '1 week'
  GROUP BY site
), a AS (
  SELECT site, min(since) AS waited FROM (
    SELECT site, coalesce(since, modificationtime, '1970-01-01') AS since FROM job_stats
    WHERE jobs > 0 AND status IN ({JOB_TO_START})
    UNION ALL
    SELECT site, min(modificationtime) FROM job_stats_delta WHERE status IN ({JOB_TO_START})
    GROUP BY site, workqueue, gshare, resource_type, status HAVING sum(jobs) > 0) n
  GROUP BY site
)
SELECT s.site AS sites, s.status, s.role, s.state, s.type, s.cloud, coalesce(s.tier, '') AS tier,
  coalesce(s.pandasite, '') AS grid_site, coalesce(s.fairsharepolicy, '') AS policy,
  coalesce(array_to_string(s.releases, ','), '') AS releases, {_listed("software")} AS software,
  {_listed("platforms")} AS platforms, coalesce(s.wnconnectivity, '') AS connectivity,
  s.jobseed AS job_seed, {_listed("allowed_processing")} AS allowed,
  {_listed("excluded_processing")} AS excluded, {_listed("bareNucleus")} AS full_chain,
  {_listed("useJumboJobs")} AS jumbo,
  coalesce(w.ddm_endpoint, '') AS endpoint, coalesce(r.endpoints, '{{}}') AS endpoints,
  (s.capability = 'ucore' IS TRUE)::int::float8 AS unified,
  ((s.capability = 'ucore' AND coalesce(s.catchall ->> 'workflow', 'pull_ups') = 'pull_ups')
    IS TRUE)::int::float8 AS streaming, s.corecount::float8 AS cores,
  {_figure("s.corepower")} AS core_power,
  nullif(greatest(s.maxtime, 0), 0)::float8 AS max_time_s,
  greatest(s.mintime, 0)::float8 AS min_time_s,
  nullif(greatest(s.maxrss, 0), 0)::float8 AS max_rss_mb,
  greatest(s.minrss, 0)::float8 AS min_rss_mb,
  nullif(greatest(s.maxwdir, 0), 0)::float8 AS max_wdir_mb,
  (s.maxinputsize = -1)::int::float8 AS always_direct,
  s.direct_access_lan::int::float8 AS direct_lan, s.direct_access_wan::int::float8 AS direct_wan,
  {_flag("gpu")} AS gpu, {_flag("use_only_local_data")} AS local_only,
  {_flag("allow_no_pilot")} AS no_pilots_needed,
  CASE WHEN s.catchall ->> 'minEventsForJumbo' ~ '^[0-9]{{1,9}}$'
    THEN (s.catchall ->> 'minEventsForJumbo')::float8 ELSE 0 END AS jumbo_events,
  coalesce(nullif(greatest(s.transferringlimit, 0), 0), 2000)::float8 AS transferring_limit,
  CASE WHEN s.pledgedcpu < 0 THEN -1 ELSE nullif(s.pledgedcpu, 0) END::float8 AS pledged_cores,
  {_figure("s.max_io_intensity", "> 0")} AS max_io_kb_s,
  {_figure("s.maxdiskio", "> 0")} AS max_disk_io_kb_s,
  coalesce(m.disk_io, 0) AS disk_io_kb_s,
  floor(10 * w.free) / 10 AS free_gb, floor(10 * (w.free - w.least)) / 10 AS usable_gb,
  coalesce(w.least + w.unavailable, 0) AS reserved_gb, floor(w.total) AS total_gb,
  coalesce(r.reads_lan, true)::int::float8 AS reads_lan,
  coalesce(o.writes_lan, true)::int::float8 AS writes_lan,
  coalesce(r.gets_wan, true)::int::float8 AS gets_wan,
  coalesce(o.sends_wan, true)::int::float8 AS sends_wan,
  coalesce(w.write_wan, true)::int::float8 AS takes_wan, coalesce(q.files, 0) AS queued_in,
  60 * floor(extract(epoch FROM jedi_now() - s.lastpilot) / 60)::float8 AS pilot_age_s,
  60 * floor(extract(epoch FROM jedi_now() - s.laststart) / 60)::float8 AS start_age_s,
  coalesce(60 * floor(extract(epoch FROM jedi_now() - a.waited) / 60), 0)::float8 AS wait_age_s,
  coalesce(h.last_hour, h.last_day, h.last_week)::float8 AS starts_per_h,
  coalesce(p.pilots, 0)::float8 AS workers
FROM jedi_sites s LEFT JOIN r USING (site) LEFT JOIN o USING (site) LEFT JOIN w USING (site)
  LEFT JOIN p USING (site) LEFT JOIN m USING (site) LEFT JOIN h USING (site)
  LEFT JOIN a USING (site) LEFT JOIN q ON q.dst = coalesce(s.pandasite, s.site)
ORDER BY s.site
""")


_QUEUED = returns(tuple[int, int])("""
SELECT workqueue, sum(jobs)::bigint AS jobs FROM (
  SELECT workqueue, status, jobs FROM job_stats
  UNION ALL
  SELECT workqueue, status, jobs FROM job_stats_delta) a
WHERE status = ANY(:queued) GROUP BY workqueue
""")


class JobsOfShare(NamedTuple):
    """The live jobs of a share, resource type and status: sites, and the number at each."""

    gshare: str
    resource_type: str
    status: str
    sites: list[str]
    jobs: list[float]


_JOBS = returns(JobsOfShare)("""
SELECT gshare, resource_type, status, array_agg(site) AS sites, array_agg(jobs) AS jobs
FROM (
  SELECT site, gshare, resource_type, status, sum(jobs)::float8 AS jobs FROM (
    SELECT site, gshare, resource_type, status, jobs FROM job_stats
    UNION ALL
    SELECT site, gshare, resource_type, status, jobs FROM job_stats_delta) a
  WHERE status = ANY(:live) GROUP BY 1, 2, 3, 4 HAVING sum(jobs) <> 0) s
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
""")


class SlotsOfShare(NamedTuple):
    """The slots of a share and resource type: sites, and the number at each."""

    gshare: str
    resource_type: str
    sites: list[str]
    slots: list[float]


_SLOTS = returns(SlotsOfShare)("""
SELECT m.key AS gshare, t.key AS resource_type, array_agg(s.site) AS sites,
  array_agg(CAST(t.value AS float8)) AS slots
FROM jedi_sites s, jsonb_each(CASE jsonb_typeof(s.catchall -> 'num_slots_map')
    WHEN 'object' THEN s.catchall -> 'num_slots_map' ELSE '{}' END) m,
  jsonb_each_text(CASE jsonb_typeof(m.value) WHEN 'object' THEN m.value ELSE '{}' END) t
WHERE t.value ~ '^[0-9]{1,9}$'
GROUP BY 1, 2 ORDER BY 1, 2
""")


class SpecialEndpoints(NamedTuple):
    """Endpoints on tape, endpoints without remote reading, and those that an online site reads
    together."""

    tapes: list[str]
    unreadable: list[str]
    readers: list[list[str]]


_ENDPOINTS = returns(SpecialEndpoints)(f"""
SELECT coalesce(array_agg(ddm_endpoint ORDER BY ddm_endpoint) FILTER (WHERE is_tape), '{{}}')
    AS tapes,
  coalesce(array_agg(ddm_endpoint ORDER BY ddm_endpoint) FILTER (WHERE NOT ({_on("read_wan")})),
    '{{}}') AS unreadable,
  (SELECT coalesce(jsonb_agg(DISTINCT r.names), '[]') FROM (
    SELECT jsonb_agg(DISTINCT e.ddm_endpoint) FILTER (WHERE e.roles LIKE '%read%') AS names
    FROM jedi_site_endpoints e JOIN jedi_sites s USING (site) WHERE s.status = 'online'
    GROUP BY e.site HAVING bool_or(e.roles LIKE '%write%')) r
   WHERE r.names IS NOT NULL) AS readers
FROM jedi_ddm_endpoints d WHERE is_tape OR NOT ({_on("read_wan")})
""")


def load(tx: Connection, nuclei: Collection[str] = ()) -> Snapshot:
    """Sites with their storage and their jobs, their links to these nuclei, and the jobs that wait
    in each work queue."""
    columns = _SITES.columns(tx)
    at = {site: i for i, site in enumerate(columns["sites"])}
    jobs: dict[tuple[str, ...], list[float | None]] = {
        (row.gshare, row.resource_type, row.status): _column(at, row.sites, row.jobs, 0.0)
        for row in _JOBS.rows(tx, live=list(states.JOB_LIVE))
    }
    queued = dict(_QUEUED.rows(tx, queued=list(states.JOB_QUEUED)))
    waiting = Counter({queue_id: jobs for queue_id, jobs in queued.items() if jobs})
    (endpoints,) = _ENDPOINTS.rows(tx)
    places = [place or site for place, site in zip(columns["grid_site"], at, strict=True)]
    links = _links(tx, places, {name: places[at[name]] for name in sorted(nuclei) if name in at})
    slots: dict[tuple[str, ...], list[float | None]] = {
        (row.gshare, row.resource_type): _column(at, row.sites, row.slots, None)
        for row in _SLOTS.rows(tx)
    }
    snapshot = Snapshot.of(columns, waiting, jobs, links, slots)
    return replace(
        snapshot,
        tapes=tuple(endpoints.tapes),
        unreadable=tuple(endpoints.unreadable),
        readers=tuple(map(tuple, endpoints.readers)),
    )


class LinkFigures(NamedTuple):
    """Measurements of one kind of the links to a place: their other ends, and their values."""

    dst: str
    key: str
    places: list[str]
    figures: list[float]


_LINKS = returns(LinkFigures)("""
SELECT m.dst, m.key, array_agg(m.src) AS places, array_agg(m.value) AS figures
FROM unnest(CAST(:keys AS text[]), CAST(:fresh AS interval[])) k(key, fresh)
  JOIN jedi_network_matrix m ON m.key = k.key AND m.ts > jedi_now() - k.fresh
WHERE m.dst = ANY(:places) AND m.value BETWEEN -1 AND 1e12
  AND (m.value >= 0 OR m.key = 'closeness')
GROUP BY m.dst, m.key
""")


def _links(
    tx: Connection, places: list[str], nuclei: dict[str, str]
) -> dict[tuple[str, ...], list[float | None]]:
    """Return the link measurements from sites to nuclei, at their positions."""
    if not nuclei:
        return {}
    wanted = {"keys": list(FRESH), "fresh": list(FRESH.values()), "places": list(nuclei.values())}
    known = {
        (row.dst, row.key): dict(zip(row.places, row.figures, strict=True))
        for row in _LINKS.rows(tx, **wanted)
    }
    found: dict[tuple[str, ...], list[float | None]] = {}
    for name, place in nuclei.items():
        for what, keys in FIGURES.items():
            figures: dict[str, float] = {}
            for key in reversed(keys):
                figures |= known.get((place, key), {})
            if figures:
                found[name, what] = [figures.get(source) for source in places]
    return found


def _column(
    at: dict[str, int], sites: list[str], figures: list[Any], otherwise: float | None
) -> list[float | None]:
    """Figures of some sites in the order of all; sites that are gone are left out."""
    column: list[float | None] = [otherwise] * len(at)
    for site, figure in zip(sites, figures, strict=True):
        if site in at:
            column[at[site]] = figure
    return column
