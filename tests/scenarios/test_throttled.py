"""Work queues with limits of their own, on a real system: two generators, pilots that take time."""

# Raw UPDATEs: shares of queues have no verb for a running test.

from __future__ import annotations

import pytest
from scenarios.real_system import System
from sqlalchemy import text

pytestmark = pytest.mark.long

CAP = 10


@pytest.fixture(scope="module")
def capped(system: System) -> System:
    """The work queue of production has a share and an NQUEUECAP."""
    with system.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_work_queue SET queue_share = 10, "
                "caps = jsonb_build_object('NQUEUECAP', CAST(:cap AS int)) "
                "WHERE queue_name = 'managed'"
            ),
            {"cap": CAP},
        )
    return system


def most_waiting(system: System, *tasks: int) -> int:
    """How many jobs were made and no pilot had them yet, at most at a time."""
    with system.engine.begin() as tx:
        found = tx.execute(
            text(
                "SELECT creationtime AS at, 1 AS n FROM jedi_jobs "
                "WHERE jeditaskid = ANY(:t) UNION ALL "
                "SELECT modificationtime, -1 FROM jedi_jobs_statuslog "
                "WHERE status = 'sent' AND jeditaskid = ANY(:t)"
            ),
            {"t": list(tasks)},
        ).all()
    most = now = 0
    for row in sorted(found, key=lambda row: (row.at, row.n)):
        now += row.n
        most = max(most, now)
    return most


def test_a_cap_holds_for_tasks_as_urgent_as_what_is_queued(capped: System) -> None:
    """JEDI document, "Job throttling": "A max queued cap exists: cap/5" – two jobs at once –, and
    none while more than the cap are queued: of 32 jobs of equal priority twelve wait at most."""
    kind = {"prodSourceLabel": "managed", "taskType": "prod", "taskPriority": 500}
    inputs = {name: capped.texts(name, 16, "DISK_A") for name in ("user:one", "user:two")}
    tasks = [capped.copying(name, "sleep 0.4; cat", nFilesPerJob=1, **kind) for name in inputs]
    assert capped.settle(*tasks) == ["done", "done"]
    for task, lines in zip(tasks, inputs.values(), strict=True):
        assert capped.lines(task) == lines
    assert 1 < most_waiting(capped, *tasks) <= CAP + CAP // 5
    capped.check()
