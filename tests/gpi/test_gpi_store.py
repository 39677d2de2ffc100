"""Stores of registries: the same rules for each kind. Source: docs/reference/ganga.md#writers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest
from jedi_client.errors import BadInput, NotFound
from jedi_client.gpi.interfaces import (
    Accepted,
    Entry,
    JobState,
    Record,
    Status,
    Store,
    UnitRecord,
    UnitState,
)
from jedi_client.gpi.report import NotWritable, RegistryIsReadOnly
from jedi_client.gpi.store.sqlite_store import SqliteStore
from support.stores import Opens

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
DOCUMENT = {"type": "Job", "application": {"type": "Script", "file": "fit.py"}}


@pytest.fixture
def store(opens: Opens) -> Store:
    return opens()


def units(*statuses: Status) -> list[UnitRecord]:
    return [
        UnitRecord(UnitState(k, status), {"application.args": [str(k)]})
        for k, status in enumerate(statuses)
    ]


def submitted(store: Store, *statuses: Status) -> Record:
    """A job with subjobs of these statuses."""
    [new] = store.create("job", [DOCUMENT])
    store.begin(new.id, new.version, "JEDI")
    return store.accept(new.id, Accepted("17"), "submitted", units(*statuses))


def state(*changed: UnitState, cursor: str = "c1", complete: bool = True) -> JobState:
    return JobState("17", "running", changed, {}, complete, cursor)


def test_a_registry_has_a_guid_and_ids_from_0(opens: Opens) -> None:
    """Row 98: "each registry has a UUID"; row 15: ids ascend from 0; row 101: "`templates` separate
    from `jobs`; ids do not mix"; row 97: a job is there after a restart."""
    store = opens()
    assert UUID(store.guid).version == 4
    assert [one.id for one in store.create("job", [DOCUMENT, {"type": "Job"}])] == [0, 1]
    assert [one.id for one in store.create("template", [DOCUMENT])] == [0]
    store.close()
    again = opens()
    assert again.guid == store.guid
    assert [one.id for one in again.create("job", [DOCUMENT])] == [2]
    [first] = again.load("job", [0])
    assert (first.document, first.status, first.version) == (DOCUMENT, "new", 1)
    assert [one.document for one in again.list("job")] == [None, None, None]


def test_ids_are_never_used_again(opens: Opens) -> None:
    """Row 110: "id not reused", also of the last job, and in another session."""
    store = opens()
    store.create("job", [DOCUMENT] * 3)
    store.remove("job", [2, 1])
    store.close()
    [new] = opens().create("job", [DOCUMENT])
    assert new.id == 3


def test_a_new_job_is_written_under_its_version(opens: Opens) -> None:
    """Row 114: "new: writable". A second writer with an old version is refused: row 153,
    `WHERE status='new' AND version=…`."""
    mine, yours = opens(), opens()
    [job] = mine.create("job", [DOCUMENT])
    changed = {**DOCUMENT, "outputsandbox": ["fit.log"]}
    assert mine.write("job", job.id, changed, job.version).version == job.version + 1
    with pytest.raises(NotWritable, match="Another session has changed job 0"):
        yours.write("job", job.id, DOCUMENT, job.version)
    assert yours.load("job", [0])[0].document == changed


def test_only_name_and_comment_of_a_submitted_job_are_writable(store: Store) -> None:
    """Ruling D16: "`name`, `comment` and folder membership are client-owned annotations, writable
    in any state; all else follows the writer rule"."""
    job = submitted(store, "submitted")
    with pytest.raises(NotWritable, match="Job 0 is submitted: only new jobs"):
        store.write("job", job.id, DOCUMENT, job.version)
    named = store.annotate("job", job.id, name="Z → µµ", comment="good")
    assert (named.name, named.comment, named.version) == ("Z → µµ", "good", job.version)
    assert store.annotate("job", job.id, comment="").name == "Z → µµ"
    with pytest.raises(NotFound):
        store.annotate("job", 5, name="x")


