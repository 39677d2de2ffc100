"""Data management with its catalogue in the database: what it costs, and who meets whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text
from support.adding import add_files
from support.calls import call
from support.ddm_steps import adler, endpoint_roots, publish, put, refused, stage, swap
from support.helpers import add_site

from jedi.core.errors import BadInput, JediError
from jedi.ddm import factory
from jedi.ddm.interface import FileInfo
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM
from jedi.service.datasets import dataset_details
from jedi.service.system import knobs as system_knobs
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.inputs import catalogue


@pytest.fixture
def ddm(engine: Engine, tmp_path: Path) -> SqlCatalogueDDM:
    return SqlCatalogueDDM(engine, endpoint_roots(tmp_path))


@contextmanager
def counted(engine: Engine) -> Iterator[list[str]]:
    """The statements executed meanwhile."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_the_number_of_files_is_not_that_of_statements(
    engine: Engine, ddm: SqlCatalogueDDM
) -> None:
    def life(n: int) -> dict[str, int]:
        name, lfns = f"s:d{n}", [f"f{i}" for i in range(n)]
        verbs: dict[str, Callable[[], object]] = {
            "create": lambda: ddm.create(name, "A"),
            "publish": lambda: publish(ddm, "A", name, dict.fromkeys(lfns, b"x")),
            "transfer": lambda: ddm.transfer([(name, lfn) for lfn in lfns], "A", "B", "test"),
            "list": lambda: ddm.list_files(name),
            "locate": lambda: ddm.locate(name, lfns),
            "holders": lambda: ddm.holders({f"{name}.{i}": ["f"] for i in range(n)}),
            "replicas": lambda: ddm.replicas(name),
            "remove": lambda: ddm.remove_files(name, lfns[1:]),
            "close": lambda: ddm.close(name),
            "delete": lambda: ddm.delete(name),
        }
        costs = {}
        for verb, ask in verbs.items():
            with counted(engine) as statements:
                ask()
            costs[verb] = len(statements)
        return costs

    few = life(2)
    assert life(200) == few
    assert few == {
        **{"create": 1, "publish": 3, "transfer": 2, "list": 2, "locate": 2, "holders": 1},
        **{"replicas": 2, "remove": 2, "close": 1, "delete": 3},
    }


def test_a_tree_of_containers_is_read_at_once(engine: Engine, ddm: SqlCatalogueDDM) -> None:
    put(ddm, "A", "s:d", {"f": b"f"})
    for level in range(20):
        ddm.create(f"s:{level}", "A", container=True)
        ddm.add_members(f"s:{level}", ["s:d", *([f"s:{level - 1}"] if level else [])])
    with counted(engine) as statements:
        assert [file.lfn for file in ddm.list_files("s:19")] == ["f"]
    assert len(statements) == 2


@pytest.mark.long
def test_100_000_files(engine: Engine, ddm: SqlCatalogueDDM) -> None:
    n = 100_000
    ddm.create("s:d", "A")
    columns: dict[str, list[object]] = {
        "lfn": [f"f{i:06d}" for i in range(n)],
        "size": [1] * n,
        "adler32": ["00000001"] * n,
        "guid": ["g"] * n,
        "nevents": [None] * n,
        "boundary": [None] * n,
        "lumiblock": [7] * n,
    }
    with engine.begin() as tx:
        assert catalogue.put_files(tx, "A", ["s:d"] * n, columns) == n
        assert catalogue.put_files(tx, "B", ["s:d"] * n, columns) == n
    files = ddm.list_files("s:d")
    assert [file.lfn for file in files] == columns["lfn"]
    located = ddm.locate("s:d", [file.lfn for file in files])
    assert len(located) == n and all(where == ["A", "B"] for where in located.values())
    ddm.delete("s:d")
    with engine.begin() as tx:
        for table in ("ddm_files", "ddm_replicas"):
            assert tx.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 0


def test_what_merely_lies_there_is_no_file(ddm: SqlCatalogueDDM) -> None:
    put(ddm, "A", "s:d", {"f": b"f"})
    ddm.path("A", "s:d", "g").write_bytes(b"g")
    assert [file.lfn for file in ddm.list_files("s:d")] == ["f"]
    assert ddm.locate("s:d", ["g"]) == {"g": []}
    home = ddm.path("A", "s:e", "f").parent
    home.mkdir()
    refused("dataset_missing", ddm.dataset, "s:e")
    ddm.delete("s:e")
    assert home.exists()


def test_a_file_has_one_content_wherever_it_lies(ddm: SqlCatalogueDDM) -> None:
    put(ddm, "A", "s:d", {"f": b"abc"})
    ddm.create("s:d", "B")
    refused("target_differs", publish, ddm, "B", "s:d", {"f": b"abd", "g": b"g"})
    assert not ddm.path("B", "s:d", "f").exists()
    publish(ddm, "B", "s:d", {"f": b"abc"})
    assert ddm.locate("s:d", ["f"]) == {"f": ["A", "B"]}
    (found,) = ddm.list_files("s:d")
    assert found.guid == "guid-f"


