"""Jobs of the event service as pilots get them: consumers' channels, pieces of merge jobs."""

# Raw UPDATEs: texts of jobs that no builder of a job writes.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import text
from support.job_rows import make_jobs

from jedi.agent.base import World
from jedi.core.knobs import Knobs
from jedi.model.jobs.event_texts import EVENTS, PIECES
from jedi.model.jobs.wire import AcquireRequest, Resources
from jedi.service.pilots import pilot_requests
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users.users import Identity

SITE = "SITE_A"


def _take(world: World, texts: dict[str, str]) -> Any:
    """A job with such texts, as its pilot gets it."""
    with world.engine.begin() as tx:
        make_jobs(tx, 1, site=SITE)
        tx.execute(text("UPDATE jedi_job_params SET texts = :texts"), {"texts": json.dumps(texts)})
        known: Knobs = knobs.load(tx)
    request = AcquireRequest(
        request_id="r", pilot_id="p", site=SITE, n=1, resources=Resources(cores=1)
    )
    who = Identity("pilot", SITE, None)
    [order] = pilot_requests.acquire(world.engine, world.ddm, known, who, request)["jobs"]
    return order


def test_a_consumer_gets_its_channel(world: World) -> None:
    """Zips go to .eventservice/JEDITASKID/JOBSETID of the endpoint to which the site's pilots write
    (docs/payload-events.md). Other texts are files of the payload."""
    order = _take(world, {EVENTS: json.dumps({"jobset_id": 9, "mode": "es"}), "list.txt": "a\n"})
    assert order["texts"] == {"list.txt": "a\n"}
    root = Path(str(order["stage_out"])).parent.parent
    assert order["events"] == {
        "jobset_id": 9,
        "mode": "es",
        "n_ranges": 8,
        "zip_ranges": 100,
        "zip_s": 60.0,
        "endpoint": "SITE_A_DATADISK",
        "store": f"{root}/.eventservice/{order['jeditaskid']}/9",
    }
    assert "pieces" not in order


def test_a_merge_job_asks_for_its_pieces(world: World) -> None:
    order = _take(world, {PIECES: ""})
    assert order["pieces"] is True
    assert order["texts"] == {} and "events" not in order


def test_pieces_of_a_job_set_are_thrown_away(world: World) -> None:
    """Those of another one stay, and those that came after the look; a second call finds the work
    done."""
    for task in (5, 6):
        place = Path(world.ddm.pieces_where("SITE_A_DATADISK", task, 9))
        place.mkdir(parents=True)
        (place / "9.7.1.000001.zip").touch()
    assert sorted(world.ddm.pieces("SITE_A_DATADISK")) == [(5, 9), (6, 9)]
    seen = world.ddm.pieces("SITE_A_DATADISK")[5, 9]
    late = Path(world.ddm.pieces_where("SITE_A_DATADISK", 5, 9)) / "9.8.1.000001.zip"
    late.touch()
    for _ in range(2):
        world.ddm.drop_pieces("SITE_A_DATADISK", 5, 9, seen)
    assert world.ddm.pieces("SITE_A_DATADISK")[5, 9] == [late.name]
    world.ddm.drop_pieces("SITE_A_DATADISK", 5, 9, [late.name])
    assert [*world.ddm.pieces("SITE_A_DATADISK")] == [(6, 9)]
