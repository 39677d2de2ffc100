"""Figures that say nothing or nonsense: files and `jedi site set` refuse them; where they were put
into rows by hand, whoever reads them takes them as not said."""

# Raw UPDATEs: odd figures are the point.

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, Double, Engine, Integer, Text, text
from support.asking import ask_why, build, refused, submit
from support.calls import call
from support.generating import catalogue, document, generate, ready, rows
from support.job_rows import make_jobs
from support.refusals import HOME, Ask, Broker, Fault
from support.task_rows import row_of
from support.world import EMPTY

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.brokerage.analysis import AnalysisBroker
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.nucleus_filters import by_weight
from jedi.brokerage.production import ProductionBroker
from jedi.brokerage.record import record
from jedi.brokerage.requirements import Requirements
from jedi.core.errors import BadInput
from jedi.core.knobs import Knobs
from jedi.host.home import Home
from jedi.model.list_file import Entry
from jedi.model.sites.link_file import Link
from jedi.model.sites.site_file import SiteEntry, StorageEntry
from jedi.model.sites.snapshot import KINDS, Snapshot
from jedi.service.brokerage import system_state
from jedi.service.queues import matching, order
from jedi.service.sites.changes import import_endpoints, import_links, import_sites, set_site
from jedi.service.sites.listing import show
from jedi.taskbuffer.schema.tables import metadata
from jedi.taskbuffer.sites import pilots
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk

WHOLE = (0, -1, -(2**31))
ODD = (0, -1, -1e300, 1e300, "NaN", "Infinity", "-Infinity")
MEANT = ("site", "status", "type", "role", "state", "submitter", "lastpilot", "ddm_endpoint")
"""Columns that are never empty, or mean something then."""
ASKED = {"coreCount": 1, "ramCount": 2000, "cpuTime": 1000, "workDiskCount": 500, "ioIntensity": 1}


def columns_of(table: str) -> dict[str, Fault]:
    """A site for each odd value in each column of a table, and for its absence."""
    found = {}
    for column in metadata.tables[table].columns:
        values = {Double: ODD, Integer: WHOLE, BigInteger: WHOLE, Text: ("",)}
        for value in (*values.get(type(column.type), ()), *([None] if column.nullable else [])):
            row = {column.name: value}
            if column.name not in MEANT:
                fault = Fault(row) if table == "jedi_sites" else Fault(store=row)
                found[f"{column.name}={value}"] = fault
    return found


_LINK = text(
    "INSERT INTO jedi_network_matrix (src, dst, key, value, ts) VALUES (:site, "
    f"'{HOME}', :key, CAST(CAST(:figure AS text) AS float8), "
    "jedi_now() - CAST(CAST(:age AS text) AS interval))"
)
_METRIC = text(
    "INSERT INTO jedi_site_metrics (site, gshare, metric, value) "
    "VALUES (:site, '', 'diskio', CAST(:value AS jsonb))"
)
KEYS = ("closeness", "production_queued", "express_queued", "mbps_1h", "mbps_1d", "mbps_1w")
LINKS = [
    *(
        (key, figure, "0 s")
        for key in KEYS
        for figure in ("NaN", "Infinity", "-Infinity", "-7", "1e300")
    ),
    ("production_queued", "9999", "61 minutes"),
    ("express_queued", "9999", "61 minutes"),
    ("mbps_1h", "0", "61 minutes"),
    ("closeness", "-1", "11 years"),
]
"""What nobody can mean, and what was true once."""
METRICS = ('"busy"', "null", "-1", "1e400", "[7]", '{"a": 1}')


NO_KEYS: tuple[Any, ...] = ({}, [], "gpu", 7)
ABSENT = {
    "releases=[]": Fault({"releases": []}),
    "releases=[null]": Fault({"releases": [None]}),
    "policy": Fault({"fairsharepolicy": ",type=,:0,priority>=x:0,group,=:0%"}),
    "long policy": Fault({"fairsharepolicy": "priority<" + 5000 * "9" + ":0"}),
    **{f"catchall={said}": Fault({"catchall": said}) for said in NO_KEYS},
    **{
        f"catchall.{key}={value}": Fault({"catchall": {key: value}})
        for key in (
            "gpu",
            "useJumboJobs",
            "minEventsForJumbo",
            "use_only_local_data",
            "platforms",
            "software",
            "allowed_processing",
            "excluded_processing",
            "bareNucleus",
            "allow_no_pilot",
        )
        for value in (None, "", [], [None], False)
    },
    "detailed_status=[]": Fault(store={"detailed_status": []}),
    "detailed_status=?": Fault(store={"detailed_status": {"read_lan": None, "write_lan": 7}}),
}
"""Lists and free keys that say nothing."""


