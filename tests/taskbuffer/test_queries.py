"""JEDI document, "Typical usages": they run, and none scans all tasks or all files.

100,000 tasks, most of them long done; 1.1 million files, a tenth of them in one large task.
"""

# Raw UPDATEs: plans and write amplification of single statements are measured.

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text
from support.databases import drop_database, new_database

from jedi.taskbuffer.db.engine import connect

pytestmark = pytest.mark.long

FILL = (
    """
INSERT INTO jedi_tasks (jeditaskid, reqid, status, username, vo, tasktype, workinggroup,
    processingtype, taskname, currentpriority, creationdate, lockedby, lockedtime)
SELECT n, n,
    CASE WHEN n % 100 < 85 THEN 'done' WHEN n % 100 < 92 THEN 'finished'
         WHEN n % 100 < 96 THEN 'failed' WHEN n % 100 = 96 THEN 'broken'
         WHEN n % 100 = 97 THEN 'aborted' WHEN n % 100 = 98 THEN 'running'
         ELSE (ARRAY['ready', 'registered', 'defined', 'pending', 'scouting'])[m % 5 + 1] END,
    'user' || least(m % 300, m % 17), 'atlas', CASE WHEN m % 4 = 0 THEN 'prod' ELSE 'anal' END,
    'group' || m % 19, (ARRAY['evgen', 'simul', 'reco', 'merge'])[m % 7 % 4 + 1],
    'task.' || n, 100 * (n % 10), jedi_now() - (100000 - n) * interval '5 minutes',
    CASE WHEN n % 2000 = 0 THEN 'host-1' END, CASE WHEN n % 2000 = 0 THEN jedi_now() - ago END
FROM generate_series(1, 100000) n, LATERAL (SELECT n / 100, n * interval '1 minute') AS x(m, ago)
""",
    """
INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, containername, type, status,
    nfiles, nfilestobeused, nfilesused, statechecktime, statecheckexpiration, lockedby, lockedtime)
SELECT 3 * n + k, n, 'data' || (CASE k WHEN 0 THEN n % 20000 ELSE n END) || ':' || t,
    CASE WHEN k = 0 AND n % 10 = 0 THEN 'data:cont' || n % 1000 END, t,
    CASE WHEN n % 100 < 98 THEN 'done' ELSE 'ready' END, 10, 10,
    CASE WHEN n % 100 < 98 THEN 10 ELSE 2 END, jedi_now() - ago,
    CASE WHEN n % 1000 = 999 THEN jedi_now() + interval '1 day' END,
    CASE WHEN n % 5000 = 0 THEN 'host-1' END, CASE WHEN n % 5000 = 0 THEN jedi_now() - ago END
FROM generate_series(1, 100000) n, LATERAL (SELECT n % 9000 * interval '1 minute') AS x(ago),
     (VALUES (0, 'input'), (1, 'output'), (2, 'log')) AS d(k, t)
""",
    """
INSERT INTO jedi_dataset_contents (jeditaskid, datasetid, lfn, scope, type, status, attemptnr,
    maxattempt)
SELECT n, 3 * n + k, t || '.' || n || '.' || f, 'data', t,
    CASE WHEN n % 100 < 98 THEN 'finished' WHEN k > 0 THEN 'defined'
         WHEN f % 3 = 0 THEN 'ready' ELSE 'running' END, 1, 3
FROM generate_series(1, 100000) n, (VALUES (0, 'input'), (1, 'output'), (2, 'log')) AS d(k, t),
     generate_series(1, CASE WHEN n = 98 THEN 33000 ELSE 1 + n % 5 END + k / 2) f
""",
    """
INSERT INTO jedi_commands (jeditaskid, command, username, acknowledged_at)
SELECT n, 'retry', 'user1', CASE WHEN n < 99990 THEN jedi_now() END
FROM generate_series(1, 100000, 7) n
""",
    "ANALYZE",
)

