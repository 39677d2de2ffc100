"""Outputs of jobs and tasks are fetched, and go when they are not to be kept any longer; what is
old of jobs and tasks is forgotten with them."""

# Raw UPDATEs: a sandbox whose file is of no interest here.

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jedi_client.cli import job as job_cli
from jedi_client.cli import task as task_cli
from sqlalchemy import event, text
from structlog.testing import capture_logs
from support.calls import call
from support.helpers import put_file_dataset
from support.races import blocked
from support.recovery import fail_one, jobs_of, task, there
from support.service_process import served
from support.task_rows import row_of
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import Forbidden, NotFound, Refused
from jedi.host.home import Home
from jedi.model.queries import FileQuery
from jedi.service.jobs import job_details
from jedi.service.jobs import job_verbs as verbs
from jedi.service.system import knobs
from jedi.service.tasks import cleaning, commanding, task_details
from jedi.taskbuffer.housekeeping import checks
from jedi.taskbuffer.jobs import archive, purging
from jedi.taskbuffer.jobs.purging import Purging
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskbuffer.users import access
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk

OWNER = "anna"
Later = Callable[[float], None]


@pytest.fixture
def later() -> Iterator[Later]:
    """Turns the clock on by so many days."""
    clock.turn_to(clock.now())  # sites have been heard of just now
    yield lambda days: clock.turn_to(clock.now() + timedelta(days=days))
    clock.turn_to(None)


@pytest.fixture
def done(world: World, later: Later) -> int:
    """A done task over two files, a job each; from here on the clock stands."""
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    found = task(world, "first")
    cycle(world)
    assert row_of(world, found).status == "done"
    return found


def dog(world: World, name: str = "purge") -> Counts:
    world.refresh()
    return walk(world, DOGS[name])


def purge(world: World, ids: list[int], who: str = OWNER, **more: float) -> list[Any]:
    with world.engine.begin() as tx:
        return list(job_details.purge(tx, who, ids, "I have them", **more))


def states(world: World, ids: list[int]) -> list[str]:
    with world.engine.begin() as tx:
        return [one.pgi_state for one in job_details.get(tx, ids)]


def missing(world: World) -> list[str]:
    """Datasets of which `jedi check --files` would look for files that are not there."""
    with world.engine.begin() as tx:
        made = [row for page in checks.made_files(tx) for row in page]
    outputs = [row for row in made if not row.dataset_name.endswith(".log")]
    return [row.lfn for row in outputs if row.lfn not in there(world, row.dataset_name)]


def test_a_job_is_purged_and_the_others_are_not(world: World, done: int) -> None:
    first, second = jobs_of(world, done)
    with world.engine.begin() as tx:
        [lost], [kept] = (job_details.outputs(call(tx), one) for one in (first, second))
    assert dog(world) == Counts()
    assert purge(world, [first])[0].retention == clock.now()
    assert states(world, [first]) == ["Finished"]
    assert dog(world) == Counts(purged=1, files=1)
    assert dog(world) == Counts()
    assert states(world, [first, second]) == ["Purged", "Finished"]
    assert there(world, lost.dataset) == [kept.lfn]
    assert missing(world) == []
    with world.engine.begin() as tx:
        assert job_details.outputs(call(tx), first) == []
        assert [file.lfn for file in task_details.outputs(call(tx), done)] == [kept.lfn]
        [page] = task_details.outputs(call(tx), done, limit=1)  # a purged file ends no list
        assert page.lfn == kept.lfn
        assert task_details.outputs(call(tx), done, limit=1, after=page.file_id) == []
        found = task_details.files(call(tx), done, query=FileQuery(type=["output"]))
        assert sorted((file.lfn, file.gone) for file in found) == sorted(
            [(lost.lfn, True), (kept.lfn, False)]
        )
        shown = job_details.show(call(tx), first)
    assert [step.reason_code for step in shown.steps][-2:] == ["to_be_purged", "purged"]
    assert shown.steps[-2].reason == "Its outputs may be removed now, by anna: I have them."
    with pytest.raises(Refused, match="it can't keep them"):
        purge(world, [first], keep_days=1.0)
    with pytest.raises(NotFound):  # all or none
        purge(world, [second, 0])
    assert dog(world) == Counts()