def odd_world(world: World, label: str, **row: Any) -> tuple[int, Ask]:
    """A site for each odd figure: of its row, of its endpoint, of its link to the nucleus, of its
    disks; and a task that asks for little."""
    sites = columns_of("jedi_sites") | columns_of("jedi_ddm_endpoints")
    sites |= ABSENT | {f"{key}={figure}": Fault() for key, figure, _ in LINKS}
    sites |= {f"diskio={number}": Fault() for number in range(len(METRICS))}
    knobs = {
        "broker.local": "full",
        "taskbroker.space_counts": 1,
        "taskbroker.count_reserved": 1,
        "taskbroker.room_tb": 0.5,
        "broker.max_disk_io_kb_s": 50,
    }
    broker = Broker(label, (Ask(ASKED, sites, row={"diskio": 60, **row}),), knobs)
    (task,) = submit(world, broker)
    build(world, broker, [task])
    with world.engine.begin() as tx:
        for key, figure, age in LINKS:
            tx.execute(
                _LINK, {"site": f"CASE_{key}={figure}", "key": key, "figure": figure, "age": age}
            )
        for number, value in enumerate(METRICS):
            tx.execute(_METRIC, {"site": f"CASE_diskio={number}", "value": value})
    return task, broker.asks[0]


def choice(world: World, task: int, ask: Ask) -> dict[str, list[str]]:
    """Whom the broker refused, and why; what it chose has weights that can be compared."""
    (found,) = rows(world, "SELECT * FROM jedi_broker_decisions")
    assert found.chosen and all(0 < weight < float("inf") for weight in found.weights)
    assert ask_why(world, task).brokerage is not None
    return {code: said for code, said in refused(world, task, ask).items() if said}


@pytest.mark.parametrize("label", ["managed", "user"])
def test_what_means_nothing_is_in_no_sites_way(world: World, label: str) -> None:
    task, ask = odd_world(world, label, nucleus=HOME)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET status = 'ready' WHERE status = 'assigning'"))
    assert generate(world) == 1
    assert choice(world, task, ask) == {"space_free=0": ["little_storage"]}


def test_what_means_nothing_is_in_no_nucleus_way(world: World) -> None:
    task, ask = odd_world(world, "managed")
    assert TaskBroker(world).run_once() == 1
    assert choice(world, task, ask) == {"space_free=0": ["little_room", "little_storage"]}


def test_a_site_below_nothing_has_no_slots_no_limits_and_the_usual_time(world: World) -> None:
    with world.engine.begin() as tx:
        jobs = make_jobs(tx, 3, memory_mb=2000).jobs
        tx.execute(
            text(
                "UPDATE jedi_sites SET submitter = 'local', nslots = CASE site WHEN :s "
                "THEN -1 ELSE 2 END, maxrss = -1, maxwdir = -1, transtimehi = -1, "
                "transtimelo = -1"
            ),
            {"s": HOME},
        )
        tx.execute(
            text("UPDATE jedi_job_ready SET site = 'SITE_B' WHERE pandaid <> :j"), {"j": jobs[0]}
        )
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text(
                "UPDATE jedi_jobs SET status = 'transferring', statechangetime = "
                "jedi_now() - interval '2 hours' WHERE pandaid = :j"
            ),
            {"j": jobs[0]},
        )
        served = {
            site.site: (site.n_slots, site.max_rss, site.max_wdir)
            for site in pilots.SERVE.rows(tx, host="here", limit=9)
        }
        assert served == {HOME: (0, 0, 0), "SITE_B": (2, 0, 0)}
        slots = [
            {
                "site": site,
                "name": "",
                "cores": 1,
                "memory_mb": maxrss,
                "disk_mb": maxwdir,
                "min_cores": 0,
                "min_memory_mb": 0,
                "most": nslots,
            }
            for site, (nslots, maxrss, maxwdir) in served.items()
        ]
        waiting = {site: row.waiting for (site, _), row in pilots.demand(tx, slots).items()}
        assert waiting == {HOME: 0, "SITE_B": 2}
    assert walk(world, DOGS["timeouts"]).total() == 0


# ------------------------------------------------------------------------------ what is written