TASKS = """
Get N production tasks to be processed in a queue based on priority
SELECT * FROM (SELECT * FROM jedi_tasks WHERE status = 'ready' AND workinggroup IN ('group0',
'group4') AND processingtype IN ('evgen', 'simul') AND vo = 'atlas' AND tasktype = 'prod'
ORDER BY currentpriority DESC, jeditaskid) t LIMIT 10;
Get the list of tasks to be amended
SELECT jeditaskid FROM jedi_tasks t WHERE EXISTS (SELECT FROM jedi_commands c
WHERE c.jeditaskid = t.jeditaskid AND c.acknowledged_at IS NULL);
Get the list of users who have tasks to be processed
SELECT username, vo FROM jedi_tasks WHERE status = 'ready' AND tasktype = 'anal';
Get N analysis tasks for a user to process them
SELECT * FROM (SELECT jeditaskid FROM jedi_tasks WHERE status = 'ready' AND username = 'user1'
AND vo = 'atlas' AND tasktype = 'anal' ORDER BY currentpriority DESC, jeditaskid) t LIMIT 10;
Find slow or delayed tasks
SELECT jeditaskid FROM jedi_tasks WHERE status = 'running' AND tasktype = 'anal'
AND creationdate < jedi_now() - interval '7 days';
Find hung-up processes
SELECT jeditaskid FROM jedi_tasks WHERE lockedby IS NOT NULL
AND lockedtime < jedi_now() - interval '1 hour';
"""

DATASETS = """
Get datasets for a task
SELECT datasetname, type FROM jedi_datasets WHERE jeditaskid = 98;
Get datasets to be processed in a task
SELECT datasetname FROM jedi_datasets WHERE jeditaskid = 98 AND status = 'ready'
AND nfilestobeused > nfilesused AND type = 'input';
Get a task which uses or produces a dataset
SELECT jeditaskid FROM jedi_datasets WHERE datasetname = 'data98:input' AND type = 'input';
Get tasks which contribute to a container
SELECT jeditaskid FROM jedi_datasets WHERE containername = 'data:cont100' AND type = 'input';
Get datasets to update the dataset state
SELECT datasetname FROM jedi_datasets WHERE statechecktime < jedi_now() - interval '1 hour'
AND statecheckexpiration IS NOT NULL;
Update a dataset
UPDATE jedi_datasets SET nfilesonhold = 1 WHERE datasetid = 294;
Update datasets in a task
UPDATE jedi_datasets SET nfilesonhold = 1 WHERE jeditaskid = 98;
Find hung-up processes
SELECT datasetid FROM jedi_datasets WHERE lockedby IS NOT NULL
AND lockedtime < jedi_now() - interval '1 hour';
"""

CONTENTS = """
Get task and dataset which produced a file
SELECT jeditaskid, datasetid FROM jedi_dataset_contents WHERE lfn = 'output.98.17'
AND scope = 'data' AND type = 'output';
Get the list of files in a task
SELECT fileid FROM jedi_dataset_contents WHERE jeditaskid = 98 AND type = 'input';
Get the list of files in a particular state and type with a task and a dataset
SELECT fileid FROM jedi_dataset_contents WHERE jeditaskid = 98 AND datasetid = 294
AND type = 'input' AND status = 'running';
Get the list of files to be processed
SELECT fileid FROM jedi_dataset_contents WHERE jeditaskid = 98 AND datasetid = 294
AND type = 'input' AND status = 'ready' AND attemptnr < maxattempt;
Update a file
UPDATE jedi_dataset_contents SET keeptrack = 1 WHERE fileid = 500000;
Update files in a dataset
UPDATE jedi_dataset_contents SET keeptrack = 1 WHERE datasetid = 294;
"""


def usages() -> Iterator[tuple[str, str]]:
    """What for, and the statement with the names of today's tables and columns."""
    for kind in (TASKS, DATASETS, CONTENTS):
        for usage in kind.strip().split(";\n"):
            purpose, _, statement = usage.partition("\n")
            yield purpose, statement.rstrip(";")


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[Engine]:
    url = new_database(server, template)
    engine = connect(url)
    with engine.begin() as tx:
        for statement in FILL:
            tx.execute(text(statement))
    yield engine
    engine.dispose()
    drop_database(server, url)


def scanned(plan: dict[str, Any]) -> Iterator[str]:
    """The tables that a plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for below in plan.get("Plans", ()):
        yield from scanned(below)


def test_there_are_twenty() -> None:
    assert len(list(usages())) == 20


def test_the_database_is_large_and_skewed(filled: Engine) -> None:
    with filled.connect() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_tasks")) >= 100_000
        assert tx.scalar(text("SELECT count(*) FROM jedi_dataset_contents")) >= 1_000_000


@pytest.mark.parametrize(
    "statement", [pytest.param(statement, id=purpose) for purpose, statement in usages()]
)
def test_typical_usages_use_indexes(filled: Engine, statement: str) -> None:
    with filled.connect() as tx:
        assert tx.execute(text(statement)).rowcount > 0
        plan = tx.execute(text(f"EXPLAIN (FORMAT JSON) {statement}")).scalar_one()
        assert list(scanned(plan[0]["Plan"])) == [], json.dumps(plan, indent=1)
