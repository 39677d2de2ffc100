"""jedi_sites, their storage endpoints, and the history of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.model.sites.link_file import LinkMetric
from jedi.taskbuffer.db.statement import Columns, changes, returns

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


_DELETE_RELATIONS = changes("DELETE FROM jedi_site_endpoints WHERE site = ANY(:sites)")
_INSERT_RELATIONS = changes("""
INSERT INTO jedi_site_endpoints SELECT r.* FROM unnest(CAST(:rows AS text[])) row,
  jsonb_populate_record(NULL::jedi_site_endpoints, CAST(row AS jsonb)) r
""")


def put_relations(
    tx: Connection, relations: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[AttributeChange]:
    """By site, all its endpoints: complete rows of jedi_site_endpoints, but for the site."""
    before = dict(_RELATIONS.rows(tx, sites=list(relations)))
    _DELETE_RELATIONS.run(tx, sites=list(relations))
    rows = [{"site": site, **row} for site, several in relations.items() for row in several]
    _INSERT_RELATIONS.run(tx, rows=[json.dumps(row) for row in rows])
    after = dict(_RELATIONS.rows(tx, sites=list(relations)))
    return [
        AttributeChange(site, "endpoints", before.get(site), after.get(site))
        for site in relations
        if before.get(site) != after.get(site)
    ]


_NOTE_CHANGES = changes("""
INSERT INTO jedi_sites_history (site, attribute, oldvalue, newvalue, username, comment)
SELECT site, attribute, old, new, :user, :comment
FROM ROWS FROM (jsonb_to_recordset(CAST(:changes AS jsonb))
  AS (site text, attribute text, old text, new text)) WITH ORDINALITY
  AS c(site, attribute, old, new, nr) ORDER BY nr
""")


def note_changes(
    tx: Connection, changes: Sequence[AttributeChange], user_name: str, comment: str | None
) -> None:
    """Write changes down, with who made them and why."""
    if changes:
        said = json.dumps([asdict(one) for one in changes])
        _NOTE_CHANGES.run(tx, changes=said, user=user_name, comment=comment)


ALL_SITES = returns(Columns)("""
-- Every site, with the names of its endpoints, first choice first.
SELECT s.*, ARRAY(SELECT e.ddm_endpoint FROM jedi_site_endpoints e
WHERE e.site = s.site ORDER BY e.default_write DESC, e.order_write,
  e.ddm_endpoint) AS endpoints FROM jedi_sites s ORDER BY s.site
""")

ALL_ENDPOINTS = returns(Columns)("""
-- Every endpoint, with the names of the sites that use it.
SELECT d.*, ARRAY(SELECT DISTINCT e.site FROM jedi_site_endpoints e
WHERE e.ddm_endpoint = d.ddm_endpoint ORDER BY e.site) AS sites
FROM jedi_ddm_endpoints d ORDER BY d.ddm_endpoint
""")


_PUT_LINKS = changes("""
INSERT INTO jedi_network_matrix (src, dst, key, value)
SELECT * FROM unnest(CAST(:src AS text[]), CAST(:dst AS text[]),
  CAST(:keys AS text[]), CAST(:figures AS float8[]))