def test_two_jobs_may_share_a_name(store: Store) -> None:
    """Row 71: "name optional, not unique"."""
    store.create("job", [DOCUMENT] * 2, names=["a", "a"], comments=["", "second"])
    assert [(one.name, one.comment) for one in store.list("job")] == [("a", ""), ("a", "second")]


def test_a_read_only_registry_refuses_every_write(opens: Opens) -> None:
    """Row 104: "any write raises RegistryIsReadOnly; reads work"; row 114: a job that is not new is
    NotWritable first."""
    writer = opens()
    submitted(writer, "running")
    [new] = writer.create("job", [DOCUMENT])
    writer.put("/a", [0])
    store = opens(read_only=True)
    assert store.read_only
    writes: list[Callable[[], object]] = [
        lambda: store.create("job", [DOCUMENT]),
        lambda: store.write("job", new.id, DOCUMENT, new.version),
        lambda: store.annotate("job", 0, name="x"),
        lambda: store.remove("job", [0]),
        lambda: store.begin(new.id, new.version, "Local"),
        lambda: store.accept(0, Accepted("18"), "submitted", []),
        lambda: store.give_up(0, "new", "refused"),
        lambda: store.note({0: state(cursor="c9")}, NOON),
        lambda: store.make_folder("/b"),
        lambda: store.remove_folder("/a"),
        lambda: store.put("/a", [1]),
        lambda: store.take_out("/a", [0]),
    ]
    for write in writes:
        with pytest.raises(RegistryIsReadOnly):
            write()
    with pytest.raises(NotWritable) as refused:
        store.write("job", 0, DOCUMENT, 1)
    assert not isinstance(refused.value, RegistryIsReadOnly)
    assert [one.status for one in store.list("job")] == ["submitted", "new"]
    assert store.units(0) == units("running")
    assert store.folders() == {"/": [], "/a": [0]}


def test_a_submission_has_a_number_and_happens_once(opens: Opens) -> None:
    """Row 66: "second submit raises, no second task"; row 154: "at no instant both or neither may
    write"."""
    mine, yours = opens(), opens()
    [job] = mine.create("job", [DOCUMENT])
    begun = mine.begin(job.id, job.version, "JEDI")
    assert (begun.status, begun.submissions, begun.backend) == ("submitting", 1, "JEDI")
    with pytest.raises(NotWritable, match="submitting"):
        yours.begin(job.id, job.version, "JEDI")
    with pytest.raises(NotWritable, match="submitting"):
        yours.write("job", job.id, DOCUMENT, job.version)
    done = mine.accept(job.id, Accepted("17"), "submitted", units("submitted", "failed"), 1)
    assert (done.status, done.backend_id, done.complete) == ("submitted", "17", True)
    assert done.counts == {"submitted": 1, "failed": 1}
    with pytest.raises(NotWritable, match="no submission waits"):
        mine.accept(job.id, Accepted("18"), "submitted", [])


def test_a_lost_answer_leaves_the_job_unknown_until_it_is_settled(store: Store) -> None:
    """Row 45: "Submit whose reply is lost leaves the job unknown and read-only; later
    reconciliation gives new or submitted"; row 38: no job stays submitting."""
    [job] = store.create("job", [DOCUMENT])
    store.begin(job.id, job.version, "JEDI")
    lost = store.give_up(job.id, "unknown", "the answer was lost")
    assert (lost.status, lost.reason) == ("unknown", "the answer was lost")
    with pytest.raises(NotWritable, match="unknown"):
        store.write("job", job.id, DOCUMENT, job.version)
    again = store.give_up(job.id, "new", "did not arrive")
    assert (again.status, again.backend, store.units(job.id)) == ("new", None, [])
    assert store.begin(job.id, again.version, "JEDI").submissions == 2
    with pytest.raises(NotWritable, match="number 1 of 2"):
        store.accept(job.id, Accepted("16"), "submitted", [], submission=1)
    store.give_up(job.id, "unknown", "lost", submission=2)
    assert store.accept(job.id, Accepted("17"), "submitted", [], submission=2).reason is None