SITE, ENDPOINT, LINK = "- {{site: A, {}}}", "- {{ddm_endpoint: A, {}}}", "- {{src: A, dst: B, {}}}"
NOWHERE = Home(Path("/nowhere"))
NOT_FINITE = (".nan", ".inf", "-.inf")


def figures(model: type[Entry]) -> list[str]:
    """The fields of an entry that are numbers."""
    return [
        name
        for name, field in model.model_fields.items()
        if name != "nslots" and {"integer", "number"} & set(_kinds(model, name))
    ]


def _kinds(model: type[Entry], name: str) -> Iterator[str]:
    said = model.model_json_schema()["properties"][name]
    for one in said.get("anyOf", [said]):
        yield str(one.get("type"))


@pytest.mark.parametrize(
    ("importer", "model", "form"),
    [
        (import_sites, SiteEntry, SITE),
        (import_endpoints, StorageEntry, ENDPOINT),
        (import_links, Link, LINK),
    ],
)
@pytest.mark.usefixtures("operators")
def test_no_file_brings_what_is_no_number(
    engine: Engine, importer: Any, model: type[Entry], form: str
) -> None:
    asked = figures(model)
    assert len(asked) >= 6
    for name in asked:
        for value in (*NOT_FINITE, "1" + 30 * "0", "-2", '"7"', "true"):
            with engine.begin() as tx, pytest.raises(BadInput) as caught:
                importer(call(tx, "me", home=NOWHERE), form.format(f"{name}: {value}"))
            assert [problem.path.rpartition(".")[2] for problem in caught.value.problems] == [name]


@pytest.mark.parametrize(
    "said",
    [
        "corepower=.inf",
        "corepower=0",
        "maxrss=-1",
        "max_io_intensity=.nan",
        "maxdiskio=1e400",
        "pledgedcpu=99999999999",
        "catchall={since: 2020-01-01}",
        'cloud="a\\0b"',
        'releases=["\\ud800"]',
        "corecount=",
        "status=on",
    ],
)
@pytest.mark.usefixtures("operators")
def test_no_site_is_set_to_what_makes_no_sense(world: World, said: str) -> None:
    with world.engine.begin() as tx:
        with pytest.raises(BadInput) as caught:
            set_site(call(tx, "me"), HOME, [said], None)
        assert caught.value.problems[0].path.startswith(f"{HOME}.{said.partition('=')[0]}")
        assert show(call(tx), HOME).history == []


@pytest.mark.usefixtures("operators")
def test_what_is_no_number_stays_text_where_any_value_may_stand(world: World) -> None:
    """The reader of YAML knows finite numbers alone: `.nan` is text, which JSON can hold."""
    with world.engine.begin() as tx:
        set_site(call(tx, "me"), HOME, ["catchall={deep: {er: [.nan]}}"], None)
        assert show(call(tx), HOME).attributes["catchall"] == {"deep": {"er": [".nan"]}}


