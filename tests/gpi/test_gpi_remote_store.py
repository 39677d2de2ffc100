"""Registries on the service: the lease. Source: docs/reference/ganga.md#writers."""

# Raw UPDATEs: a damaged document, which no session writes.

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from jedi_client import Executable, Job, Script, folders, jobs, paging
from jedi_client.errors import BadInput, Forbidden, JediError, NotFound
from jedi_client.gpi.interfaces import Accepted, UnitRecord, UnitState
from jedi_client.gpi.report import NotWritable, RegistryIsReadOnly
from jedi_client.gpi.session import SESSION
from jedi_client.gpi.store import remote
from jedi_client.gpi.store.opening import open_store
from jedi_client.gpi.store.remote import ReadOnlyWarning, RemoteStore
from jedi_client.gpi.store.rows import TORN
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from sqlalchemy import text
from support.service_process import bare_world, reborn, served

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.service.system.check import check

DOCUMENT = {"type": "Job"}
Sessions = Callable[..., RemoteStore]


@pytest.fixture
def world(engine, home) -> World:  # type: ignore[no-untyped-def]
    return bare_world(engine, home)


@pytest.fixture
def session(world: World) -> Iterator[Sessions]:
    """Open a session of the user's default registry."""
    opened: list[RemoteStore] = []

    def open_session(*, read_only: bool = False) -> RemoteStore:
        profile = Profile(f"unix:{Home(world.settings.home).api_socket}")
        opened.append(RemoteStore(lambda: Client(profile), read_only=read_only))
        return opened[-1]

    with served(world):
        yield open_session
        for one in opened:
            one.close()
    with world.engine.begin() as tx:
        assert [found for found in check(tx) if found.violations] == []


def test_the_second_writer_reads_and_says_so(session: Sessions) -> None:
    """Row 103: "second writer on a remote registry opens read-only"; row 160: "load all, then take
    the softlock or go read-only". Row 155, "one client, one manager per session": of two clients
    of one registry one writes, under its lease."""
    first, second = session(), session()
    first.create("job", [DOCUMENT])
    with pytest.warns(ReadOnlyWarning, match=r"The session of .*, process .* may write"):
        assert [one.id for one in second.list("job")] == [0]
    assert (first.read_only, second.read_only) == (False, True)
    with pytest.raises(RegistryIsReadOnly, match="open read-only"):
        second.create("job", [DOCUMENT])
    first.close()
    third = session()
    assert not third.read_only
    assert second.read_only
    assert third.guid == second.guid


def test_a_lost_lease_is_found_with_the_write(session: Sessions) -> None:
    """Row 103: "write after loss of the lock fails and turns the session read-only, in the same
    transaction"; `take_over()` is explicit."""
    first, second = session(), session(read_only=True)
    [job] = first.create("job", [DOCUMENT])
    second.take_over()
    second.annotate("job", 0, name="mine")
    with pytest.raises(RegistryIsReadOnly, match=r"has taken it over\. Nothing of this change"):
        first.write("job", job.id, {"type": "Job", "lost": True}, job.version)
    assert first.read_only
    [kept] = first.load("job", [0])
    assert (kept.document, kept.name, kept.version) == (DOCUMENT, "mine", 1)
    first.take_over()
    assert first.write("job", 0, {}, 1).version == 2
    with pytest.raises(RegistryIsReadOnly):
        second.remove("job", [0])


def test_a_job_that_is_not_new_is_refused_before_the_lease(session: Sessions) -> None:
    """Row 114: "other: CannotModify…; read-only registry: RegistryIsReadOnly (in that order)"."""
    first, second = session(), session(read_only=True)
    first.create("job", [DOCUMENT])
    first.begin(0, 1, "JEDI")
    with pytest.raises(NotWritable, match="submitting") as refused:
        second.write("job", 0, {}, 1)
    assert not isinstance(refused.value, RegistryIsReadOnly)
    with pytest.raises(NotWritable, match="submitting"):
        first.write("job", 0, {}, 1)
    assert not first.read_only