def test_states_move_jobs_and_their_subjobs(store: Store) -> None:
    """The five rules: submitted before running, then failed, completed, killed."""
    job = submitted(store, "submitted", "submitted", "submitted")
    expected: list[tuple[int, Status, Status]] = [
        (0, "running", "submitted"),
        (1, "failed", "submitted"),
        (2, "killed", "running"),
        (0, "completed", "failed"),
        (1, "completed", "completed"),
        (0, "killed", "completed"),
        (1, "killed", "killed"),
        (2, "submitted", "submitted"),
    ]
    ends: set[datetime | None] = set()
    for n, (k, status, master) in enumerate(expected):
        now = NOON + timedelta(minutes=n)
        [one] = store.note({job.id: state(UnitState(k, status, n), cursor=f"c{n}")}, now)
        assert one.status == master, (k, status)
        ends.add(one.ended)
        assert (one.ended is not None) == (master in {"failed", "completed", "killed"})
    assert len(ends) == 2  # none, and that of its first end
    assert one.counts == {"killed": 2, "submitted": 1}
    assert [u.state.attempt for u in store.units(job.id)] == [5, 6, 7]
    overrides = [{"application.args": [str(k)]} for k in range(3)]
    assert [u.override for u in store.units(job.id)] == overrides


def test_running_may_come_first(tmp_path: Path) -> None:
    """Row 34: "a setting puts rule 2 before rule 1"."""
    store = SqliteStore(tmp_path / "registry.db", running_first=True)
    job = submitted(store, "submitted", "submitted")
    [one] = store.note({job.id: state(UnitState(0, "running"))}, NOON)
    assert one.status == "running"
    store.close()


def test_a_job_without_subjobs_yet_waits_for_them(store: Store) -> None:
    """Status: "'submitted' while a task has no units yet"; "broken before any unit: failed with
    reason"; superseded subjobs count no longer."""
    job = submitted(store)
    assert not job.complete
    [waits] = store.note({job.id: state(complete=False)}, NOON)
    assert (waits.status, waits.complete) == ("submitted", False)
    cut = state(UnitState(0, "running"), UnitState(1, "failed", superseded=True), cursor="c2")
    [runs] = store.note({job.id: cut}, NOON)
    assert (runs.status, runs.counts, runs.complete) == ("running", {"running": 1}, True)
    other = submitted(store)
    broken = JobState("17", "broken", [], {}, True, "c1", "no such dataset")
    [ended] = store.note({other.id: broken}, NOON)
    assert (ended.status, ended.reason) == ("failed", "no such dataset")


def test_a_late_state_of_another_session_is_dropped(opens: Opens) -> None:
    """Row 157: "Late cache writes dropped": both sessions asked from the same cursor; the slower
    one must not undo the state of the faster."""
    mine, yours = opens(), opens()
    job = submitted(mine, "submitted")
    done = state(UnitState(0, "completed"), cursor="c2")
    late = state(UnitState(0, "running"), cursor="c1")
    assert len(mine.note({job.id: done}, NOON, {job.id: None})) == 1
    assert yours.note({job.id: late}, NOON, {job.id: None}) == []
    assert yours.list("job")[0].status == "completed"
    assert yours.note({99: done, job.id: done}, NOON) != []


def test_states_of_jobs_that_are_not_submitted_are_dropped(store: Store) -> None:
    """The client writes new jobs; the backend writes from the submission on."""
    [job] = store.create("job", [DOCUMENT])
    assert store.note({job.id: state(UnitState(0, "running"))}, NOON) == []
    assert store.units(job.id) == []