ON CONFLICT (src, dst, key) DO UPDATE SET value = excluded.value, ts = jedi_now()
""")


def put_links(tx: Connection, figures: Sequence[LinkMetric]) -> None:
    """Insert or update figures of links, as measured now; of a figure given twice the last."""
    last = dict(sorted({(one.src, one.dst, one.key): one.value for one in figures}.items()))
    _PUT_LINKS.run(
        tx,
        src=[src for src, _, _ in last],
        dst=[dst for _, dst, _ in last],
        keys=[key for _, _, key in last],
        figures=list(last.values()),
    )


class LinkFigure(NamedTuple):
    """A figure of a link, and when it was measured."""

    src: str
    dst: str
    key: str
    value: float | None
    ts: datetime


ALL_LINKS = returns(LinkFigure)("""
-- Figures of links, of all places or from and to one.
SELECT src, dst, key, value, ts FROM jedi_network_matrix
WHERE CAST(:place AS text) IS NULL OR :place IN (src, dst) ORDER BY 1, 2, 3
""")


ROOTS = returns(tuple[str, str])("""
-- The root directory of each endpoint that has one.
SELECT ddm_endpoint, path FROM jedi_ddm_endpoints WHERE path IS NOT NULL ORDER BY ddm_endpoint
""")


WITH_SPACE = returns(str)("""
-- The endpoints of which somebody has noted how much is free.
SELECT ddm_endpoint FROM jedi_ddm_endpoints WHERE space_free IS NOT NULL
""")


NUCLEI = returns(str)("""
-- Nuclei of this machine, which runs their pilots, or of a grid: their storage has no directory
-- that this machine knows.
SELECT site FROM jedi_sites s WHERE role = 'nucleus' AND (submitter = 'local') = :here
AND (SELECT bool_or(d.path IS NOT NULL) FROM jedi_site_endpoints e
  JOIN jedi_ddm_endpoints d USING (ddm_endpoint) WHERE e.site = s.site) = :here
ORDER BY site
""")


class StoragePlace(NamedTuple):
    """An endpoint with its root directory. `buffer` is the disk that takes what is staged from
    tape: the first one of the same site, else of any, that has a root directory."""

    ddm_endpoint: str
    path: str
    buffer: str | None


PLACES = returns(StoragePlace)("""
-- The endpoints that have a root directory: each process asks for them with its heartbeats.
SELECT t.ddm_endpoint, t.path, CASE WHEN t.is_tape THEN (
  SELECT d.ddm_endpoint FROM jedi_ddm_endpoints d WHERE d.path IS NOT NULL AND NOT d.is_tape
  ORDER BY NOT EXISTS (
    SELECT FROM jedi_site_endpoints a JOIN jedi_site_endpoints b USING (site)
    WHERE a.ddm_endpoint = t.ddm_endpoint AND b.ddm_endpoint = d.ddm_endpoint), d.ddm_endpoint
  LIMIT 1) END AS buffer
FROM jedi_ddm_endpoints t WHERE t.path IS NOT NULL ORDER BY t.ddm_endpoint
""")


_NOTE_SPACE = changes("""
UPDATE jedi_ddm_endpoints d SET space_free = m.free, space_total = m.total,
  space_used = m.total - m.free, space_timestamp = jedi_now()
FROM unnest(CAST(:names AS text[]), CAST(:free AS float8[]),
  CAST(:total AS float8[])) m(name, free, total) WHERE d.ddm_endpoint = m.name
""")


def note_space(tx: Connection, measured: Mapping[str, tuple[float, float]]) -> None:
    """By endpoint: how much is free, and how much there is in all, in GB, as measured now."""
    _NOTE_SPACE.run(
        tx,
        names=list(measured),
        free=[free for free, _ in measured.values()],
        total=[total for _, total in measured.values()],
    )


HISTORY = returns(Columns)("""
-- The last changes of a site, newest first.
SELECT modificationtime, username, attribute, oldvalue, newvalue, comment
FROM jedi_sites_history WHERE site = :site ORDER BY change_id DESC LIMIT :limit
""")


_RELATIONS = returns(tuple[str, str])("""
SELECT site, string_agg(CAST(to_jsonb(e) - 'site' AS text), ' '
ORDER BY ddm_endpoint, scope) AS said FROM jedi_site_endpoints e
WHERE site = ANY(:sites) GROUP BY site
""")


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
    created = returns(str)(_CREATE.format(table=table, key=key)).rows(tx, names=names)
    columns = [column.name for column in metadata.tables[table].columns]
    values = ["jedi_now()" if name == "modificationtime" else f"r.{name}" for name in columns]
    pieces = {
        "table": table,
        "key": key,
        "columns": ", ".join(columns),
        "values": ", ".join(values),
    }
    merge = returns(tuple[str, str, str, str])(_MERGE.format(**pieces))
    patched = [json.dumps(dict(patches[name])) for name in names]
    changed = merge.rows(tx, names=names, patches=patched)
    return [*((name, key, None, name) for name in created), *changed]
