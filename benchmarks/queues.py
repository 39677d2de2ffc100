"""Whose turn it is among many tasks in many work queues, and the shares of these queues."""

from __future__ import annotations

from sqlalchemy import Engine

from benchmarks.common import Result, medians, run, seconds
from jedi.model.scheduling.shares import ShareNode, allot
from jedi.taskbuffer.jobs import orders
from jedi.taskbuffer.scheduling import queues, shares

QUEUES = 20
TASKS = 10_000
NEXT = 50
REPEATS = 20
GOAL_MS = 20.0

_QUEUES = f"""
INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, status,
  queue_share, criteria, variables)
SELECT q, 'queue' || q, 'managed', 'bench', q, 'active', q, 'processingType = :p1', 'p1:type' || q
FROM generate_series(1, {QUEUES}) q
"""
_TASKS = """
INSERT INTO jedi_tasks (jeditaskid, reqid, status, vo, prodsourcelabel, processingtype,
  currentpriority, workqueue_id, gshare, resource_type)
SELECT n, n, CASE n % 10 WHEN 0 THEN 'ready' ELSE 'running' END, 'bench', 'managed',
  'type' || 1 + n % {queues}, 100 + n * 7919 % 900, 1 + n % {queues}, 'queue' || 1 + n % {queues},
  'SCORE'
FROM generate_series(1, {tasks}) n
"""
_DATASETS = """
INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, nfiles,
  nfilestobeused, nfilesused)
SELECT n, n, 'bench:in', 'input', 'ready', 100, 100, CASE n % 3 WHEN 0 THEN 100 ELSE 50 END
FROM generate_series(1, {tasks}) n
"""
_SHARES = """
INSERT INTO jedi_queue_shares (queue_id, active, allocation, usage, ratio, place, turn)
SELECT queue_id, true, 10, queue_id, 0.1 * queue_id, queue_id % 7, queue_id % 7
FROM jedi_work_queue
"""


def measure(engine: Engine) -> list[Result]:
    """Each claim ends its leases again; a third of the tasks have no files left."""
    size = {"queues": QUEUES, "tasks": TASKS}
    quoted = _QUEUES.replace(":p1", r"\:p1").replace("p1:type", r"p1\:type")
    run(engine, quoted, _TASKS.format(**size), _DATASETS.format(**size), _SHARES, "ANALYZE")

    def choose() -> float:
        with engine.connect() as tx:
            held: list[orders.Claimed] = []
            took = seconds(lambda: held.extend(orders.claim(tx, "bench", 60.0, NEXT)))
            assert len(held) == NEXT
            tx.rollback()
        return took

    def share() -> float:
        def work() -> None:
            with engine.begin() as tx:
                rows = shares.READ.rows(tx, files=False)
                nodes = [
                    ShareNode(
                        r.queue_id,
                        r.partitionid,
                        r.queue_share,
                        bool(r.stretchable),
                        r.active,
                        r.usage,
                        r.demand,
                    )
                    for r in rows
                ]
                allot(nodes, 1000.0, by_demand=False)

        return seconds(work)

    def match() -> float:
        documents = [{"jeditaskid": n} for n in range(1, 101)]

        def work() -> None:
            with engine.begin() as tx:
                found = queues.match(tx, documents, [None] * len(documents))
                assert all(one.queue for one in found)

        return seconds(work)

    took = medians({"next": choose, "shares": share, "match": match}, REPEATS)
    ms = {name: 1000 * time for name, time in took.items()}
    return [
        Result(
            f"next {NEXT} of {TASKS} tasks in {QUEUES} queues",
            "claims/s",
            1 / took["next"],
            floor=1000 / GOAL_MS,
            goal=1.0,
            note=f"{ms['next']:.1f} ms, {GOAL_MS:.0f} are allowed",
        ),
        Result(
            f"shares of {QUEUES} queues with {TASKS} tasks",
            "runs/s",
            1 / took["shares"],
            note=f"{ms['shares']:.1f} ms",
        ),
        Result(f"work queues of 100 tasks, {QUEUES} criteria", "tasks/s", 100 / took["match"]),
    ]
