"""Builders that several tests share with tests of asking."""

# Raw UPDATEs: columns of tasks that scouts and nuclei set.

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

from jedi.agent.base import World
from jedi.ddm.interface import FileInfo, Replica
from jedi.service.tasks.why import TaskHold, why
from jedi.taskbuffer.db import knobs
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk
from support.calls import call
from support.generating import Catalogue, document, ready, rows, use
from support.refusals import HIDDEN, HOME, Ask, Broker, Fault
from support.task_rows import INPUT, OUTPUT

_SITE = text("""
INSERT INTO jedi_sites SELECT (jsonb_populate_record(s, CAST(:fault AS jsonb))).*
FROM jedi_sites s WHERE site = 'SITE_A'
""")
_ENDPOINT = text("""
INSERT INTO jedi_ddm_endpoints SELECT (jsonb_populate_record(e, CAST(:fault AS jsonb))).*
FROM jedi_ddm_endpoints e WHERE ddm_endpoint = 'SITE_A_DATADISK'
""")
_RELATION = text("INSERT INTO jedi_site_endpoints (site, ddm_endpoint) VALUES (:site, :endpoint)")
_LINK = text("INSERT INTO jedi_network_matrix (src, dst, key, value) VALUES (:a, :b, :key, :n)")
_LIVE = text("INSERT INTO job_stats VALUES (:site, :queue, :share, 'SCORE', :status, :n, :n)")
_JOBS = text("""
INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status, site,
  priority, cores, memory_mb, walltime_s, disk_mb, endtime, wall_s, read_bytes)
SELECT nextval('jedi_panda_id_seq'), :task, 1, 1, n, 1, :status, :site, 1, 1, 0, 600, 0,
  jedi_now(), 10, :read
FROM generate_series(1, :n) n
""")


class Grid(Catalogue):
    """Data management that knows at which endpoints each dataset is complete."""

    def __init__(self, files: Mapping[str, Sequence[FileInfo]], at: Sequence[str]) -> None:
        super().__init__(files)
        self.at = dict.fromkeys(files, at) | {"demo:hidden": [f"{HIDDEN}_DATADISK"]}

    def locate(self, name: str, lfns: Any) -> dict[str, list[str]]:
        return {lfn: list(self.at[name]) for lfn in lfns}

    def replicas(self, name: str) -> list[Replica]:
        files = self.files[name]
        return [Replica(one, len(files), sum(f.size for f in files)) for one in self.at[name]]


def files(name: str, n: int, size: int) -> list[FileInfo]:
    return [FileInfo(f"{name}{i:06d}", size, "00000001") for i in range(n)]


def build_site(tx: Connection, site: str, fault: Fault) -> None:
    """A site of its own place like SITE_A, but for the columns of a fault, with an endpoint of its
    own."""
    columns = {"cloud": "US", "tier": "T1", "pandasite": site, **fault.site, "site": site}
    tx.execute(_SITE, {"fault": json.dumps(columns)})
    if fault.store is not None:
        store = {**fault.store, "ddm_endpoint": f"{site}_DATADISK", "site": site}
        tx.execute(_ENDPOINT, {"fault": json.dumps(store)})
        tx.execute(_RELATION, {"site": site, "endpoint": f"{site}_DATADISK"})


def occupy(tx: Connection, site: str, fault: Fault, share: str, nucleus: str, task_id: int) -> None:
    """What goes on at a site and on its links."""
    for status, n in fault.jobs.items():
        tx.execute(_LIVE, {"site": site, "queue": 1, "share": share, "status": status, "n": n})
    for status, n in fault.past.items():
        tx.execute(
            _JOBS,
            {"site": site, "task": task_id, "status": status, "n": n, "read": fault.read_bytes},
        )
    for key, figure in fault.link.items():
        tx.execute(_LINK, {"a": site, "b": nucleus, "key": key, "n": figure})
    if fault.backlog:
        tx.execute(_LINK, {"a": "AFAR", "b": site, "key": "production_queued", "n": fault.backlog})


def name_of(code: str, fault: Fault) -> str:
    return fault.name or f"CASE_{code}"


def submit(world: World, broker: Broker) -> list[int]:
    """The tasks of a broker, fed; the input lies at all sites that have no fault in that."""
    holders = [
        f"{name_of(code, fault)}_DATADISK"
        for ask in broker.asks
        for code, fault in ask.cases.items()
        if fault.holds
    ]
    sizes = {
        "demo:in": files("in", 2, 10),
        "demo:hidden": files("hidden", 2, 10),
        "demo:large": files("large", 1, 20 * 2**30),
        "demo:many": files("many", 150, 2**20),
    }
    with world.engine.begin() as tx:
        for name, value in {"contentsfeeder.batch": 50, "jobgen.batch": 50, **broker.knobs}.items():
            knobs.put(tx, name, value, "test")
    use(world, Grid(sizes, [f"{HOME}_DATADISK", *holders]))
    documents = [
        document(
            **ask.document,
            jobParameters=[{**INPUT, "dataset": ask.reads}, {**OUTPUT, "dataset": f"a:{number}"}],
        )
        for number, ask in enumerate(broker.asks)
    ]
    return ready(world, *documents, label=broker.label)


def build(world: World, broker: Broker, tasks: Sequence[int]) -> None:
    """The sites of all cases, and what was written into the tasks' rows since they were fed."""
    others = {HIDDEN: Fault(store={"detailed_status": {"read_wan": "OFF"}}), **broker.others}
    with world.engine.begin() as tx:
        for site, fault in others.items():
            build_site(tx, site, fault)
            occupy(tx, site, fault, broker.label, "", 0)
        for ask, task_id in zip(broker.asks, tasks, strict=True):
            for code, fault in ask.cases.items():
                build_site(tx, site := name_of(code, fault), fault)
                occupy(tx, site, fault, broker.label, ask.row.get("nucleus", ""), task_id)
            for site in ask.at:
                occupy(tx, site, Fault(past={"running": 1}), broker.label, "", task_id)
            for column, value in {"currentpriority": 100, **ask.row}.items():
                tx.execute(
                    text(f"UPDATE jedi_tasks SET {column} = :v WHERE jeditaskid = :t"),
                    {"v": value, "t": task_id},
                )
    walk(world, DOGS["diskio"])


def ask_why(world: World, task_id: int) -> TaskHold:
    with world.engine.begin() as tx:
        return why(call(tx), task_id)


def refused(world: World, task_id: int, ask: Ask) -> dict[str, list[str]]:
    """Why the sites of a task's cases were refused to it, by the code that was meant."""
    found = {
        row.site: row.codes
        for row in rows(
            world,
            "SELECT site, codes FROM jedi_broker_reasons JOIN jedi_broker_decisions "
            "USING (decision_id) WHERE jeditaskid = :t",
            t=task_id,
        )
    }
    return {code: sorted(found.get(name_of(code, fault), ())) for code, fault in ask.cases.items()}
