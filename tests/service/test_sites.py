"""What operators write: sites and their storage, work queues, knobs, datasets."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from support.adding import add_files
from support.calls import call
from support.helpers import add_site

from jedi.agent.base import World
from jedi.core.errors import BadInput, NotFound, Refused
from jedi.core.knobs import KNOBS
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.host.home import Home
from jedi.model.sites.site_file import Endpoint, SiteEntry
from jedi.service.datasets import dataset_details
from jedi.service.queues import work_queues
from jedi.service.sites import listing, pilot_tokens
from jedi.service.sites.changes import (
    import_endpoints,
    import_links,
    import_sites,
    make_roots,
    set_site,
)
from jedi.service.system import knobs as system_knobs
from jedi.standalone.installation import packaged
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.sites import sites, snapshot
from jedi.taskbuffer.users import users
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk

HOME = Home(Path("/somewhere"))

TWO_SITES = """
- site: ALPHA
  nslots: 3
  corecount: 8
  maxrss: 16000
  releases: [ANY]
  catchall: {gpu: true}
  endpoints:
    - {ddm_endpoint: ALPHA_DISK, path: alpha, space_min_free: 5}
    - {ddm_endpoint: SHARED, path: /data/shared, default_write: false, order_read: 2}
- site: BETA
  status: test
  endpoints:
    - {ddm_endpoint: SHARED, path: /data/shared}
"""


def problems(text: str, engine: Engine) -> dict[str, str]:
    """The mistakes of a site file by path: rule and remedy."""
    with engine.begin() as tx, pytest.raises(BadInput) as caught:
        users.PUT_USER.run(tx, user="me", role="operator", gridpref=None, cap=None)
        import_sites(call(tx, "me", home=HOME), text)
    return {p.path: f"{p.rule}. {p.remedy}" for p in caught.value.problems}


def rows(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    with engine.begin() as tx:
        return [tuple(row) for row in tx.execute(text(query))]


@pytest.mark.usefixtures("operators")
def test_site_file_is_imported_with_its_storage(engine: Engine) -> None:
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), TWO_SITES)
        alpha, beta = sites.ALL_SITES.rows(tx)
        details = listing.show(call(tx), "ALPHA")
    assert (alpha["nslots"], alpha["corecount"], alpha["maxrss"]) == (3, 8, 16000)
    assert (alpha["releases"], alpha["catchall"]) == (["ANY"], {"gpu": True})
    assert (alpha["status"], alpha["corepower"], beta["status"]) == ("online", 10.0, "test")
    assert (alpha["endpoints"], beta["endpoints"]) == (["ALPHA_DISK", "SHARED"], ["SHARED"])
    places = {e.ddm_endpoint: (e.path, e.sites) for e in details.endpoints}
    assert places == {
        "ALPHA_DISK": ("/somewhere/alpha", ["ALPHA"]),
        "SHARED": ("/data/shared", ["ALPHA", "BETA"]),
    }


@pytest.mark.usefixtures("operators")
def test_second_import_changes_only_what_differs(engine: Engine) -> None:
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), TWO_SITES)
    with engine.begin() as tx:
        assert import_sites(call(tx, "me", home=HOME), TWO_SITES) == []
        changes = import_sites(
            call(tx, "you", home=HOME), "- {site: ALPHA, nslots: 5, endpoints: []}", "less storage"
        )
        alpha = listing.show(call(tx), "ALPHA")
    assert [(c.attribute, c.old, c.new) for c in changes if c.attribute != "endpoints"] == [
        ("comment", None, "less storage"),
        ("nslots", "3", "5"),
    ]
    assert (alpha.attributes["corecount"], alpha.attributes["endpoints"]) == (8, [])
    last = {h.attribute: h for h in alpha.history if h.username == "you"}
    assert last.keys() == {"comment", "nslots", "endpoints"}
    assert last["nslots"].comment == "less storage"


@pytest.mark.usefixtures("operators")
def test_changed_storage_stands_in_the_history_of_its_site(engine: Engine) -> None:
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), TWO_SITES)
        moved = TWO_SITES.replace("path: alpha", "path: beta")
        changes = import_sites(call(tx, "me", home=HOME), moved)
    found = [(c.site, c.attribute, c.old, c.new) for c in changes]
    assert found == [("ALPHA", "ALPHA_DISK.path", "/somewhere/alpha", "/somewhere/beta")]


@pytest.mark.usefixtures("operators")
def test_pilots_may_come_by_themselves(engine: Engine, at: Callable[[float], None]) -> None:
    """With a token that is good for their site until its day, or until it is taken back."""
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), TWO_SITES)
        one, other = (
            pilot_tokens.create_token(call(tx, "me"), "ALPHA", days) for days in (1.0, 2.0)
        )
        assert users.check_token(tx, one.token) == users.Identity("pilot", "ALPHA", None)
        for site, token in (("BETA", one.token), ("ALPHA", "guessed"), ("GAMMA", one.token)):
            with pytest.raises(NotFound):
                pilot_tokens.revoke_token(call(tx, "me"), site, token)
        pilot_tokens.revoke_token(call(tx, "me"), "ALPHA", one.token)
        assert users.check_token(tx, one.token) is None
        assert users.check_token(tx, other.token)
        changed = [row.attribute for row in listing.show(call(tx), "ALPHA").history]
        assert (changed.count("token"), one.token in str(changed)) == (3, False)
    for seconds, good in ((2 * 86_400 - 1, True), (2 * 86_400, False)):
        at(seconds)
        with engine.begin() as tx:
            assert (users.check_token(tx, other.token) is not None) == good


def test_all_mistakes_of_a_site_file_are_told_at_once(engine: Engine) -> None:
    found = problems(
        """