def test_a_checksum_nobody_told_is_computed(ddm: SqlCatalogueDDM) -> None:
    ddm.create("s:d", "A")
    ddm.publish("A", [(stage(ddm, "A", "f", b"abc"), "s:d", FileInfo("f", 3))])
    swap(ddm.path("A", "s:d", "f"), "xyz")
    assert [file.adler32 for file in ddm.list_files("s:d")] == [adler(b"abc")]


def waiting(engine: Engine) -> int:
    """How many sessions wait for a lock."""
    with engine.begin() as tx:
        return int(
            tx.execute(
                text(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                    "AND datname = current_database()"
                )
            ).scalar_one()
        )


def test_a_dataset_that_goes_while_files_come(engine: Engine, ddm: SqlCatalogueDDM) -> None:
    """The publisher waits for the deletion, finds no dataset, and leaves no row."""
    ddm.create("s:d", "A")
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as tx:
            catalogue.DELETE_DATASET.run(tx, name="s:d")
            end = pool.submit(refused, "catalogue_changed", publish, ddm, "A", "s:d", {"f": b"f"})
            while not waiting(engine):
                assert not end.done()
        assert "s:d" in end.result().sentence
    with engine.begin() as tx:
        assert tx.execute(text("SELECT count(*) FROM ddm_files")).scalar_one() == 0


def test_two_members_at_once_close_no_circle(ddm: SqlCatalogueDDM) -> None:
    names = [f"s:{i}" for i in range(6)]
    for name in names:
        ddm.create(name, "A", container=True)

    def add(container: str, member: str) -> str:
        try:
            ddm.add_members(container, [member])
        except JediError as error:
            return error.code
        return "added"

    with ThreadPoolExecutor(6) as pool:
        ends = list(pool.map(add, names, [*names[1:], names[0]]))
    assert sorted(ends) == ["added"] * 5 + ["container_cycle"]


def test_endpoints_that_went_hold_nothing(ddm: SqlCatalogueDDM, engine: Engine) -> None:
    put(ddm, "A", "s:d", {"f": b"a b"})
    rest = SqlCatalogueDDM(engine, {"B": ddm.path("B", "s:d", "f").parents[2]}, "/nonexistent")
    assert [file.nevents for file in rest.list_files("s:d")] == [None]
    assert (rest.locate("s:d", ["f"]), rest.replicas("s:d")) == ({"f": []}, [])


@pytest.mark.usefixtures("operators")
def test_what_lies_there_is_taken_up_where_it_is(engine: Engine, tmp_path: Path) -> None:
    """Datasets of a time when the directories were the catalogue."""
    with engine.begin() as tx:
        add_site(tx, "ALPHA", "ALPHA_DISK", tmp_path)
        before = factory.load(tx, knobs.load(tx))
        put(before, "ALPHA_DISK", "s:d", {"f": b"abc", "g": b"g"})
        places = [before.path("ALPHA_DISK", "s:d", lfn) for lfn in "fg"]
        inodes = [place.stat().st_ino for place in places]
        system_knobs.put(call(tx, "me"), "ddm.catalogue", "sql")
        ddm = factory.load(tx, knobs.load(tx))
        refused("dataset_missing", ddm.dataset, "s:d")
        add_files(tx, ddm, "s:d", places)
    assert [(file.lfn, file.adler32) for file in ddm.list_files("s:d")] == [
        ("f", adler(b"abc")),
        ("g", adler(b"g")),
    ]
    assert [place.stat().st_ino for place in places] == inodes


@pytest.mark.usefixtures("operators")
def test_a_knob_says_where_the_catalogue_is(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "f.txt"
    file.write_text("f")
    with engine.begin() as tx:
        (tmp_path / "alpha").mkdir()
        add_site(tx, "ALPHA", "ALPHA_DISK", tmp_path / "alpha")
        with pytest.raises(BadInput, match="filesystem, sql"):
            system_knobs.put(call(tx, "me"), "ddm.catalogue", "rucio")
        system_knobs.put(call(tx, "me"), "ddm.catalogue", "sql")
        ddm = factory.load(tx, knobs.load(tx))
        assert isinstance(ddm, SqlCatalogueDDM) and factory.load(tx, knobs.load(tx)) is ddm
        for _ in range(2):
            add_files(tx, ddm, "user:texts", [file])
        found = dataset_details.show_dataset(ddm, "user:texts")
    assert (found.info.state, [f.lfn for f in found.files]) == ("closed", ["f.txt"])
    assert [(r.endpoint, r.n_files, r.size) for r in found.replicas] == [("ALPHA_DISK", 1, 1)]