def test_what_was_broken_off_is_purged(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a"}, ENDPOINT)
    vain = task(world, "vain", maxAttempt=1)
    cycle(world, jobs_end_too=False)
    [one] = jobs_of(world, vain)
    fail_one(world, one)
    cycle(world)
    purge(world, [one])
    assert states(world, [one]) == ["Failed-Cancelled"]
    assert dog(world) == Counts(purged=1)
    assert states(world, [one]) == ["Purged"]


def test_until_its_day(world: World, done: int, later: Later) -> None:
    first, _ = jobs_of(world, done)
    purge(world, [first], keep_days=28)
    later(27.99)
    assert dog(world) == Counts()
    later(0.02)
    assert dog(world) == Counts(purged=1, files=1)


@pytest.mark.usefixtures("operators")
def test_by_age(world: World, done: int, later: Later) -> None:
    """What was said of a job counts more; archived jobs are purged, too."""
    first, second = jobs_of(world, done)
    purge(world, [first], keep_days=40)
    later(28.01)
    assert dog(world) == Counts()
    with world.engine.begin() as tx:
        knobs.put(call(tx, "root"), "lifetime.job_outputs_days", "28.02")
        assert len(archive.ARCHIVE_JOBS.rows(tx, age_s=0, after=0, limit=10)) == 2
    assert dog(world) == Counts()
    later(0.02)
    assert dog(world) == Counts(purged=1, files=1)
    later(12)
    assert dog(world) == Counts(purged=1, files=1)
    assert states(world, [first, second]) == ["Purged", "Purged"]
    with world.engine.begin() as tx:
        found = {one.invariant: one for one in checks.examine(tx)}["archived_statistics"]
        assert (found.examined, found.violations) == (1, 0)
        assert task_details.show(call(tx), done).purging == Purging(2, 0, None)
    with pytest.raises(NotFound):
        world.ddm.dataset("a:first")


def test_a_task_may_be_cleaned_while_its_jobs_are_archived(
    world: World, done: int, later: Later
) -> None:
    later(1)
    archiving = world.engine.connect()
    assert len(archive.ARCHIVE_JOBS.rows(archiving, age_s=0, after=0, limit=10)) == 2
    with blocked(world.engine, lambda tx: cleaning.clean(call(tx, OWNER), done)):
        archiving.commit()
        archiving.close()
    assert dog(world) == Counts(purged=2, files=2)


def test_who_dies_in_between(world: World, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    purge(world, jobs_of(world, done))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("jedi.taskbuffer.jobs.purging.note_purged", interrupt)
        dog(world)
    assert dog(world) == Counts(purged=2, files=2)
    assert missing(world) == []


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_who_may_not(world: World, done: int) -> None:
    ids = jobs_of(world, done)
    with world.engine.begin() as tx:
        answers = verbs.purge(call(tx, "eve"), [*ids])
        assert {one.error for one in answers} == {"forbidden"}
    with pytest.raises(Forbidden), world.engine.begin() as tx:
        cleaning.clean(call(tx, "eve"), done)
    reader = task(world, "reader", "a:first")
    cycle(world, jobs_end_too=False)
    for attempt in (lambda: purge(world, ids), lambda: clean(world, done)):
        with pytest.raises(Refused, match=f"Task {reader} still uses a:first"):
            attempt()
    with pytest.raises(Refused, match="purge accepts only jobs that are"):
        purge(world, jobs_of(world, reader))
    with pytest.raises(Refused, match="when it has ended"):
        clean(world, reader)


def clean(world: World, number: int, **more: Any) -> list[cleaning.Cleaned]:
    with world.engine.begin() as tx:
        return cleaning.clean(call(tx, OWNER), number, **more)


def test_a_large_task_is_cleaned_part_by_part(
    world: World, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement for all its jobs would reach the limit that the service has for statements."""
    monkeypatch.setattr(purging, "_AT_ONCE", 1, raising=False)
    at_once: list[int] = []

    def note(_connection: Any, cursor: Any, sql: str, *_: Any) -> None:
        if "retention = jedi_now()" in sql:
            at_once.append(cursor.rowcount)

    event.listen(world.engine, "after_cursor_execute", note)
    clean(world, done, after_days=3)
    event.remove(world.engine, "after_cursor_execute", note)
    assert at_once == [1, 1]
    with world.engine.begin() as tx:
        assert purging.of_task(tx, done).leaving == 2


def test_short_pages_of_gone_outputs_take_two_statements(world: World, done: int) -> None:
    """Not one for each file."""
    purge(world, jobs_of(world, done))
    assert dog(world) == Counts(purged=2, files=2)
    sent: list[str] = []
    with world.engine.begin() as tx:
        event.listen(tx, "before_cursor_execute", lambda *given: sent.append(given[2]))
        assert task_details.outputs(call(tx), done, limit=1) == []
    assert len(sent) == 2


def test_outputs_wait_for_who_reads_them(world: World, done: int) -> None:
    clean(world, done)
    reader = task(world, "reader", "a:first")
    cycle(world, jobs_end_too=False)
    assert dog(world) == Counts()
    cycle(world)
    assert row_of(world, reader).status == "done"
    assert dog(world) == Counts(purged=2, files=2)


def test_a_cleaned_task_goes_on(world: World, done: int) -> None:
    """Nothing is missed that was purged, and nothing goes that is made afterwards."""
    with world.engine.connect() as tx:  # a dry run is rolled back
        assert cleaning.clean(call(tx, OWNER), done) == [cleaning.Cleaned("a:first", 2, 0)]
    assert dog(world) == Counts()
    clean(world, done)
    assert dog(world) == Counts(purged=2, files=2)
    assert clean(world, done) == []
    with world.engine.begin() as tx:
        commanding.command(tx, OWNER, done, "incexec")
    put_file_dataset(world, "demo:in", {"c": b"c"}, ENDPOINT)
    cycle(world)
    assert row_of(world, done).status == "done"
    assert len(there(world, "a:first")) == 1
    assert dog(world) == Counts()
    assert missing(world) == []


# ------------------------------------------------------------------------ the command line


@pytest.fixture
def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str]]]:
    """Runs a command as anna: its exit code and what it printed."""
    with world.engine.begin() as tx:
        token = access.put_user_token(tx, OWNER, None, "all", 600.0)
    monkeypatch.setenv("JEDI_URL", f"unix:{Home(world.settings.home).api_socket}")
    monkeypatch.setenv("JEDI_TOKEN", token)

    def run(module: ModuleType, *words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, words)])
        with pytest.raises(SystemExit) as end:
            module.main()
        return int(end.value.code or 0), capsys.readouterr().out

    with served(world):
        yield run


def test_by_hand(
    world: World,
    done: int,
    run: Callable[..., tuple[int, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, _ = jobs_of(world, done)
    code, out = run(job_cli, "output", first, "--json")
    [file] = json.loads(out)
    assert (code, file["dataset"]) == (0, "a:first")
    assert run(job_cli, "output", first, "--to", tmp_path / "got")[0] == 0
    assert [one.name for one in (tmp_path / "got").iterdir()] == [file["lfn"]]
    code, out = run(task_cli, "clean", done, "--dry-run")
    assert (code, "Files that would be removed now: 2." in out) == (0, True)
    assert run(job_cli, "purge", first, "--comment", "got it")[0] == 0
    assert dog(world) == Counts(purged=1, files=1)
    code, out = run(job_cli, "output", first)
    assert (code, out.startswith(f"The outputs of job {first} were removed at 2")) == (1, True)
    assert "Purged" in run(job_cli, "show", first)[1]
    assert run(task_cli, "get", done, tmp_path / "left")[1].endswith("that were removed: 1.\n")
    assert len([*(tmp_path / "left").iterdir()]) == 1
    assert run(task_cli, "clean", done, "--after", 3)[0] == 0
    assert "outputs   of jobs: 1 gone, 1 kept until 2" in run(task_cli, "show", done)[1]
    code, out = run(task_cli, "clean", done)
    assert (code, "Files that are removed now: 1." in out) == (0, True)
    assert dog(world) == Counts(purged=1, files=1)
    assert "outputs   of jobs: 2 gone\n" in run(task_cli, "show", done)[1]


@pytest.mark.usefixtures("operators")
def test_what_cannot_be_removed_keeps_nobody_else_waiting(world: World, done: int) -> None:
    """Nor is it forgotten: it is tried again."""
    other = task(world, "other")
    cycle(world)
    with world.engine.begin() as tx:
        knobs.put(call(tx, "root"), "watchdog.batch", "2")
    stuck, free = jobs_of(world, done), jobs_of(world, other)
    with world.engine.begin() as tx:
        [file] = job_details.outputs(call(tx), stuck[0])
    path = world.ddm.path(ENDPOINT, file.dataset, file.lfn)
    path.unlink()
    path.mkdir()
    purge(world, [*stuck, *free])
    with capture_logs() as said:
        assert dog(world) == Counts(purged=2, files=2)
    assert [one["dataset"] for one in said if one["event"] == "not removed"] == [file.dataset]
    assert states(world, [*stuck, *free]) == ["Finished"] * 2 + ["Purged"] * 2
    path.rmdir()
    assert dog(world) == Counts(purged=2, files=2)


@pytest.mark.parametrize("of_task", [False, True])
def test_what_is_being_removed_cannot_be_kept(world: World, done: int, of_task: bool) -> None:
    first, _ = made = jobs_of(world, done)

    def keep() -> None:
        with world.engine.begin() as tx:
            if of_task:
                cleaning.clean(call(tx, OWNER), done, after_days=30.0)
            else:
                job_details.purge(tx, OWNER, made, None, 30.0)

    purge(world, made)
    keep()
    assert dog(world) == Counts()
    purge(world, made)
    with world.engine.begin() as tx:
        paths = [
            world.ddm.path(ENDPOINT, file.dataset, file.lfn)
            for job in made
            for file in job_details.outputs(call(tx), job)
        ]
    for path in paths:
        path.unlink()
        path.mkdir()
    assert dog(world) == Counts()
    with pytest.raises(Refused, match="it can't keep them") as refused:
        keep()
    assert (refused.value.code, refused.value.facts["panda_id"]) == ("outputs_going", first)
    purge(world, made)
    with world.engine.begin() as tx:
        assert job_details.get(tx, made)[0].retention is None
    for path in paths:
        path.rmdir()
    assert dog(world) == Counts(purged=2, files=2)


def test_what_is_kept_at_the_last_moment_stays(world: World, done: int) -> None:
    """The dog has found it due already."""
    made, claimed = jobs_of(world, done), []
    purge(world, made)
    owner = world.engine.connect()
    job_details.purge(owner, OWNER, made, None, 30.0)
    with blocked(world.engine, lambda tx: claimed.extend(purging.claim(tx, 0.0, 9))):
        owner.commit()
        owner.close()
    assert claimed == []


# ------------------------------------------------------------------------------- forgotten


def test_logs_of_a_year_ago(world: World, done: int, later: Later) -> None:
    assert world.ddm.dataset("a:first.log").state == "closed"
    later(364.9)
    assert dog(world, "expiry") == Counts()
    later(0.2)
    assert dog(world, "expiry") == Counts(expired=1)
    with pytest.raises(NotFound):
        world.ddm.dataset("a:first.log")
    assert row_of(world, done).status == "done"


def test_local_files_of_old_tasks(world: World, done: int, later: Later) -> None:
    """They stay while a task has not ended, or was asked for again."""
    with world.engine.begin() as tx:
        for sha256 in ("old", "again", "lives"):
            new_tasks.PUT_SANDBOX.run(tx, sha256=sha256, data=b"")
        tx.execute(text("UPDATE jedi_taskparams SET sandbox_sha256 = 'old'"))
    living = task(world, "lives")
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_taskparams SET sandbox_sha256 = 'lives' WHERE jeditaskid = :id"),
            {"id": living},
        )
    later(364.9)
    assert dog(world, "retention")["sandboxes"] == 0
    with world.engine.begin() as tx:
        new_tasks.PUT_SANDBOX.run(tx, sha256="again", data=b"")
    later(0.2)
    assert dog(world, "retention")["sandboxes"] == 1
    with world.engine.begin() as tx:
        left = set(tx.scalars(text("SELECT sha256 FROM jedi_sandboxes")))
        assert left == {"again", "lives"}
        with pytest.raises(Refused, match="--new-code"):
            commanding.command(tx, OWNER, done, "incexec")
