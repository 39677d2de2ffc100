"""What brokers decided and what they knew, so that a decision can be explained and replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, text

from jedi.spec.decision import Decision

_RECORD = text("""
WITH d AS (
  SELECT nextval('jedi_broker_decisions_decision_id_seq') AS decision_id, r.*
  FROM jsonb_to_recordset(CAST(:decisions AS jsonb)) AS r(jeditaskid bigint, broker text,
    snapshot_hash text, seed bigint, knobs jsonb, need jsonb, chosen text[], weights float8[],
    refusals jsonb)
), i AS (
  INSERT INTO jedi_broker_decisions (decision_id, jeditaskid, broker, snapshot_hash, seed, knobs,
    outcome, chosen, weights, need)
  SELECT decision_id, jeditaskid, broker, snapshot_hash, seed, knobs,
    CASE WHEN cardinality(chosen) > 0 THEN 'chosen' ELSE 'none' END, chosen, weights, need
  FROM d
)
INSERT INTO jedi_broker_reasons (decision_id, site, codes, observed, limits)
SELECT d.decision_id, r.site, r.codes, r.observed, r.limits
FROM d, jsonb_to_recordset(d.refusals)
  AS r(site text, codes text[], observed float8[], limits float8[])
""")


def record(tx: Connection, decisions: Sequence[Decision]) -> None:
    """Store decisions with the reasons for every site refused."""
    rows = json.dumps([asdict(decision) for decision in decisions], allow_nan=False)
    tx.execute(_RECORD, {"decisions": rows})


def put_snapshot(tx: Connection, snapshot_hash: str, packed: bytes) -> None:
    """Keep what brokers knew; the same knowledge is stored once."""
    tx.execute(
        text(
            "INSERT INTO jedi_snapshots (snapshot_hash, data) VALUES (:hash, :data) "
            "ON CONFLICT DO NOTHING"
        ),
        {"hash": snapshot_hash, "data": packed},
    )


_USED = text("""
SELECT t.id, d.chosen FROM unnest(CAST(:ids AS bigint[])) t(id), LATERAL (
  SELECT chosen FROM jedi_broker_decisions d
  WHERE d.jeditaskid = t.id AND d.outcome = 'chosen' AND d.broker <> 'nucleus'
  ORDER BY d.decision_id DESC LIMIT 1) d
""")


def used_sites(tx: Connection, task_ids: Sequence[int]) -> dict[int, list[str]]:
    """The sites that each task's jobs went to last."""
    rows = tx.execute(_USED, {"ids": list(task_ids)})
    return {row.id: row.chosen for row in rows}


_NUCLEUS = text("""
WITH n AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:nuclei AS text[]),
    CAST(:endpoints AS text[])) n(id, nucleus, endpoint)
), t AS (
  UPDATE jedi_tasks t SET nucleus = n.nucleus FROM n WHERE t.jeditaskid = n.id
)
UPDATE jedi_datasets d SET destination = n.endpoint FROM n
WHERE d.jeditaskid = n.id AND d.type IN ('output', 'log') AND d.destination IS NULL
""")


def assign_nuclei(tx: Connection, places: Sequence[tuple[int, str, str]]) -> None:
    """Give tasks a nucleus, and their outputs its endpoint: (task, nucleus, endpoint)."""
    tx.execute(
        _NUCLEUS,
        {
            "ids": [task_id for task_id, _, _ in places],
            "nuclei": [name for _, name, _ in places],
            "endpoints": [endpoint for _, _, endpoint in places],
        },
    )
