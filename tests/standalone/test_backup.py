"""What is backed up, what is not restored, and numbers after a restore."""

# Raw UPDATEs: damaged rows are the point.

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import IntegrityError
from support import merging
from support.adder import ENDPOINT, Pilot, claimed
from support.commanding import jobs
from support.databases import drop_database, new_database
from support.helpers import add_site
from support.job_rows import make_jobs

from jedi.agent.base import World
from jedi.core import webhookkey
from jedi.core.errors import JediError, NotFound, Refused
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM
from jedi.host.home import Home
from jedi.model.jobs.wire import Resources
from jedi.service.system import restoring
from jedi.service.system.check import check
from jedi.service.system.restoring import _pattern
from jedi.standalone import binaries
from jedi.standalone.backup import _database, _major, backup, restore
from jedi.standalone.installation import Installation
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.housekeeping.restoring import MERGE_PARTS
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.schema import migrate
from jedi.taskbuffer.users import users as user_rows
from jedi.taskbuffer.users.users import Notices

pytestmark = pytest.mark.long


def place_of(home: Path, url: str) -> Installation:
    return Installation(Home(home), None, Settings(home, url))


def test_a_backup_becomes_the_same_database(
    engine: Engine, database_url: str, empty_url: str, home: Path, tmp_path: Path
) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 3)
        tx.execute(text("DROP SCHEMA seen CASCADE"))
    file = backup(place_of(home, database_url), tmp_path / "one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(Refused, match="exists"):
        backup(place_of(home, database_url), file)
    into = place_of(home, empty_url)
    assert restore(into, file).jobs == 0
    again = connect(empty_url)
    try:
        assert (migrate.current(again), migrate.differences(again)) == (migrate.head(), [])
        with again.begin() as tx:
            assert tx.scalars(text("SELECT pandaid FROM jedi_jobs ORDER BY 1")).all() == made.jobs
            fences = tx.scalars(text("SELECT lock_seq FROM jedi_jobs")).all()
            assert min(fences) > 1000
            assert (tx.scalar(text("SELECT nextval('jedi_panda_id_seq')")) or 0) > made.jobs[-1] + 1
    finally:
        again.dispose()
    with pytest.raises(Refused, match="is not empty"):
        restore(into, file)


def test_a_backup_makes_its_directory(database_url: str, home: Path, tmp_path: Path) -> None:
    """A name without an ending is a directory, for its owner alone."""
    installation = place_of(home, database_url)
    file = backup(installation, tmp_path / "new" / "backups")
    assert (file.parent, file.suffix) == (tmp_path / "new" / "backups", ".dump")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert backup(installation, tmp_path / "other" / "one.dump") == tmp_path / "other" / "one.dump"


def test_a_backup_of_an_older_release(
    server: str, template: str, empty_url: str, home: Path, tmp_path: Path
) -> None:
    """It is brought to the present schema, with jobs that wait, run and have ended, and goes on."""
    old_url = new_database(server, template)
    old = connect(old_url)
    with old.begin() as tx:
        add_site(tx, "SITE_A", ENDPOINT, tmp_path)
        made = make_jobs(tx, 3)
        job_ends.end_jobs(tx, [JobEnd(made.jobs[0], "closed", "waiting_timeout", "r")], "test")
        move_jobs(tx, [JobMove(made.jobs[1], "sent", "c", "r")], "test", ["activated"])
        tx.execute(text("DROP SCHEMA seen CASCADE"))
    migrate.downgrade(old, "0008")
    old.dispose()
    file = backup(place_of(home, old_url), tmp_path / "old")
    drop_database(server, old_url)
    assert restore(place_of(home, empty_url), file).jobs == 1
    again = connect(empty_url)
    try:
        assert (migrate.current(again), migrate.differences(again)) == (migrate.head(), [])
        with again.begin() as tx:
            statuses = dict(job_ends.STATUSES.rows(tx, ids=made.jobs))
            assert [statuses[job] for job in made.jobs] == ["closed", "closed", "activated"]
            assert [one for one in check(tx) if one.violations and one.of == "job"] == []
            [taken] = dispatch.acquire(tx, "SITE_A", 9, Resources(cores=1), "after", "pilot")
            assert taken.panda_id == made.jobs[2]
    finally:
        again.dispose()


def test_no_upgrade_leaves_a_webhook_secret_in_clear(
    server: str, template: str, empty_url: str, home: Path, tmp_path: Path
) -> None:
    """A webhook secret stands in clear in neither database nor backup. One of an older release
    is sealed by an upgrade and by a restore. It signs as before, with the home's key alone."""
    clear = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    old_url = new_database(server, template)
    place, old = place_of(home, old_url), connect(old_url)
    migrate.downgrade(old, "0008")
    with old.begin() as tx:
        tx.execute(text("DROP SCHEMA seen CASCADE"))
        wanted = Notices(None, "http://127.0.0.1:9/", "tasks")
        user_rows.put_notices(tx, "ann", wanted, clear)
        user_rows.put_notices(tx, "bob", wanted, None)
    older = backup(place, tmp_path / "older.dump")
    migrate.upgrade(old, seal=place.seal)
    assert _signs(old, home) == clear
    with pytest.raises(IntegrityError, match="webhook_secret"), old.begin() as tx:
        user_rows.put_notices(tx, "bob", wanted, clear)
    newer = backup(place, tmp_path / "newer.dump")
    assert clear in _dumped(old, older)
    assert clear[6:] not in _dumped(old, newer)
    restore(place_of(home, empty_url), older)
    again = connect(empty_url)
    assert _signs(again, home) == clear
    again.dispose()
    migrate.downgrade(old, "0008")  # the older release would say that it lacks the key
    old.dispose()
    drop_database(server, old_url)


def _signs(engine: Engine, home: Path) -> str:
    """The secret that signs ann's messages; no row has it."""
    with engine.begin() as tx:
        kept = tx.scalars(text("SELECT webhook_secret FROM jedi_users ORDER BY username")).all()
    secret = webhookkey.secret(webhookkey.key_of(Home(home).webhook_key), "ann", str(kept[0]))
    assert not any(secret[6:] in str(one) for one in kept)
    return secret


def _dumped(engine: Engine, file: Path) -> str:
    """A backup as SQL."""
    program = binaries.client("pg_restore", _major(engine))
    done = subprocess.run([program, "--file=-", file], capture_output=True, check=True)
    return done.stdout.decode()


def test_what_was_published_and_not_told_of_is_removed_from_the_catalogue_too(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "ddm.catalogue", "sql", "test")
    world = World(world.engine, world.settings, world.load_knobs, factory.load)
    world.refresh()
    assert isinstance(world.ddm, SqlCatalogueDDM)
    pilot = Pilot(world)
    pilot.finish()
    agent, taken = claimed(world)
    agent.prepare(taken)
    [name] = pilot.published("output")
    path = world.ddm.path(ENDPOINT, pilot.dataset("output"), name)
    assert path.is_file()
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_output_template (jeditaskid, datasetid, filenametemplate) "
                "VALUES (:task, :data, 'output.${SN}.${SN}')"
            ),
            {"task": pilot.made.task, "data": pilot.made.output},
        )
        assert restoring.go_on(tx, world.ddm) == (1, 1, {})
    assert not path.exists()
    assert pilot.published("output") == []


