"""Reasons of brokers, really produced: a site for each, with one fault in its row, refused by the
real agents, and `jedi-task why` says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from generating import catalogue, document, generate, ready, rows
from sqlalchemy import text

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.service.why import why
from jedi.taskbuffer import knobs

Faults = Mapping[str, Mapping[str, Any]]
_SITE = text("""
INSERT INTO jedi_sites SELECT (jsonb_populate_record(s, CAST(:fault AS jsonb))).*
FROM jedi_sites s WHERE site = 'SITE_A'
""")
_ENDPOINT = text("""
INSERT INTO jedi_ddm_endpoints SELECT (jsonb_populate_record(e, CAST(:fault AS jsonb))).*
FROM jedi_ddm_endpoints e WHERE ddm_endpoint = 'SITE_A_DATADISK'
""")
_LINK = text("INSERT INTO jedi_site_endpoints (site, ddm_endpoint) VALUES (:site, :endpoint)")

MACHINES: Faults = {
    "status_offline": {"status": "offline"},
    "status_brokeroff": {"status": "brokeroff"},
    "status_paused": {"status": "paused"},
    "status_test": {"status": "test"},
    "status_standby": {"status": "standby"},
    "many_cores": {"corecount": 8},
    "little_scratch": {"maxwdir": 10},
    "little_time": {"maxtime": 100},
    "much_time": {"mintime": 1_000_000},
    "little_memory": {"maxrss": 1999},
    "much_memory": {"minrss": 3000},
    "other_processing": {"catchall": {"allowed_processing": ["simul"]}},
    "no_pilots": {"lastpilot": "2020-01-01"},
    "excluded": {},
}
"""What every broker looks at."""
GRID: Faults = {
    **MACHINES,
    "gpu_only": {"catchall": {"gpu": True}},
    "no_release": {"releases": ["other"]},
    "no_platform": {"catchall": {"platforms": ["aarch64-*"]}},
    "zero_share": {"fairsharepolicy": "type=any:0"},
    "io_intensive": {"max_io_intensity": 10},
    "other_cloud": {"cloud": "ND"},
}
ANALYSIS: Faults = {**GRID, "not_for_analysis": {"type": "production"}}
PRODUCTION: Faults = {
    **GRID,
    "not_for_production": {"type": "analysis"},
    "event_service_only": {"jobseed": "es"},
    "jumbo_only": {"catchall": {"useJumboJobs": "only"}},
    "no_connectivity": {"wnconnectivity": "none"},
}
STORES: Faults = {
    "little_storage": {"space_free": 1},
    "output_unwritable": {"detailed_status": {"write_lan": "OFF"}},
    "input_unreadable": {"detailed_status": {"read_lan": "OFF"}},
}
"""Faults of endpoints."""
ASKED = {"coreCount": 1, "ramCount": 2000, "cpuTime": 1000, "workDiskCount": 500,
         "excludedSite": "CASE_excluded"}  # fmt: skip
GRID_ASKED = {**ASKED, "transHome": "mine", "transUses": "mine", "architecture": "x86_64-el9",
              "ioIntensity": 100, "cloud": "US"}  # fmt: skip


def build(world: World, faults: Faults, stores: Faults) -> list[str]:
    """A site for each fault, with an endpoint of its own; their endpoints."""
    with world.engine.begin() as tx:
        for code in [*faults, *stores]:
            site, endpoint = f"CASE_{code}", f"CASE_{code}_DATADISK"
            fault = {"cloud": "US", **faults.get(code, {}), "site": site, "pandasite": site}
            store = {**stores.get(code, {}), "ddm_endpoint": endpoint, "site": site}
            tx.execute(_SITE, {"fault": json.dumps(fault)})
            tx.execute(_ENDPOINT, {"fault": json.dumps(store)})
            tx.execute(_LINK, {"site": site, "endpoint": endpoint})
    return [f"CASE_{code}_DATADISK" for code in [*faults, *stores]]


@pytest.mark.parametrize(
    ("label", "broker", "faults", "asked", "stores"),
    [
        ("user", "generic", MACHINES, ASKED, {"little_storage": STORES["little_storage"]}),
        ("user", "analysis", ANALYSIS, GRID_ASKED, STORES),
        ("managed", "production", PRODUCTION, {**GRID_ASKED, "ipConnectivity": "full"}, STORES),
    ],
)
def test_each_site_is_refused_for_its_fault(
    world: World, label: str, broker: str, faults: Faults, asked: dict[str, Any], stores: Faults
) -> None:
    ddm = catalogue(world, in_=2)
    ddm.endpoints = build(world, faults, stores)
    with world.engine.begin() as tx:
        knobs.put(tx, "broker.local", "generic" if broker == "generic" else "full", "test")
    world.refresh()
    (task,) = ready(world, document(**asked), label=label)
    if label == "managed":
        TaskBroker(world).run_once()
        with world.engine.begin() as tx:
            tx.execute(text("UPDATE jedi_tasks SET status = 'ready', nucleus = NULL"))
    generate(world)
    found = rows(world, "SELECT d.broker, r.site, r.codes FROM jedi_broker_reasons r "
                 "JOIN jedi_broker_decisions d USING (decision_id) "
                 "WHERE d.broker = :b AND site LIKE 'CASE%'", b=broker)  # fmt: skip
    expected = {f"CASE_{code}": code for code in [*faults, *stores]}
    codes = {row.site: row.codes for row in found}
    assert {site: code for site, code in expected.items() if code not in codes.get(site, ())} == {}
    with world.engine.begin() as tx:
        said = why(tx, task).brokerage
    assert said is not None
    assert set(expected.values()) <= {one.code for one in said.funnel if one.nearest}
