"""Small things that several tests need."""

from __future__ import annotations

import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from jedi.agent.base import World
from jedi.core import states
from jedi.core.settings import Settings
from jedi.core.states import Machine
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import FileInfo
from jedi.taskbuffer.db import knobs
from support.service_process import served


def add_site(tx: Connection, site: str, endpoint: str, root: Path, **attributes: object) -> None:
    """A site with one endpoint; `attributes` are columns of jedi_sites."""
    row = {"site": site, "nslots": 4, "submitter": "none", **attributes}
    tx.execute(
        text(
            f"INSERT INTO jedi_sites ({', '.join(row)}, lastpilot, laststart) "
            f"VALUES ({', '.join(f':{name}' for name in row)}, jedi_now(), jedi_now())"
        ),
        row,
    )
    tx.execute(
        text(
            "INSERT INTO jedi_ddm_endpoints (ddm_endpoint, site, path, space_total, space_free, "
            "space_used, space_min_free, space_timestamp) "
            "VALUES (:endpoint, :site, :path, 100000, 90000, 10000, 0, jedi_now())"
        ),
        {"endpoint": endpoint, "site": site, "path": str(root)},
    )
    tx.execute(
        text("INSERT INTO jedi_site_endpoints (site, ddm_endpoint) VALUES (:site, :endpoint)"),
        {"site": site, "endpoint": endpoint},
    )


def make_world(engine: Engine, home: Path) -> World:
    """SITE_A and SITE_B, each with 4 slots, a live pilot and the endpoint <SITE>_DATADISK, and
    work queues for the labels user and managed of vo local."""
    roots = {f"{site}_DATADISK": home / "storage" / site for site in ("SITE_A", "SITE_B")}
    with engine.begin() as tx:
        for endpoint, root in roots.items():
            root.mkdir(parents=True)
            add_site(tx, endpoint.removesuffix("_DATADISK"), endpoint, root)
        tx.execute(
            text(
                "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, "
                "status) VALUES (1, 'user', 'user', 'local', 1, 'active'), "
                "(2, 'managed', 'managed', 'local', 2, 'active')"
            )
        )
    settings = Settings(home, engine.url.render_as_string(hide_password=False))
    world = World(engine, settings, knobs.load, lambda _tx, _knobs: FileSystemDDM(roots))
    world.refresh()
    return world


def put_file_dataset(
    world: World, name: str, files: Mapping[str, bytes], endpoint: str, *, closed: bool = True
) -> None:
    """A dataset `scope:name` with these files at one endpoint, as a pilot would have made it."""
    ddm = world.ddm
    ddm.create(name, endpoint)
    staging = ddm.staging_dir(endpoint, 0, 0)
    staging.mkdir(parents=True, exist_ok=True)
    for lfn, data in files.items():
        (staging / lfn).write_bytes(data)
    made = [
        (staging / lfn, name, FileInfo(lfn, len(data), f"{zlib.adler32(data):08x}"))
        for lfn, data in files.items()
    ]
    ddm.publish(endpoint, made)
    if closed:
        ddm.close(name)


def publish(world: World, tx: Connection, jobs: Sequence[int], endpoint: str) -> list[str]:
    """What these jobs are to make lies at an endpoint; the names of the datasets."""
    made: dict[str, dict[str, bytes]] = defaultdict(dict)
    for row in tx.execute(
        text(
            "SELECT d.datasetname, f.lfn FROM jedi_job_files f JOIN jedi_datasets d "
            "USING (datasetid, jeditaskid) "
            "WHERE f.type IN ('output', 'log') AND f.pandaid = ANY(:ids)"
        ),
        {"ids": list(jobs)},
    ):
        made[row.datasetname][row.lfn] = row.lfn.encode()
    for name, files in made.items():
        put_file_dataset(world, name, files, endpoint, closed=False)
    return list(made)


MANDATORY: dict[str, dict[str, object]] = {
    "jedi_tasks": {"reqid": 1},
    "jedi_datasets": {"datasetname": "s:n", "jeditaskid": 1},
    "jedi_dataset_contents": {"datasetid": 1, "jeditaskid": 1, "lfn": "f"},
    "jedi_events": {
        **{"jeditaskid": 1, "datasetid": 1, "fileid": 1, "pandaid": 1},
        **{"job_processid": 1, "attemptnr": 1},
    },
    "jedi_jobs": {
        **{"jeditaskid": 1, "taskid": 1, "originpandaid": 1, "unit_nr": 1, "attemptnr": 1},
        **{"site": "S", "priority": 1, "cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0},
    },
}
"""Values for the mandatory columns of the tables that have a status."""


def insert_states(
    tx: Connection, machine: Machine, statuses: Collection[str] | None = None
) -> None:
    """One row in each status of a machine (or in these), everything else as plain as it gets."""
    codes = states.EVENT_CODES if machine is states.EVENT else {}
    numbers = {"jedi_events": "job_processid", "jedi_jobs": "pandaid"}
    for number, status in enumerate(statuses or machine.states, 1):
        row: dict[str, object] = {**MANDATORY[machine.table], "status": codes.get(status, status)}
        if machine.types:
            row["type"] = "output" if machine.negate_types else "input"
        if machine is states.JOB and status == "finished":
            row["postprocessed_at"] = "2031-01-01"
        if status == "skipped":
            row["reason"] = "not_a_file"
        if machine.table in numbers:
            row[numbers[machine.table]] = number
        tx.execute(
            text(
                f"INSERT INTO {machine.table} ({', '.join(row)}) "
                f"VALUES ({', '.join(f':{name}' for name in row)})"
            ),
            row,
        )


def unguard(tx: Connection) -> None:
    """Let statuses be changed in any way, for whoever wants to break something."""
    for table in {machine.table for machine in states.MACHINES}:
        tx.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))


@dataclass(frozen=True)
class Answer:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]


def script(
    main: Callable[[], None],
    name: str,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Runs the console script `name` against the world's service."""
    monkeypatch.setenv("JEDI_DATABASE_URL", world.settings.database_url or "")
    monkeypatch.setenv("JEDI_HOME", str(world.settings.home))

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return Answer(int(end.value.code or 0), printed.out, printed.err)

    with served(world):
        yield run
