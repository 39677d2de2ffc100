"""What is backed up, what is not restored, and numbers after a restore."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from databases import drop_database, new_database
from job_rows import make_jobs
from sqlalchemy import Engine, make_url, text

from jedi.core.errors import JediError, NotFound, Refused
from jedi.core.home import Home
from jedi.core.settings import Settings
from jedi.service.restoring import _pattern
from jedi.standalone.backup import _database, backup, restore
from jedi.standalone.place import Place
from jedi.taskbuffer import migrate
from jedi.taskbuffer.engine import connect


def place_of(home: Path, url: str) -> Place:
    return Place(Home(home), None, Settings(home, url))


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
    place = place_of(home, "postgresql+psycopg://me:secret@db.example.org:5433/jedi")
    assert _database(place) == ["--dbname=postgresql://me@db.example.org:5433/jedi"]


def test_names_that_a_template_gives() -> None:
    given = _pattern("a+${SN}.${MIDDLENAME}.tgz")
    assert given.fullmatch("a+000012.x.y.tgz")
    for other in ("a+b.x.tgz", "a+000012.tgz", "aa000012.x.tgz", "a+000012.x.tgz.1"):
        assert not given.fullmatch(other)
