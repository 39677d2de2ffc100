"""jedi_sites, their storage endpoints, and the history of both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from jedi.spec.sites.link_file import LinkMetric
from jedi.taskbuffer.db.rows import dict_of, rows_of

Patches = Mapping[str, Mapping[str, Any]]
"""By name of a row: the columns to set (SQL names, JSON values). Others stay as they are."""

SPACES = """(
  SELECT jsonb_object_agg(site, ddm_endpoint) FROM (
    SELECT DISTINCT ON (e.site) e.site, ddm_endpoint
    FROM jedi_site_endpoints e JOIN jedi_ddm_endpoints p USING (ddm_endpoint)
    WHERE p.token = d.storagetoken AND e.roles LIKE '%write%'
    ORDER BY e.site, e.default_write DESC, e.order_write, ddm_endpoint) s
)"""
"""The endpoints with the storage token of a dataset `d`, by site."""

WRITE_PLACE = """(
  SELECT e.ddm_endpoint FROM jedi_site_endpoints e JOIN jedi_ddm_endpoints USING (ddm_endpoint)
  WHERE e.site = {site} AND e.roles LIKE '%write%'
  ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint LIMIT 1)"""
"""The endpoint where a site writes; NULL: nowhere."""

READ_PLACE = f"""CASE WHEN EXISTS (
    SELECT FROM jedi_site_endpoints e WHERE e.site = {{site}} AND e.ddm_endpoint = {{endpoint}}
      AND e.is_local AND e.roles LIKE '%read%')
  THEN {{endpoint}} ELSE coalesce({WRITE_PLACE}, {{endpoint}}) END"""
"""The endpoint where jobs of a site read a file that other jobs read at `endpoint`: the same if it
is the site's, else where the Mover brings it."""

OUTPUT_PLACE = f"""coalesce(d.destination, (
    SELECT e.ddm_endpoint FROM jedi_site_endpoints e JOIN jedi_ddm_endpoints p USING (ddm_endpoint)
    WHERE e.site = {{site}} AND p.token = d.storagetoken AND e.roles LIKE '%write%'
    ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint LIMIT 1),
  {WRITE_PLACE})"""
"""The endpoint where files of a dataset `d` go that jobs of a site make."""


@dataclass(frozen=True, slots=True)
class AttributeChange:
    """An attribute that was set to another value; values as text, None: not set."""

    site: str
    attribute: str
    old: str | None
    new: str | None


def put_sites(tx: Connection, patches: Patches) -> list[AttributeChange]:
    """Insert or update sites; new ones begin with the defaults of the columns."""
    return [AttributeChange(*row) for row in _merge(tx, "jedi_sites", "site", patches)]


def put_endpoints(
    tx: Connection, patches: Patches, owners: Mapping[str, str]
) -> list[AttributeChange]:
    """Insert or update endpoints; `owners` names the site in whose history changes go."""
    return [
        AttributeChange(owners[name], f"{name}.{attribute}", old, new)
        for name, attribute, old, new in _merge(tx, "jedi_ddm_endpoints", "ddm_endpoint", patches)
    ]


_DELETE_RELATIONS = text("DELETE FROM jedi_site_endpoints WHERE site = ANY(:sites)")
_INSERT_RELATIONS = text("""
INSERT INTO jedi_site_endpoints SELECT r.* FROM unnest(CAST(:rows AS text[])) row,
  jsonb_populate_record(NULL::jedi_site_endpoints, CAST(row AS jsonb)) r
""")