def test_the_same_state_again_changes_nothing(store: Store) -> None:
    """Other sessions ask for changes: a poll without news must not give any."""
    job = submitted(store, "submitted")
    [one] = store.note({job.id: state(UnitState(0, "running"))}, NOON)
    assert store.note({job.id: state()}, NOON, {job.id: "c1"}) == []
    assert store.list("job", since=one.change) == []


def test_sessions_see_the_changes_of_others(opens: Opens) -> None:
    """Row 159: `changed_since` cursor: records changed after `since`, and removed ones."""
    mine, yours = opens(), opens()
    mine.create("job", [DOCUMENT] * 4)
    seen = max(one.change for one in yours.list("job"))
    assert (yours.list("job", since=seen), yours.removed("job", since=seen)) == ([], [])
    mine.annotate("job", 2, name="x")
    mine.create("template", [DOCUMENT])
    mine.remove("job", [1, 3])
    assert [(one.id, one.name) for one in yours.list("job", since=seen)] == [(2, "x")]
    assert list(yours.removed("job", since=seen)) == [1, 3]
    assert [one.id for one in yours.list("job")] == [0, 2]


def test_a_removed_job_is_not_written_again(opens: Opens) -> None:
    """Check 25: "deleted job is not committed again". One unknown id: nothing is removed."""
    mine, yours = opens(), opens()
    job = submitted(mine, "completed")
    mine.put("/a", [job.id])
    with pytest.raises(NotFound, match="There is no job 7"):
        mine.remove("job", [job.id, 7])
    assert yours.units(job.id) != []
    mine.remove("job", [job.id])
    for late in (
        lambda: yours.write("job", job.id, DOCUMENT, job.version),
        lambda: yours.annotate("job", job.id, name="x"),
        lambda: yours.accept(job.id, Accepted("17"), "submitted", []),
        lambda: yours.units(job.id),
        lambda: yours.put("/a", [job.id]),
    ):
        with pytest.raises(NotFound):
            late()
    assert yours.note({job.id: state(cursor="c9")}, NOON) == []
    assert (yours.list("job"), yours.folders()) == ([], {"/": [], "/a": []})


def test_a_failed_merge_fails_the_job_until_its_units_change(opens: Opens) -> None:
    """Check 24: "failing merge fails the master"; 35: "after each single change master equals the
    function of all subjobs": a later change counts again."""
    store = opens()
    job = submitted(store, "running", "completed")
    assert store.merged(job.id, "too early").status == "submitted"  # nothing has ended
    store.note({job.id: state(UnitState(0, "completed"))}, NOON)
    failed = store.merged(job.id, "no such file")
    assert (failed.status, failed.reason) == ("failed", "no such file")
    assert failed.ended is not None
    for cursor in ("c1", "c2"):  # its task goes from passed to done; no unit changes
        store.note({job.id: state(cursor=cursor)}, NOON)
        [same] = opens().load("job", [job.id])
        assert (same.status, same.reason) == ("failed", "no such file")
    done = store.merged(job.id, None)
    assert (done.status, done.reason) == ("completed", None)
    store.merged(job.id, "again")
    store.note({job.id: state(UnitState(0, "submitted"), cursor="c3")}, NOON)
    assert store.load("job", [job.id])[0].status == "submitted"
    store.note({job.id: state(UnitState(0, "failed"), cursor="c4")}, NOON)
    assert store.merged(job.id, None).status == "failed"  # by its subjob
    with pytest.raises(NotFound):
        store.merged(9, None)


def test_subjobs_are_read_by_number(store: Store) -> None:
    job = submitted(store, "running", "failed", "completed")
    assert [u.state.status for u in store.units(job.id, [2, 0])] == ["completed", "running"]
    with pytest.raises(NotFound, match="Job 0 has no subjob 3"):
        store.units(job.id, [3])


