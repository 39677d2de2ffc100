from __future__ import annotations
import os, time
from support.browsing import Browser, browser, pages, session
from support.generating import catalogue, document, generate, ready, rows
from support.helpers import add_site
from support.monitored import running_task, waiting_task
from support.job_rows import watch
from sqlalchemy import text
from jedi.agent.base import World
from jedi.taskbuffer.housekeeping import knobs, agents
from jedi.taskbuffer.scheduling import statistics

def fill(world: World) -> int:
    root = world.settings.home / "storage" / "SITE_C"
    root.mkdir(parents=True)
    with world.engine.begin() as tx:
        add_site(tx, "SITE_C", "SITE_C_DATADISK", root, maxrss=1000)
        for name, value in (("broker.local", "full"), ("broker.min_output_mb", 0.0)):
            knobs.put(tx, name, value, "olga")
    world.refresh()
    catalogue(world, in_=20)
    ready(world, document(ramCount=2000))
    generate(world)
    running_task(world)
    waiting_task(world)
    with world.engine.begin() as tx:
        statistics.fold(tx, 100000)
        for h in range(1, 24):
            for st, n in (("running", 50 + 7 * (h % 5)), ("finished", 45 + 5 * (h % 7)), ("failed", h % 4)):
                tx.execute(text("INSERT INTO job_stats_hourly VALUES (date_trunc('hour', jedi_now()) - make_interval(hours=>:h), 'SITE_A', 'user', :s, :n)"), {"h": h, "s": st, "n": n})
        tx.execute(text("INSERT INTO jedi_pilots (pilot_id, site, host, status, engine, batch_id) VALUES ('p1','SITE_A','h','running','slurm','4711'), ('p2','SITE_A','h','submitted','slurm','4712')"))
        tx.execute(text("INSERT INTO jedi_network_matrix (src,dst,key,value) VALUES ('SITE_A','SITE_B','mbps_1h',120),('SITE_A','SITE_B','closeness',3)"))
        agents.beat(tx, "JobGenerator", "h-1-1", 5, 77, None, 80000)
        agents.beat(tx, "Adder", "h-2-1", 5, 77, "ValueError: <b>x</b>", 80000)
    from jedi.watchdog.all_dogs import DOGS
    from jedi.watchdog.dog import walk
    walk(world, DOGS["shares"])
    return int(rows(world, "SELECT max(decision_id) AS id FROM jedi_broker_decisions WHERE snapshot_hash <> 'x'")[0].id)

def test_shots(world: World) -> None:
    d = fill(world)
    out = os.environ["SHOTDIR"]
    with pages(world) as address:
        for tag, width, dark in (("w", 1280, False), ("n", 360, False), ("d", 1280, True)):
            with browser(address, width=width, height=1400) as seen:
                seen.log_in(session(world, "me"))
                for name, path in (("overview", "/"), ("sites", "/sites"), ("site", "/sites/SITE_A"), ("queues", "/queues"), ("decisions", "/decisions"), ("decision", f"/decisions/{d}"), ("replay", f"/decisions/{d}?knobs=broker.local%3Dfull&sites=SITE_C.maxrss%3D8000"), ("agents", "/agents"), ("dogs", "/dogs"), ("knobs", "/knobs?q=retention"), ("knob", "/knobs/broker.local")):
                    if os.environ.get("ONLY") and name not in os.environ["ONLY"].split(): continue
                    if os.environ.get("TAGS") and tag not in os.environ["TAGS"].split(): continue
                    seen.go(path)
                    if dark: seen.find("#theme").click(); seen.go(path)
                    if width == 360:
                        seen.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 1400, "deviceScaleFactor": 1, "mobile": False})
                    time.sleep(0.3)
                    seen.driver.save_screenshot(f"{out}/{name}-{tag}.png")
                    wide = seen.driver.execute_script("return document.documentElement.scrollWidth")
                    print(name, tag, seen.find("h1").text, wide, len(seen.driver.page_source), seen.problems())