def put_relations(
    tx: Connection, relations: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[AttributeChange]:
    """By site, all its endpoints: complete rows of jedi_site_endpoints, but for the site."""
    before = _relations(tx, relations)
    tx.execute(_DELETE_RELATIONS, {"sites": list(relations)})
    rows = [{"site": site, **row} for site, several in relations.items() for row in several]
    tx.execute(_INSERT_RELATIONS, {"rows": [json.dumps(row) for row in rows]})
    after = _relations(tx, relations)
    return [
        AttributeChange(site, "endpoints", before.get(site), after.get(site))
        for site in relations
        if before.get(site) != after.get(site)
    ]


_NOTE_CHANGES = text("""
INSERT INTO jedi_sites_history
  (site, attribute, oldvalue, newvalue, username, comment)
VALUES (:site, :attribute, :old, :new, :user, :comment)
""")


def note_changes(
    tx: Connection, changes: Sequence[AttributeChange], user_name: str, comment: str | None
) -> None:
    """Write changes down, with who made them and why."""
    if changes:
        tx.execute(
            _NOTE_CHANGES,
            [{**asdict(change), "user": user_name, "comment": comment} for change in changes],
        )


_ALL_SITES = text("""
SELECT s.*, ARRAY(SELECT e.ddm_endpoint FROM jedi_site_endpoints e
WHERE e.site = s.site ORDER BY e.default_write DESC, e.order_write,
  e.ddm_endpoint) AS endpoints FROM jedi_sites s ORDER BY s.site
""")


def all_sites(tx: Connection) -> list[dict[str, Any]]:
    """Every site, with the names of its endpoints, first choice first."""
    return [dict(row) for row in tx.execute(_ALL_SITES).mappings()]


_ALL_ENDPOINTS = text("""
SELECT d.*, ARRAY(SELECT DISTINCT e.site FROM jedi_site_endpoints e
WHERE e.ddm_endpoint = d.ddm_endpoint ORDER BY e.site) AS sites
FROM jedi_ddm_endpoints d ORDER BY d.ddm_endpoint
""")


def all_endpoints(tx: Connection) -> list[dict[str, Any]]:
    """Every endpoint, with the names of the sites that use it."""
    return [dict(row) for row in tx.execute(_ALL_ENDPOINTS).mappings()]


_PUT_LINKS = text("""
INSERT INTO jedi_network_matrix (src, dst, key, value)
SELECT * FROM unnest(CAST(:src AS text[]), CAST(:dst AS text[]),
  CAST(:keys AS text[]), CAST(:figures AS float8[]))
ON CONFLICT (src, dst, key) DO UPDATE SET value = excluded.value, ts = jedi_now()
""")


def put_links(tx: Connection, figures: Sequence[LinkMetric]) -> None:
    """Insert or update figures of links, as measured now; of a figure given twice the last."""
    last = dict(sorted({(one.src, one.dst, one.key): one.value for one in figures}.items()))
    tx.execute(
        _PUT_LINKS,
        {
            "src": [src for src, _, _ in last],
            "dst": [dst for _, dst, _ in last],
            "keys": [key for _, _, key in last],
            "figures": list(last.values()),
        },
    )


_ALL_LINKS = text("""
SELECT src, dst, key, value, ts FROM jedi_network_matrix
WHERE CAST(:place AS text) IS NULL OR :place IN (src, dst) ORDER BY 1, 2, 3
""")


class LinkFigure(NamedTuple):
    """A figure of a link, and when it was measured."""

    src: str
    dst: str
    key: str
    value: float | None
    ts: datetime


def all_links(tx: Connection, place: str | None) -> list[LinkFigure]:
    """Figures of links, of all places or from and to one."""
    return rows_of(LinkFigure, tx.execute(_ALL_LINKS, {"place": place}))


_ROOTS = text(
    "SELECT ddm_endpoint, path FROM jedi_ddm_endpoints WHERE path IS NOT NULL ORDER BY ddm_endpoint"
)


def roots(tx: Connection) -> dict[str, str]:
    """The root directory of each endpoint that has one."""
    return dict_of(str, str, tx.execute(_ROOTS))


_WITH_SPACE = text("SELECT ddm_endpoint FROM jedi_ddm_endpoints WHERE space_free IS NOT NULL")


def with_space(tx: Connection) -> set[str]:
    """The endpoints of which somebody has noted how much is free."""
    return set(tx.scalars(_WITH_SPACE))


_NUCLEI = text("""
SELECT site FROM jedi_sites s WHERE role = 'nucleus' AND (submitter = 'local') = :here
AND (SELECT bool_or(d.path IS NOT NULL) FROM jedi_site_endpoints e
  JOIN jedi_ddm_endpoints d USING (ddm_endpoint) WHERE e.site = s.site) = :here
ORDER BY site
""")


def nuclei(tx: Connection, *, here: bool) -> list[str]:
    """Nuclei of this machine, which runs their pilots, or of a grid: their storage has no directory
    that this machine knows."""
    return list(tx.scalars(_NUCLEI, {"here": here}))


_PLACES = text("""
SELECT t.ddm_endpoint, t.path, CASE WHEN t.is_tape THEN (
  SELECT d.ddm_endpoint FROM jedi_ddm_endpoints d WHERE d.path IS NOT NULL AND NOT d.is_tape
  ORDER BY NOT EXISTS (
    SELECT FROM jedi_site_endpoints a JOIN jedi_site_endpoints b USING (site)
    WHERE a.ddm_endpoint = t.ddm_endpoint AND b.ddm_endpoint = d.ddm_endpoint), d.ddm_endpoint
  LIMIT 1) END AS buffer
FROM jedi_ddm_endpoints t WHERE t.path IS NOT NULL ORDER BY t.ddm_endpoint
""")


class StoragePlace(NamedTuple):
    """An endpoint with its root directory. `buffer` is the disk that takes what is staged from
    tape: the first one of the same site, else of any, that has a root directory."""

    ddm_endpoint: str
    path: str
    buffer: str | None


def places(tx: Connection) -> list[StoragePlace]:
    """Return the endpoints that have a root directory: each process asks for them with its
    heartbeats."""
    return rows_of(StoragePlace, tx.execute(_PLACES))


_NOTE_SPACE = text("""
UPDATE jedi_ddm_endpoints d SET space_free = m.free, space_total = m.total,
  space_used = m.total - m.free, space_timestamp = jedi_now()
FROM unnest(CAST(:names AS text[]), CAST(:free AS float8[]),
  CAST(:total AS float8[])) m(name, free, total) WHERE d.ddm_endpoint = m.name
""")


def note_space(tx: Connection, measured: Mapping[str, tuple[float, float]]) -> None:
    """By endpoint: how much is free, and how much there is in all, in GB, as measured now."""
    tx.execute(
        _NOTE_SPACE,
        {
            "names": list(measured),
            "free": [free for free, _ in measured.values()],
            "total": [total for _, total in measured.values()],
        },
    )


_HISTORY = text("""
SELECT modificationtime, username, attribute, oldvalue, newvalue, comment
FROM jedi_sites_history WHERE site = :site ORDER BY change_id DESC LIMIT :limit
""")


def history(tx: Connection, site: str, limit: int) -> list[dict[str, Any]]:
    """The last changes of a site, newest first."""
    rows = tx.execute(_HISTORY, {"site": site, "limit": limit}).mappings()
    return [dict(row) for row in rows]


_RELATIONS = text("""
SELECT site, string_agg(CAST(to_jsonb(e) - 'site' AS text), ' '
ORDER BY ddm_endpoint, scope) AS said FROM jedi_site_endpoints e
WHERE site = ANY(:sites) GROUP BY site
""")


def _relations(tx: Connection, sites: Iterable[str]) -> dict[str, str]:
    return dict_of(str, str, tx.execute(_RELATIONS, {"sites": list(sites)}))


_MERGE = """
WITH p AS (
  SELECT name, CAST(patch AS jsonb) AS patch
  FROM unnest(CAST(:names AS text[]), CAST(:patches AS text[])) AS p(name, patch)
), old AS (
  SELECT o.{key} AS name, to_jsonb(o) AS was FROM {table} o JOIN p ON o.{key} = p.name
  ORDER BY o.{key} FOR UPDATE OF o
), changed AS (
  SELECT p.name, e.key, old.was -> e.key AS old, e.value AS new
  FROM p JOIN old USING (name), jsonb_each(p.patch) e WHERE old.was -> e.key <> e.value
), u AS (
  UPDATE {table} t
  SET ({columns}) = (SELECT {values} FROM jsonb_populate_record(t, p.patch) r)
  FROM p WHERE t.{key} = p.name AND p.name IN (SELECT name FROM changed)
)
SELECT name, key, old #>> '{{}}', new #>> '{{}}' FROM changed ORDER BY name, key
"""
_CREATE = """
INSERT INTO {table} ({key}) SELECT unnest(CAST(:names AS text[]))
ON CONFLICT DO NOTHING RETURNING {key}
"""


def _merge(
    tx: Connection, table: str, key: str, patches: Patches
) -> list[tuple[str, str, str | None, str | None]]:
    """Make sure of the rows, then set what differs: (name, column, old, new), new rows first."""
    from jedi.taskbuffer.schema.tables import metadata  # 50 ms that no agent needs

    names = sorted(patches)
    created = tx.scalars(text(_CREATE.format(table=table, key=key)), {"names": names}).all()
    columns = [column.name for column in metadata.tables[table].columns]
    values = ["jedi_now()" if name == "modificationtime" else f"r.{name}" for name in columns]
    pieces = {
        "table": table,
        "key": key,
        "columns": ", ".join(columns),
        "values": ", ".join(values),
    }
    merge = text(_MERGE.format(**pieces))
    changes = [json.dumps(dict(patches[name])) for name in names]
    changed = tx.execute(merge, {"names": names, "patches": changes})
    return [*((name, key, None, name) for name in created), *(tuple(row) for row in changed)]