@pytest.mark.parametrize(
    "document",
    [
        {"a": "quote \" ' and \\ and \n\t"},
        {"a": "\udc80 half a pair"},
        {"a": "null \0 byte"},
        {"a": "日本語 🙂"},
        {"a": {"b": [1, 2.5, None, True, 2**70]}},
        {},
        {"a": "x" * 100_000},
    ],
)
def test_odd_documents_survive(store: Store, document: dict[str, object]) -> None:
    """Check 21: "odd characters"."""
    [made] = store.create("job", [document])
    assert store.load("job", [made.id])[0].document == document


def test_a_value_that_json_has_not_is_refused(store: Store) -> None:
    for value in (float("nan"), {1, 2}, b"x"):
        with pytest.raises(BadInput, match="is no JSON"):
            store.create("job", [{"a": value}])
    assert store.list("job") == []


def test_an_export_is_taken_in_at_once(opens: Opens) -> None:
    """Check 21: "export/append/load round trip"; row 114: one wrong entry stores nothing. One
    transaction: both kinds and the folders have one change."""
    store = opens()
    store.create("job", [DOCUMENT])
    entries = [
        Entry("template", "t", "", (), {"n": 0}),
        Entry("job", "a", "x", ("/2025/b", "/"), {"n": 1}),
        Entry("job", "b", "", ("/2025/b",), {"n": 2}),
    ]
    bad = Entry("job", "nul \0", "", (), {})
    with pytest.raises(BadInput, match="NUL"):
        store.take_in([*entries, bad])
    assert (len(store.list("job")), store.list("template")) == (1, [])
    made = store.take_in(entries)
    assert [(one.id, one.name, one.comment, one.document) for one in made["job"]] == [
        (1, "a", "x", {"n": 1}),
        (2, "b", "", {"n": 2}),
    ]
    assert [(one.id, one.name) for one in made["template"]] == [(0, "t")]
    assert len({one.change for found in made.values() for one in found}) == 1
    assert store.folders() == {"/": [1], "/2025": [], "/2025/b": [1, 2]}
    assert store.take_in([]) == {"job": [], "template": []}
    assert [one.id for one in store.create("template", [DOCUMENT])] == [1]


def test_folders_are_kept(opens: Opens) -> None:
    """Row 111: "Folders tree: mkdir … persistent"; missing parents are made."""
    store = opens()
    store.create("job", [DOCUMENT] * 3)
    store.make_folder("/2025/zmumu")
    store.put("/2025/wmunu", [2, 0])
    store.put("/2025/wmunu", [1, 2])
    expected = {"/": [], "/2025": [], "/2025/wmunu": [2, 0, 1], "/2025/zmumu": []}
    assert opens().folders() == expected
    store.take_out("/2025/wmunu", [0])
    with pytest.raises(NotFound):
        store.put("/2025/zmumu", [9])
    store.make_folder("/2025x")
    assert store.folders() == {**expected, "/2025/wmunu": [2, 1], "/2025x": []}
    store.remove_folder("/2025")
    assert store.folders() == {"/": [], "/2025x": []}
    with pytest.raises(NotFound, match="no folder /2025"):
        store.remove_folder("/2025")
    assert len(store.list("job")) == 3


def test_either_the_client_or_the_backend_may_write(opens: Opens) -> None:
    """Row 154: "at no instant both or neither may write": two sessions race; for each job one of
    the edit and the submission wins, and the other is refused."""
    store, other = opens(), opens()
    jobs = store.create("job", [DOCUMENT] * 20)
    won: list[tuple[int, str]] = []

    def race(verb: str, session: Store) -> None:
        for job in jobs:
            try:
                if verb == "begin":
                    session.begin(job.id, job.version, "JEDI")
                else:
                    session.write("job", job.id, {"edited": True}, job.version)
            except NotWritable:
                continue
            won.append((job.id, verb))

    threads = [Thread(target=race, args=one) for one in (("begin", store), ("write", other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(id for id, _ in won) == [job.id for job in jobs]
    for now in store.load("job", [job.id for job in jobs]):
        edited = (now.id, "write") in won
        assert now.status == ("new" if edited else "submitting")
        assert now.document == ({"edited": True} if edited else DOCUMENT)