def test_an_expired_lease_is_free(session: Sessions, at: Callable[[float], None]) -> None:
    """D17: "Take over if the holder's lease expired; else open read-only"; the database's clock
    counts, and each change prolongs the lease (300 s)."""
    first = session()
    first.create("job", [DOCUMENT])
    at(200)
    first.annotate("job", 0, name="x")
    at(400)
    with pytest.warns(ReadOnlyWarning):
        assert session().read_only
    at(501)
    assert not session().read_only
    with pytest.raises(RegistryIsReadOnly):
        first.annotate("job", 0, name="y")


def test_a_session_in_use_keeps_its_lease(
    session: Sessions, at: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that only reads prolongs its lease, once in a while."""
    first = session()
    first.list("job")
    at(290)
    monkeypatch.setattr("jedi_client.gpi.store.remote.RENEW_S", -1.0)
    first.list("job")
    at(400)
    with pytest.warns(ReadOnlyWarning):
        assert session().read_only
    session(read_only=True).take_over()
    with pytest.warns(ReadOnlyWarning, match="taken it over"):
        first.list("job")
    assert first.read_only


def test_clocks_of_clients_do_not_matter(
    session: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose clock is a year off neither loses a lease nor takes one."""
    first = session()
    first.create("job", [DOCUMENT])
    monkeypatch.setattr("time.time", lambda: 0.0)
    with pytest.warns(ReadOnlyWarning):
        assert session().read_only
    first.annotate("job", 0, name="x")


def test_registries_are_their_owners(session: Sessions, world: World) -> None:
    """Another user's registry: Forbidden; an unknown one: NotFound."""
    store = session()
    other = "00000000-0000-4000-8000-000000000000"
    with world.engine.begin() as tx:
        tx.execute(
            text("INSERT INTO jedi_registries (guid, username, name) VALUES (:guid, 'carl', 'x')"),
            {"guid": other},
        )
    with store._session() as (client, guid):
        assert [one.guid for one in client.registry_list()] == [guid]
        with pytest.raises(Forbidden, match="Only carl and operators"):
            client.draft_list(other, "job")
        with pytest.raises(NotFound, match="There is no registry"):
            client.draft_list(other.replace("4", "5"), "job")


def test_a_torn_record_harms_no_other(session: Sessions, world: World) -> None:
    """Check 28: "torn record on disk: rest of registry usable"."""
    store = session()
    store.create("job", [DOCUMENT] * 3)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_drafts SET document = '{' WHERE id = 1"))
    found = store.load("job", [0, 1, 2])
    assert [one.document for one in found] == [DOCUMENT, None, DOCUMENT]
    assert [one.reason for one in found] == [None, TORN, None]
    store.remove("job", [1])
    assert [one.id for one in store.list("job")] == [0, 2]


def test_requests_with_mistakes_are_refused(session: Sessions) -> None:
    """The service checks what other clients than this one may send."""
    store = session()
    store.create("job", [DOCUMENT])
    store.begin(0, 1, "JEDI")
    twice = [{"k": 0, "status": "running"}, {"k": 0, "status": "failed"}]
    with store._writing() as (client, guid, lease):
        for documents, names in (["["], []), (["{}", "[]"], []), (["{}"], ["a", "b"]):
            with pytest.raises(BadInput):
                client.draft_create(guid, "job", lease=lease, documents=documents, names=names)
        with pytest.raises(BadInput):
            client.draft_units(guid, 0, ks=[2**31])
        with pytest.raises(BadInput):
            client.draft_list(guid, "folder")
        with pytest.raises(BadInput):
            client.folder_put(guid, lease=lease, path="no/root")
        done = client.draft_accept(
            guid, 0, lease=lease, backend_id="17", status="submitted", units=twice
        )
    assert done.counts == {"failed": 1}


def test_writers_take_turns(session: Sessions) -> None:
    """Two threads of one session, as `watch` and the user: no change is lost."""
    store = session()
    store.create("job", [{"count": 0}])

    def count() -> None:
        for _ in range(20):
            while True:
                [one] = store.load("job", [0])
                assert one.document
                try:
                    store.write("job", 0, {"count": one.document["count"] + 1}, one.version)
                    break
                except NotWritable:
                    continue

    threads = [threading.Thread(target=count) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert store.load("job", [0])[0].document == {"count": 40}


def test_a_restart_of_the_service_loses_nothing(world: World) -> None:
    """Row 108: "restart of server loses nothing": also not the lease."""
    profile = Profile(f"unix:{Home(world.settings.home).api_socket}")
    store = RemoteStore(lambda: Client(profile))
    units = [UnitRecord(UnitState(k, "submitted"), {"k": k}) for k in range(1_000)]
    with served(world):
        store.create("job", [DOCUMENT])
        store.begin(0, 1, "JEDI")
        store.accept(0, Accepted("17"), "submitted", units)
    with served(world), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.units(0) == units
        assert store.annotate("job", 0, name="x").counts == {"submitted": 1_000}
        store.close()


@pytest.mark.long
def test_a_killed_service_stores_each_change_once(world: World) -> None:
    """`kill -9 at each write`: the service dies while it creates records; each is there once."""
    profile = Profile(f"unix:{Home(world.settings.home).api_socket}")
    with reborn(world) as life:
        store = RemoteStore(lambda: Client(profile))
        alive = life()
        assert not store.list("job")
        for n in range(24):
            killer = threading.Timer(n / 4_000, os.kill, (alive, signal.SIGKILL))
            if n % 4 == 0:
                killer.start()
            store.create("job", [{"n": n}])
            if n % 4 == 0:
                killer.join()
                alive = life()
        found = store.load("job", [one.id for one in store.list("job")])
        assert [(one.id, one.document) for one in found] == [(n, {"n": n}) for n in range(24)]
        store.close()


def test_people_use_a_registry_of_the_service(
    session: Sessions, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`JEDI_CLIENT_REGISTRY`: the same objects, folders and exports over the service; the second
    session only reads until `take_over`."""
    url = f"unix:{Home(world.settings.home).api_socket}"
    monkeypatch.setenv("JEDI_CLIENT_REGISTRY", url)
    SESSION.close()
    try:
        job = Job(name="one", application=Script("fit.py"))
        job.application.args += ["--verbose"]
        folders.cd("/2025").add(job)
        assert (jobs("one") is job, job.folder, jobs.read_only) == (True, "/2025", False)
        other = session(read_only=True)
        assert jobs.guid == other.guid
        [kept] = other.load("job", [0])
        assert kept.document and kept.document["application"]["args"] == ["--verbose"]
        jobs.export(tmp_path / "jobs.json")
        assert [one.name for one in jobs.load(tmp_path / "jobs.json")] == ["one"]
        other.take_over()
        with pytest.raises(RegistryIsReadOnly):
            job.application.args += ["--lost"]
        assert jobs.read_only
        assert other.load("job", [0])[0].document == kept.document
        jobs.take_over()
        job.comment = "good"
        assert other.list("job")[0].comment == "good"
    finally:
        SESSION.close()


def test_local_jobs_of_another_home_are_not_mistaken_for_ours(
    session: Sessions, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`Two sessions and two machines on one registry`: both homes have a run 1; the second one
    neither reads nor kills the first one's, and says where it runs."""
    monkeypatch.setenv("JEDI_CLIENT_REGISTRY", f"unix:{Home(world.settings.home).api_socket}")
    monkeypatch.setenv("JEDI_HELPER_IDLE_S", "0.3")
    names = []
    for n, command in enumerate(("true", "false")):
        monkeypatch.setenv("JEDI_CLIENT_HOME", str(tmp_path / str(n)))
        SESSION.close()
        if n:
            jobs.take_over()
        job = Job(application=Executable(command), backend="Local")
        job.submit()
        job.wait(20)
        names.append((job.status, job.backend.id))
    assert names == [("completed", "1"), ("failed", "1")]
    first = jobs(0)
    assert first.status == "completed"
    with pytest.raises(JediError, match="another machine"):
        first.resubmit()
    SESSION.close()


def test_several_registries_are_open_together(
    session: Sessions, world: World, tmp_path: Path
) -> None:
    """Row 100: "local and remote open together"; each has its own GUID and ids."""
    url = f"unix:{Home(world.settings.home).api_socket}"
    session().create("job", [DOCUMENT])
    named, file, folder = (
        open_store(one)
        for one in (f"{url}#thesis", f"file://{tmp_path}/a%20b/registry.db", tmp_path / "home")
    )
    for one in (named, file, folder):
        assert [made.id for made in one.create("job", [DOCUMENT])] == [0]
    assert len({one.guid for one in (named, file, folder, session(read_only=True))}) == 4
    assert named.url == f"{url}#thesis"
    assert open_store(file.url).guid == file.guid
    assert (tmp_path / "home/registry.db").exists() and (tmp_path / "a b/registry.db").exists()
    for one in (named, file, folder):
        one.close()


def test_all_mistakes_of_a_call_at_once(session: Sessions, world: World) -> None:
    """Expected: bounds of names, comments and numbers, all mistakes at once, each with its field,
    value, rule and remedy; nothing is stored."""
    first = session()
    first.create("job", [DOCUMENT])
    client = Client(Profile(f"unix:{Home(world.settings.home).api_socket}"))
    [registry] = client.registry_list()
    lease = client.registry_lease(registry.guid, holder="test", take_over=True).lease
    call = partial(client.draft_create, registry.guid, "job", lease=lease)
    with pytest.raises(BadInput) as caught:
        call(documents=["{}"] * 10_001, names=["n" * 1_001], comments=["c" * 100_001])
    paths = [one.path for one in caught.value.problems]
    assert paths == ["documents", "names.0", "comments.0"]
    with pytest.raises(BadInput) as caught:
        call(documents=["[]", "{}", "{"], names=["n"], comments=["c"] * 2)
    assert {one.path: one.value for one in caught.value.problems} == {
        "documents.0": "[]",
        "documents.2": "{",
        "names": 1,
        "comments": 2,
    }
    assert all(one.rule and one.remedy for one in caught.value.problems)
    assert [one.id for one in client.draft_list(registry.guid, "job")] == [0]
    with pytest.raises(BadInput, match="name"):
        client.draft_annotate(registry.guid, "job", 0, lease=lease, name="n" * 1_001)


def test_registries_are_read_in_pages(
    session: Sessions, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: "answers are limited to 10,000 rows"; here to 2. A record that changes between two
    pages comes again, and none is left out."""
    for module in (remote, paging):
        monkeypatch.setattr(module, "PAGE", 2)
    store = session()
    store.create("job", [DOCUMENT] * 5)
    for path, ids in (("/a", [0, 1]), ("/b/c", [3]), ("/d", [])):
        store.put(path, ids)
    assert [one.id for one in store.list("job")] == [0, 1, 2, 3, 4]
    assert [one.id for one in store.load("job", [4, 0, 2])] == [4, 0, 2]
    assert store.folders() == {"/": [], "/a": [0, 1], "/b": [], "/b/c": [3], "/d": []}
    client = Client(Profile(f"unix:{Home(world.settings.home).api_socket}"))
    seen: list[int] = []
    since, after = 0, None
    for _ in range(3):
        page = client.draft_list(store.guid, "job", since=since, after=after, limit=2)
        seen += [one.id for one in page]
        since, after = page[-1].change, page[-1].id
        if len(seen) == 2:
            store.annotate("job", 0, name="changed")
    assert seen == [0, 1, 2, 3, 4, 0]
    assert client.draft_list(store.guid, "job", since=since, after=after) == []
    store.remove("job", [0, 1, 2])
    assert store.removed("job") == [0, 1, 2]
    with pytest.raises(BadInput, match="limit"):
        client.draft_removed(store.guid, "job", limit=10_001)
    client.close()