def test_parts_at_an_endpoint_that_was_removed_are_told_and_wait(world: World) -> None:
    task = merging.task_of(world, 3)
    there, away, gone = jobs(world, task, "activated")
    merging.make(world, [there, away, gone])
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_job_files SET endpoint = 'AWAY' WHERE pandaid = :job AND "
                "type = 'output'"
            ),
            {"job": away},
        )
        lying = {}
        for part in MERGE_PARTS.rows(tx):
            if part.endpoint == "AWAY":
                told = {"AWAY": [f"{part.dataset_name}/{part.lfn}"]}
            else:
                path = world.ddm.path(part.endpoint, part.dataset_name, part.lfn)
                lying[part.panda_id] = path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        lying[gone].unlink()
        found = restoring.go_on(tx, world.ddm)
    assert found == (1, 0, told)
    assert jobs(world, task, "merging") == [there, away]
    assert jobs(world, task, "closed") == [gone]


def test_what_does_not_fit_is_refused_and_changes_nothing(
    server: str, engine: Engine, database_url: str, empty_url: str, home: Path, tmp_path: Path
) -> None:
    into = place_of(home, empty_url)
    with pytest.raises(NotFound):
        restore(into, tmp_path / "none")
    text_file = tmp_path / "text"
    text_file.write_text("x")
    with pytest.raises(JediError, match="pg_restore failed"):
        restore(into, text_file)
    other = new_database(server)
    with pytest.raises(Refused, match="no backup of JEDI"):
        restore(into, backup(place_of(home, other), tmp_path / "other"))
    drop_database(server, other)
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_schema_version SET version_num = '9999'"))
    newer = backup(place_of(home, database_url), tmp_path / "newer")
    with pytest.raises(Refused, match=r"newer release \(schema 9999\)"):
        restore(into, newer)
    empty = connect(empty_url)
    assert migrate.empty(empty)
    empty.dispose()