def test_no_file_of_the_world_has_what_is_no_number() -> None:
    with pytest.raises(BadInput, match="NaN"):
        system_state.read('{"format": "jedi-world-1", "sites": {"sites": ["A"], "cores": [NaN]}}')


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("{}", "its format is not jedi-world-1"),
        ('{"format": "jedi-world-1"}', "'sites' is missing or unknown"),
        ('{"format": "jedi-world-1", "knobs": []}', "a part of it has another form"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_in_words(content: str, rule: str) -> None:
    with pytest.raises(BadInput) as found:
        system_state.read(content)
    assert found.value.problems[0].rule == f"it is not a snapshot: {rule}"


# -------------------------------------------------------------------------------- work queues

INJECTION = "1=1); drop table jedi_tasks; --"
QUEUES: tuple[dict[str, Any], ...] = (
    {"queue_name": "drop", "criteria": INJECTION},
    {"queue_name": "typing", "criteria": "campaing = 'c'"},
    {"queue_name": "ring", "partitionid": 13, "criteria": "campaign = 'ring'", "queue_share": 5},
    {"queue_name": "gnir", "partitionid": 12, "criteria": "campaign = 'gnir'", "queue_share": 5},
    {"queue_name": "nothing", "queue_share": 0, "criteria": "campaign = 'nothing'"},
    {"queue_name": "less", "queue_share": -5, "criteria": "campaign = 'less'"},
    {
        "queue_name": "words",
        "queue_share": 10,
        "caps": {"NQUEUECAP": "few", "NRUNNINGCAP": -1},
        "criteria": "campaign = 'words'",
    },
    {"queue_name": "list", "queue_share": 10, "caps": [1], "criteria": "campaign = 'list'"},
)
_QUEUE = text("""
INSERT INTO jedi_work_queue SELECT (jsonb_populate_record(q, CAST(:row AS jsonb))).*
FROM jedi_work_queue q WHERE queue_id = 1
""")


def test_queues_that_make_no_sense_stop_nobody(world: World) -> None:
    """Criteria that are none hold for nobody, queues in a ring are partitions of nothing; to whom
    nothing is allocated comes last."""
    catalogue(world, in_=2)
    with world.engine.begin() as tx:
        for number, queue in enumerate(QUEUES, 10):
            row = {"queue_id": number, "queue_order": -number, **queue}
            tx.execute(_QUEUE, {"row": json.dumps(row)})
        tx.execute(
            text(
                "INSERT INTO job_stats SELECT 'SITE_A', queue_id, queue_name, 'SCORE', "
                "'running', 2, 2 FROM jedi_work_queue WHERE queue_id >= 10"
            )
        )
    names = [queue["queue_name"] for queue in QUEUES[2:]]
    tasks = ready(world, *(document(output=f"a:{name}", campaign=name) for name in names))
    told = rows(world, "SELECT gshare FROM jedi_tasks ORDER BY jeditaskid")
    assert [row.gshare for row in told] == ["user", "user", "nothing", "less", "words", "list"]
    walk(world, DOGS["shares"])
    with world.engine.begin() as tx:
        shares = {one.queue_name: one.allocation for one in order.find_shares(call(tx))}
        taken = {one.queue_name: (one.tasks, one.wrong) for one in matching.match(call(tx))}
        turns = [one.jedi_task_id for one in order.by_turn(call(tx), 10)]
    assert [shares[name] for name in names] == [None, None, 0, 0, 8, 8]
    assert taken["drop"] == (0, "comments are not allowed")
    assert taken["typing"] == (0, "campaing is not a column of jedi_tasks")
    assert {taken[row.gshare][1] for row in told} == {None}
    assert turns == [tasks[n] for n in (0, 1, 4, 5, 2, 3)]
    assert [ask_why(world, task_id).code for task_id in tasks] == ["in_turn"] * 6
    assert generate(world) == 6
    assert {row_of(world, task_id).status for task_id in tasks} == {"running"}


# ----------------------------------------------------------------------- worlds in files, in short

NOTHING: Any = EMPTY
NEED = {
    **NOTHING,
    "demand": {**NOTHING["demand"], "hs06_s_per_event": 10.0, "ram_mb": 100.0, "work_mb": 5.0},
    "atom": {"bytes": 1e9, "events": 10.0},
    "data": {"bytes": 1e9, "files": 2},
}
CHOOSE: Mapping[str, Callable[[Snapshot, Requirements, Knobs], SiteChoice]] = {
    "generic": lambda world, need, knobs: GenericBroker().choose(world, need, knobs, (), 1),
    "analysis": lambda world, need, knobs: AnalysisBroker().choose(world, need, knobs, (), 1),
    "production": lambda world, need, knobs: ProductionBroker().choose(world, need, knobs, (), 1),
    "nucleus": lambda world, need, knobs: by_weight(world, need, knobs, 1),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CHOOSE)
@pytest.mark.parametrize("preset", ["classic", "current"])
def test_any_figure_in_the_file_of_a_world_leads_to_a_decision(name: str, preset: str) -> None:
    knobs = Knobs({"core.preset": preset, "network.active": 1})
    nucleus = "" if name == "nucleus" else "N"
    asked = {"nucleus": nucleus, "io_kb_s": 300.0, "disk_io_kb_s": 5.0, "ip_stack": "IPv6"}
    need = Requirements.read({**NEED, "request": asked})
    plain = {
        "sites": ["A", "N"],
        "endpoint": ["E", "F"],
        "usable_gb": [1e6] * 2,
        "free_gb": [1e6] * 2,
    }
    for column in (name for name, kind in KINDS.items() if kind == "numbers"):
        for figure in (0, -1, 1e12, -1e12, 1e-12, None):
            world = Snapshot.of({**plain, column: [figure, figure]}, {})
            found = CHOOSE[name](world, need, knobs)
            said = asdict(record(1, name, world, need, knobs, found))
            assert json.dumps(said, allow_nan=False)
            assert Snapshot.unpack(world.packed).hash == world.hash