- site: ALPHA
  corecont: 4
  maxrss: 2 GB
  status: onlin
  nslots: -1
  endpoints:
    - {ddm_endpoint: A_DISK, pth: x}
    - {ddm_endpoint: ../B, detailed_status: {read_lan: MAYBE}}
- {nslots: 3}
- {site: ALPHA}
""",
        engine,
    )
    assert "Did you mean corecount?" in found["ALPHA.corecont"]
    assert "memory of a slot in MB" in found["ALPHA.maxrss"]
    assert "online" in found["ALPHA.status"]
    assert "ALPHA.nslots.constrained-int" in found or "ALPHA.nslots" in found
    assert "Did you mean path?" in found["ALPHA.endpoints[0].pth"]
    assert "'..'" in found["ALPHA.endpoints[1].ddm_endpoint"]
    assert "ALPHA.endpoints[1].detailed_status.read_lan" in found
    assert found["entry 2.site"] == "is mandatory. Add it"
    assert "another entry has this" in found["ALPHA"]
    assert rows(engine, "SELECT site FROM jedi_sites") == []


@pytest.mark.parametrize(
    ("written", "path", "rule"),
    [
        ("site: ALPHA", "file", "list of mappings"),
        ("- {site: A, colour: 1}\n- 7", "entry 2", "mapping of keys"),
        ("- {site: A, colour: 1}\n- 7", "A.colour", "no such key"),
        ("- site: [", "file", "expected"),
        ("- {site: A, site: B}", "file", "repeated"),
        (
            "- {site: A, endpoints: [{ddm_endpoint: X, path: p}, {ddm_endpoint: Y, path: p}]}",
            "A.endpoints[1].path",
            "directory is X's",
        ),
        (
            "- {site: A, endpoints: [{ddm_endpoint: X}, {ddm_endpoint: X}]}",
            "A.endpoints[1]",
            "twice",
        ),
        (
            "- {site: A, endpoints: [{ddm_endpoint: X, path: p}]}\n"
            "- {site: B, endpoints: [{ddm_endpoint: X, path: q}]}",
            "B.endpoints[0]",
            "describes it differently",
        ),
    ],
)
def test_site_files_that_make_no_sense_are_refused(
    engine: Engine, written: str, path: str, rule: str
) -> None:
    assert rule in problems(written, engine)[path]


@pytest.mark.usefixtures("operators")
def test_attributes_are_set_one_by_one(engine: Engine) -> None:
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), TWO_SITES)
        pairs = ["status=brokeroff", "releases=[a, b]", "pledgedcpu=null", "corepower=12"]
        changes = set_site(call(tx, "me"), "ALPHA", pairs, "repair")
        with pytest.raises(NotFound, match="Did you mean ALPHA"):
            set_site(call(tx, "me"), "ALPA", ["status=online"], None)
        with pytest.raises(BadInput, match="Did you mean status"):
            set_site(call(tx, "me"), "ALPHA", ["statu=online"], None)
        alpha = listing.show(call(tx), "ALPHA")
    assert {c.attribute for c in changes} == {"status", "releases", "corepower", "comment"}
    assert (alpha.attributes["status"], alpha.attributes["releases"]) == ("brokeroff", ["a", "b"])
    assert alpha.attributes["endpoints"] == ["ALPHA_DISK", "SHARED"]


def test_models_know_every_column_that_an_operator_sets() -> None:
    measured = {"laststart", "lastpilot", "modificationtime", "comment"}
    columns = {column.name for column in tables.sites.columns}
    assert SiteEntry.model_fields.keys() - {"endpoints"} == columns - measured
    space = {"total", "free", "used", "expired", "unavailable", "timestamp"}
    columns = {column.name for column in tables.ddm_endpoints.columns}
    relation = {column.name for column in tables.site_endpoints.columns}
    measured = {f"space_{what}" for what in space}
    assert Endpoint.model_fields.keys() == (columns | relation) - measured - {"site"}


def test_every_attribute_has_a_meaning(engine: Engine) -> None:
    with engine.begin() as tx:
        assert [one.name for one in listing.attributes(call(tx)) if not one.meaning] == []


@pytest.mark.usefixtures("operators")
def test_defaults_are_a_site_for_this_machine(engine: Engine) -> None:
    directory = packaged("config")
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), (directory / "sites.yaml").read_text())
        work_queues.import_queues(call(tx, "me"), (directory / "queues.yaml").read_text())
        [local] = sites.ALL_SITES.rows(tx)
        assert (local["site"], local["submitter"], local["role"]) == ("LOCAL", "local", "nucleus")
        assert local["nslots"] >= 1
        assert all(one.status == "active" for one in work_queues.find(call(tx)))


def test_data_management_follows_the_endpoints(engine: Engine, tmp_path: Path) -> None:
    with engine.begin() as tx:
        add_site(tx, "ALPHA", "ALPHA_DISK", tmp_path / "alpha")
        first = factory.load(tx, knobs.load(tx))
        assert factory.load(tx, knobs.load(tx)) is first
        add_site(tx, "BETA", "BETA_DISK", tmp_path / "beta")
        second = factory.load(tx, knobs.load(tx))
    assert second.path("BETA_DISK", "s:d", "f") == tmp_path / "beta/s/d/f"
    with pytest.raises(NotFound):
        first.path("BETA_DISK", "s:d", "f")


def test_room_at_endpoints_is_measured(world: World) -> None:
    with world.engine.begin() as tx:
        add_site(tx, "GONE", "GONE_DISK", Path("/proc/nowhere"))
    counts = walk(world, DOGS["space"])
    assert counts == {"measured": 2, "elsewhere": 1}
    measured = dict(rows(world.engine, "SELECT ddm_endpoint, space_free FROM jedi_ddm_endpoints"))
    assert 0 < measured["SITE_A_DATADISK"] != 90_000
    assert measured["GONE_DISK"] == 90_000


GRID = Path(__file__).parents[2] / "examples" / "grid"


@pytest.mark.usefixtures("operators")
def test_a_grid_of_eight_sites_is_imported(engine: Engine, home: Path) -> None:
    """Its space stays as it was imported; the machine that JEDI runs on is no nucleus of it, and
    stays one once an operator has set it back."""
    own = (packaged("config") / "sites.yaml").read_text()
    grid = re.sub(r", path: grid/\w+", "", (GRID / "sites.yaml").read_text())
    grid = grid.replace("submitter: local", "submitter: none")  # storage and pilots elsewhere
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=Home(home)), own)
        changes = import_sites(call(tx, "me", home=Home(home)), grid)
        import_endpoints(call(tx, "me", home=Home(home)), (GRID / "endpoints.yaml").read_text())
        figures = import_links(call(tx, "me"), (GRID / "network.yaml").read_text())
        assert figures == len(listing.links(call(tx), None)) == 46
    assert [(c.attribute, c.old, c.new) for c in changes if c.site == "LOCAL"] == [
        ("role", "nucleus", "satellite")
    ]
    (home / "storage").mkdir()
    settings = Settings(home, engine.url.render_as_string(hide_password=False))
    world = World(engine, settings, knobs.load, factory.load)
    world.refresh()
    assert walk(world, DOGS["space"]) == {"measured": 1}
    with engine.begin() as tx:
        seen = snapshot.load(tx)
        found = {e.ddm_endpoint: e.space_free for e in listing.endpoints(call(tx))}
    assert len(seen.sites) == 9
    roles = dict(zip(seen.sites, seen.role, strict=True))
    assert [site for site, role in roles.items() if role == "nucleus"] == ["CHICAGO", "GENEVA"]
    assert (found["GENEVA_DATADISK"], found["SYDNEY_DATADISK"]) == (400_000, 8_000)
    assert (found["LOCAL_DATADISK"] or 0) > 0
    with engine.begin() as tx:
        set_site(call(tx, "me"), "LOCAL", ["role=nucleus"], "outputs are wanted here")
        import_sites(call(tx, "me", home=Home(home)), grid)
        assert listing.show(call(tx), "LOCAL").attributes["role"] == "nucleus"


@pytest.mark.usefixtures("operators")
def test_the_grid_has_room_on_the_disk_of_this_machine(engine: Engine, home: Path) -> None:
    """Its storage is here: the dog `space` measures it within a minute. More than the least free
    space has to be left, or no site takes a job."""
    with engine.begin() as tx:
        changes = import_sites(call(tx, "me", home=Home(home)), (GRID / "sites.yaml").read_text())
        import_endpoints(call(tx, "me", home=Home(home)), (GRID / "endpoints.yaml").read_text())
    make_roots(changes)
    settings = Settings(home, engine.url.render_as_string(hide_password=False))
    world = World(engine, settings, knobs.load, factory.load)
    world.refresh()
    assert walk(world, DOGS["space"])["measured"] == 6
    with engine.begin() as tx:
        for one in listing.endpoints(call(tx)):
            assert (one.space_free or 0) > (one.space_min_free or 0), one.ddm_endpoint


@pytest.mark.usefixtures("operators")
def test_a_cluster_whose_storage_is_here_leaves_the_nuclei_as_they_are(engine: Engine) -> None:
    own = (packaged("config") / "sites.yaml").read_text()
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), own)
        import_sites(call(tx, "me", home=HOME), TWO_SITES)
        import_sites(call(tx, "me", home=HOME), "- {site: EMPTY}")
        assert listing.show(call(tx), "LOCAL").attributes["role"] == "nucleus"


@pytest.mark.usefixtures("operators")
def test_knobs_are_set_with_their_history(engine: Engine) -> None:
    with engine.begin() as tx:
        assert system_knobs.put(call(tx, "me"), "pilot.idle_s", "30").value == 30.0
        assert system_knobs.put(call(tx, "you"), "pilot.idle_s", "40").value == 40.0
        setting = system_knobs.show(call(tx), "pilot.idle_s")
        history = system_knobs.history(call(tx), "pilot.idle_s")
        assert (setting.value, setting.set_by, setting.default) == (40.0, "you", 5.0)
        assert [(c.by, c.value) for c in history] == [("you", 40.0), ("me", 30.0)]
        assert system_knobs.unset(call(tx, "me"), "pilot.idle_s").value == 5.0
        setting = system_knobs.show(call(tx), "pilot.idle_s")
        history = system_knobs.history(call(tx), "pilot.idle_s")
        assert (setting.value, setting.set_by, history[0].value) == (5.0, None, None)
        assert [s.name for s in system_knobs.find(call(tx))] == list(KNOBS)


@pytest.mark.usefixtures("operators")
def test_preset_fills_in_what_is_not_set(engine: Engine) -> None:
    with engine.begin() as tx:
        system_knobs.put(call(tx, "me"), "core.preset", "current")
        system_knobs.put(call(tx, "me"), "jobgen.batch", "7")
        values = {s.name: s.value for s in system_knobs.find(call(tx))}
    assert (values["jobgen.n_files"], values["jobgen.batch"]) == (5_000, 7)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("pilot.idel_s", "3", "Did you mean pilot.idle_s?"),
        ("pilot.idle_s", "soon", "a number"),
        ("pilot.idle_s", "-1", "at least"),
        ("core.preset", "clasic", "classic"),
        ("broker.memory_factor", "much", "broker.memory_factor is a number. Give"),
        ("taskrefiner.base_ram", "simul 1000", "pairs like a=1, b=2"),
        ("taskrefiner.base_ram", "simul=much", "pairs like a=1, b=2"),
        ("taskrefiner.base_ram", "simul=-1", "numbers of at least 0"),
        ("taskrefiner.base_ram", "simul=nan", "numbers of at least 0"),
        ("broker.t1_cloud_weights", "US=0.5", "Give a value like 'a=1, b=2'"),
    ],
)
@pytest.mark.usefixtures("operators")
def test_bad_settings_are_refused(engine: Engine, name: str, value: str, said: str) -> None:
    with engine.begin() as tx, pytest.raises(BadInput) as caught:
        system_knobs.put(call(tx, "me"), name, value)
    assert said in str(caught.value)


def test_local_files_become_a_dataset(world: World, tmp_path: Path) -> None:
    one, two, more = (tmp_path / name for name in ("one.txt", "two.txt", "more.txt"))
    for path in (one, two, more):
        path.write_text(path.name * 100)
    with world.engine.begin() as tx:
        add_files(tx, world.ddm, "user.me:texts", [one, two], "SITE_A_DATADISK")
        add_files(tx, world.ddm, "user.me:texts", [two, more], "SITE_A_DATADISK")
    found = dataset_details.show_dataset(world.ddm, "user.me:texts")
    assert found.info.state == "closed"
    assert [(f.lfn, f.size) for f in found.files] == [
        ("more.txt", 800),
        ("one.txt", 700),
        ("two.txt", 700),
    ]
    assert [(r.endpoint, r.n_files) for r in found.replicas] == [("SITE_A_DATADISK", 3)]
    one.write_text("changed")
    with world.engine.begin() as tx, pytest.raises(Refused):
        add_files(tx, world.ddm, "user.me:texts", [one], "SITE_A_DATADISK")


def test_files_that_cannot_be_added_are_told_at_once(world: World, tmp_path: Path) -> None:
    bad, twin = tmp_path / ".hidden", tmp_path / "d" / "x"
    for path in (bad, tmp_path / "x", twin):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    files = [bad, tmp_path / "absent", tmp_path / "x", twin]
    with world.engine.begin() as tx:
        with pytest.raises(BadInput) as caught:
            add_files(tx, world.ddm, "user.me:texts", files, "SITE_A_DATADISK")
        with pytest.raises(BadInput, match="SITE_A_DATADISK, SITE_B_DATADISK"):
            add_files(tx, world.ddm, "user.me:texts", [tmp_path / "x"])
        with pytest.raises(BadInput, match="Rename the file"):
            add_files(tx, world.ddm, "user.me:texts", [bad], "SITE_A_DATADISK")
    assert {p.path for p in caught.value.problems} == {str(files[1]), str(twin)}
    with pytest.raises(NotFound):
        world.ddm.dataset("user.me:texts")


# ------------------------------------------------------------- endpoints, links, dumps of CRIC

QUEUES = """{
 "CERN-PROD": {"status": "online", "type": "unified", "cloud": "CERN", "tier": "T0",
   "atlas_site": "CERN", "corecount": 8, "corepower": 12.5, "maxtime": 172800, "maxrss": "16000",
   "minrss": null, "maxwdir": "inf", "maxinputsize": -1, "pledgedcpu": -1, "role": "Nucleus",
   "state": "ACTIVE", "catchall": "gpu,useJumboJobs=only", "fairsharepolicy": "type=evgen:50%",
   "transferringlimit": -4, "releases": "A|B", "direct_access_lan": "True", "unknown_key": 1,
   "astorages": {"read_lan": ["CERN_DATADISK", "CERN_TAPE"], "write_lan": ["CERN_DATADISK"]}},
 "EMPTY": {"corecount": null, "corepower": 0, "maxtime": "NaN", "ddm": "E1,E2", "releases": ""}
}"""
ENDPOINTS = """{
 "CERN_DATADISK": {"site": "CERN", "type": "DATADISK", "is_tape": false, "space_free": 120.5,
   "space_total": "Infinity", "space_expired": -5,
   "detailed_status": {"read_lan": {"status": {"value": "ON"}}, "write_wan": "PROBING",
                       "read_wan": "TEST", "delete_wan": "ON"}}
}"""
METRICS = """{
 "CERN:BNL": {"closeness": {"latest": 3}, "mbps": {"fts": {"1h": 800, "1d": null, "1w": "x"}},
   "files": {"queued": {"Production Output": 12, "Express": -1, "total": 99}}},
 "BNL:CERN": {"closeness": {"latest": 99}}
}"""


@pytest.mark.usefixtures("operators")
def test_a_dump_of_queues(engine: Engine) -> None:
    with engine.begin() as tx:
        import_sites(call(tx, "me", home=HOME), QUEUES)
        cern, empty = sites.ALL_SITES.rows(tx)
        relations = rows_of(
            tx,
            "SELECT ddm_endpoint, roles, default_read, default_write, order_read "
            "FROM jedi_site_endpoints ORDER BY site, order_read",
        )
    assert {
        key: cern[key]
        for key in (
            "cloud",
            "tier",
            "pandasite",
            "role",
            "corecount",
            "maxrss",
            "minrss",
            "maxwdir",
            "maxinputsize",
            "pledgedcpu",
            "transferringlimit",
            "direct_access_lan",
        )
    } == {
        "cloud": "CERN",
        "tier": "T0",
        "pandasite": "CERN",
        "role": "nucleus",
        "corecount": 8,
        "maxrss": 16000,
        "minrss": 0,
        "maxwdir": 0,
        "maxinputsize": -1,
        "pledgedcpu": -1,
        "transferringlimit": 0,
        "direct_access_lan": True,
    }
    assert (cern["releases"], cern["catchall"]) == (
        ["A", "B"],
        {"gpu": True, "useJumboJobs": "only"},
    )
    assert (empty["corecount"], empty["corepower"], empty["maxtime"]) == (1, 10.0, 0)
    assert relations == [
        ("CERN_DATADISK", "read,write", True, True, 1),
        ("CERN_TAPE", "read", False, True, 2),
        ("E1", "read,write", True, True, 1),
        ("E2", "read,write", False, False, 2),
    ]


SPACE_EXPIRED = "SELECT space_expired FROM jedi_ddm_endpoints"


@pytest.mark.usefixtures("operators")
def test_endpoints_by_themselves(engine: Engine) -> None:
    with engine.begin() as tx:
        import_endpoints(call(tx, "me", home=HOME), ENDPOINTS)
        changes = import_endpoints(
            call(tx, "me", home=HOME),
            "- {ddm_endpoint: CERN_DATADISK, path: disk, space_free: 7}",
            "measured",
        )
        (found,) = listing.endpoints(call(tx))
    assert (found.space_free, found.path) == (7, "/somewhere/disk")
    assert (found.space_total, rows(engine, SPACE_EXPIRED)) == (None, [(None,)])
    assert found.space_timestamp is not None
    assert found.detailed_status == {"read_lan": "ON", "write_wan": "OFF", "read_wan": "TEST"}
    assert {c.attribute for c in changes} >= {"CERN_DATADISK.path", "CERN_DATADISK.space_free"}


@pytest.mark.usefixtures("operators")
def test_links_are_imported_and_replaced(engine: Engine) -> None:
    with engine.begin() as tx:
        assert import_links(call(tx, "me"), METRICS) == 3
        import_links(call(tx, "me"), "- {src: CERN, dst: BNL, mb_s_1h: 50}")
        found = {link.key: link.value for link in listing.links(call(tx), "BNL")}
        assert listing.links(call(tx), "ELSEWHERE") == []
    # 800 Mbit/s were 100 MB/s
    assert found == {"closeness": 3, "production_queued": 12, "mbps_1h": 50}


@pytest.mark.parametrize(
    ("importer", "written", "path"),
    [
        ("sites", '{"A": {"status": "onlin"}, "B": 3}', "A.status"),
        ("sites", '{"A": {"status": "onlin"}, "B": 3}', "B"),
        ("sites", '{"A": ', "file"),
        ("sites", '{"../A": {}}', "../A.site"),
        ("endpoints", "- {ddm_endpoint: A, space_free: -1}", "A.space_free"),
        ("endpoints", "- {ddm_endpoint: A, space_free: .inf}", "A.space_free"),
        ("links", "- {src: A, dst: B, mb_s_1h: .nan}", "entry 1.mb_s_1h"),
        ("links", "- {src: A, closeness: 12}", "entry 1.dst"),
        ("links", '{"AB": {}}', "AB"),
        ("links", "src: A", "file"),
    ],
)
@pytest.mark.usefixtures("operators")
def test_nonsense_is_told(engine: Engine, importer: str, written: str, path: str) -> None:
    with engine.begin() as tx, pytest.raises(BadInput) as caught:
        match importer:
            case "sites":
                import_sites(call(tx, "me", home=HOME), written)
            case "endpoints":
                import_endpoints(call(tx, "me", home=HOME), written)
            case _:
                import_links(call(tx, "me"), written)
    assert path in {problem.path for problem in caught.value.problems}


def rows_of(tx: Connection, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in tx.execute(text(query))]