def test_a_damaged_backup_is_refused_with_a_reason_and_changes_nothing(
    engine: Engine, database_url: str, empty_url: str, home: Path, tmp_path: Path
) -> None:
    """Wherever the damage is; some kill pg_restore."""
    whole = backup(place_of(home, database_url), tmp_path / "whole").read_bytes()
    damaged = tmp_path / "damaged"
    for at in range(len(whole) // 10, len(whole), len(whole) // 10):
        damaged.write_bytes(whole[:at] + b"U" * 2000 + whole[at + 2000 :])
        with pytest.raises(JediError, match=r"pg_restore failed: \w"):
            restore(place_of(home, empty_url), damaged)
    empty = connect(empty_url)
    assert migrate.empty(empty)
    empty.dispose()


def test_storage_of_a_home_that_is_up_is_left_alone(
    engine: Engine,
    database_url: str,
    empty_url: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A restore removes what was made since the backup."""
    old, other = (place_of(tmp_path / name, database_url) for name in ("old", "other"))
    with engine.begin() as tx:
        tx.execute(text("DROP SCHEMA seen CASCADE"))
        add_site(tx, "OLD", "OLD_DISK", old.home.storage / "disk")
        tx.execute(text("INSERT INTO jedi_ddm_endpoints (ddm_endpoint) VALUES ('NOWHERE')"))
    file = backup(old, tmp_path / "one")
    into = place_of(home, empty_url)
    with old.sole("up"), pytest.raises(Refused, match=f"up in {old.home.path}"):
        restore(into, file)
    with pytest.raises(Refused, match="up in"):  # this process still lives
        restore(into, file)
    old.home.lock_file.unlink()
    with other.sole("up"):  # it has none of the storage
        monkeypatch.chdir(other.home.path)
        restore(into, file)


def test_what_failed_leaves_no_part_of_a_file(
    engine: Engine, database_url: str, home: Path, tmp_path: Path
) -> None:
    with engine.begin() as tx:
        tx.execute(text("CREATE ROLE stranger LOGIN"))
    url = make_url(database_url).set(username="stranger")
    try:
        with pytest.raises(JediError, match=r"pg_dump failed.*permission denied"):
            backup(place_of(home, url.render_as_string()), tmp_path)
    finally:
        with engine.begin() as tx:
            tx.execute(text("DROP ROLE stranger"))
    assert list(tmp_path.glob("*.part")) == list(tmp_path.glob("*.dump")) == []


def test_a_password_is_in_no_command_line(home: Path) -> None:
    installation = place_of(home, "postgresql+psycopg://me:secret@db.example.org:5433/jedi")
    assert _database(installation) == ["--dbname=postgresql://me@db.example.org:5433/jedi"]


def test_names_that_a_template_gives() -> None:
    given = _pattern("a+${SN}.${MIDDLENAME}.tgz")
    assert given.fullmatch("a+000012.x.y.tgz")
    for other in ("a+b.x.tgz", "a+000012.tgz", "aa000012.x.tgz", "a+000012.x.tgz.1"):
        assert not given.fullmatch(other)
