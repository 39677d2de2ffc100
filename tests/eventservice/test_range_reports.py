"""Reports of consumers on ranges of events: what counts, and the refusal of all else."""

# Raw UPDATEs: columns that the ends of consumers and of job sets set.

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import Engine, text
from support.event_rows import end_job, make_consumers, make_job_set, ranges_of
from support.races import blocked

from jedi.agent.base import World
from jedi.model.jobs.event_refusals import REFUSALS
from jedi.model.jobs.event_wire import RANGES_MAX, ConsumerReports, RangeAsks
from jedi.service.pilots import event_ranges
from jedi.taskbuffer.db.engine import at_once, time_statements
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.users.users import Identity

PILOT_A = Identity("pilot", "SITE_A", None)
READY, SENT, RUNNING, FINISHED, CANCELLED, DONE, FAILED = 0, 1, 2, 3, 4, 6, 7
ZIP = {
    "lfn": "1.zip",
    "endpoint": "SITE_A_DATADISK",
    "fsize": 10,
    "adler32": "0000abcd",
    "n_events": 10,
}


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


def take(engine: Engine, job: int, n: int, request: str = "r") -> list[str]:
    """The ids of ranges that a consumer gets."""
    asked = RangeAsks.model_validate(
        {"request_id": request, "asks": [{"panda_id": job, "lock_seq": 1, "n": n}]}
    )
    with at_once(engine) as tx:
        (answer,) = event_ranges.acquire(tx, PILOT_A, asked, ConsumerMemory())["answers"]
    return [one["id"] for one in answer["ranges"]]


def tell(
    engine: Engine,
    job: int,
    *entries: Any,
    zips: tuple[Any, ...] = (),
    lock_seq: int = 1,
    who: Identity = PILOT_A,
) -> dict[str, Any]:
    """The answer to a report of a consumer."""
    told: dict[str, Any] = {
        "panda_id": job,
        "lock_seq": lock_seq,
        "ranges": [*entries],
        "zips": [*zips],
    }
    read = ConsumerReports.model_validate({"reports": [told]})
    with engine.begin() as tx:
        answer: dict[str, Any]
        (answer,) = event_ranges.report(tx, who, read.reports, ConsumerMemory())["answers"]
    return answer


def said(range_id: str, status: str = "finished", **more: Any) -> dict[str, Any]:
    return {"id": range_id, "status": status, **more}


def codes(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["id"], one["code"]) for one in answer["refused"]]


def columns(engine: Engine, range_id: str) -> Any:
    """The row of a range that its consumer has."""
    task, job, file, process, _ = range_id.split("-")
    with engine.begin() as tx:
        return tx.execute(
            text(
                "SELECT * FROM jedi_events WHERE jeditaskid = :t AND pandaid = :j AND "
                "fileid = :f AND job_processid = :p"
            ),
            {"t": task, "j": job, "f": file, "p": process},
        ).one()


def test_results_of_ranges(engine: Engine) -> None:
    """sent → running, finished, failed; a fatal report is stored as failed with attemptNr forced to
    1. Source: docs/reference/event-service.md#life-of-a-range."""
    with engine.begin() as tx:
        made = make_job_set(tx, 4)
    job = made.consumers[0]
    good, bad, fatal, busy = take(engine, job, 4)
    answer = tell(
        engine,
        job,
        said(good, endpoint="SITE_A_DATADISK", path_convention=3),
        said(bad, "failed", error_code=1305, error_diag="no memory"),
        said(fatal, "fatal", error_code="payload_range", error_diag="bad geometry"),
        said(busy, "running"),
    )
    assert answer == {"panda_id": job, "status": "ok", "accepted": 4, "refused": []}
    row = columns(engine, good)
    assert (row.status, row.endpoint, row.path_convention, row.processed_upto_eventid) == (
        FINISHED,
        "SITE_A_DATADISK",
        3,
        row.def_max_eventid,
    )
    assert (row.attemptnr, row.file_not_deleted, row.ziprow_id) == (10, "Y", None)
    row = columns(engine, bad)
    assert (row.status, row.attemptnr, row.error_code, row.error_diag) == (
        FAILED,
        10,
        1305,
        "no memory",
    )
    assert (row.processed_upto_eventid, row.file_not_deleted) == (None, None)
    row = columns(engine, fatal)
    assert (row.status, row.attemptnr, row.error_code, row.error_diag) == (
        FAILED,
        1,
        None,
        "payload_range: bad geometry",
    )
    assert columns(engine, busy).status == RUNNING
    again = tell(engine, job, said(busy, "running"), said(good, "running"), said(busy))
    assert (again["status"], columns(engine, busy).status) == ("ok", FINISHED)


def test_zip_files(engine: Engine) -> None:
    """Version 1: ranges in zip files; each file has one row."""
    with engine.begin() as tx:
        made = make_job_set(tx, 4)
    job = made.consumers[0]
    a, b, c, d = take(engine, job, 4)
    first = {**ZIP, "path_convention": 2, "ranges": [said(a), said(b), said(c, "failed")]}
    second = {**ZIP, "lfn": "2.zip", "ranges": [said(d)]}
    assert tell(engine, job, zips=(first, second))["accepted"] == 4
    rows = [columns(engine, one) for one in (a, b, c, d)]
    assert [row.status for row in rows] == [FINISHED, FINISHED, FAILED, FINISHED]
    assert rows[0].ziprow_id == rows[1].ziprow_id != rows[3].ziprow_id
    assert (rows[2].ziprow_id, rows[0].path_convention, rows[3].path_convention) == (None, 2, None)
    with engine.begin() as tx:
        stored = tx.execute(text("SELECT * FROM jedi_event_zips ORDER BY lfn")).all()
    assert [one.lfn for one in stored] == ["1.zip", "2.zip"]
    one = stored[0]
    zip_row = (rows[0].ziprow_id, made.task, made.jobset, job)
    assert tuple(one)[:9] == (*zip_row, "1.zip", "SITE_A_DATADISK", 10, "0000abcd", 10)


def test_a_repeated_report_is_accepted_as_the_first_one(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 3)
    job = made.consumers[0]
    a, b, c = take(engine, job, 3)
    zips = ({**ZIP, "ranges": [said(a)]},)
    told = (said(b, "failed"), said(c, "fatal"), said(c, "fatal"))
    first = tell(engine, job, *told, zips=zips)
    before = ranges_of(engine, made.task)
    assert tell(engine, job, *told, zips=zips) == first
    assert (first["accepted"], ranges_of(engine, made.task)) == (4, before)


def test_contradictions_do_not_count(engine: Engine) -> None:
    """The first result stands, within a call and between calls."""
    with engine.begin() as tx:
        made = make_job_set(tx, 3)
    job = made.consumers[0]
    a, b, c = take(engine, job, 3)
    answer = tell(engine, job, said(a), said(a, "failed"), said(b, "failed"), said(c, "fatal"))
    assert (answer["status"], answer["accepted"], codes(answer)) == (
        "partly",
        3,
        [(a, "contradiction")],
    )
    answer = tell(engine, job, said(a, "failed"), said(b), said(c))
    assert codes(answer) == [(one, "contradiction") for one in (a, b, c)]
    assert answer["refused"][0]["sentence"] == f"{REFUSALS['contradiction']} It is finished."
    assert [one[4] for one in ranges_of(engine, made.task)] == [FINISHED, FAILED, FAILED]


def test_pieces_lie_where_pilots_of_the_site_write(engine: Engine) -> None:
    """A merge reads each piece at its endpoint: one that is unknown, of another site or only read
    here is refused with the reason, and its ranges stay with the consumer. Nothing of it is
    stored. An output whose place is not named lies where the site writes."""
    with engine.begin() as tx:
        made = make_job_set(tx, 5)
        tx.execute(
            text(
                "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, roles) "
                "VALUES ('SITE_A', 'SITE_B_DATADISK', 'read')"
            )
        )
    job = made.consumers[0]
    a, b, c, d, e = take(engine, job, 5)
    zips = tuple(
        {**ZIP, "lfn": f"{n}.zip", "endpoint": where, "ranges": [said(one)]}
        for n, (where, one) in enumerate(
            [("NOWHERE", a), ("SITE_B_DATADISK", b), ("SITE_A_DATADISK", c)]
        )
    )
    answer = tell(engine, job, said(d, endpoint="NOWHERE"), said(e), zips=zips)
    assert codes(answer) == [(one, "bad_endpoint") for one in (a, b, d)]
    assert answer["refused"][0]["sentence"] == f"{REFUSALS['bad_endpoint']} It is NOWHERE."
    assert [columns(engine, one).status for one in (a, b, c, d, e)] == [
        SENT,
        SENT,
        FINISHED,
        SENT,
        FINISHED,
    ]
    assert columns(engine, e).endpoint == "SITE_A_DATADISK"
    with engine.begin() as tx:
        assert tx.scalars(text("SELECT lfn FROM jedi_event_zips")).all() == ["2.zip"]


def test_ranges_that_are_not_the_consumers(engine: Engine) -> None:
    """Never got, another consumer's, another task's, another attempt."""
    with engine.begin() as tx:
        made = make_job_set(tx, 4, consumers=2)
        other = make_job_set(tx, 1)
    mine, theirs = made.consumers
    (a,) = take(engine, mine, 1)
    (b,) = take(engine, theirs, 1)
    (foreign,) = take(engine, other.consumers[0], 1)
    never = f"{made.task}-{mine}-{made.file}-16-10"
    earlier = a.removesuffix("10") + "9"
    before = ranges_of(engine, made.task), ranges_of(engine, other.task)
    answer = tell(engine, mine, said(never), said(b), said(foreign), said(earlier))
    assert {*codes(answer)} == {
        (never, "unknown_range"),
        (b, "not_yours"),
        (foreign, "other_task"),
        (earlier, "unknown_range"),
    }
    assert (ranges_of(engine, made.task), ranges_of(engine, other.task)) == before


@pytest.mark.parametrize("fault", ["ended", "lock_seq", "site", "unknown"])
def test_a_consumer_that_has_ended_reports_in_vain(engine: Engine, fault: str) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 1)
    job = made.consumers[0]
    (a,) = take(engine, job, 1)
    if fault == "ended":
        end_job(engine, job)
    answer = tell(
        engine,
        999_999_999 if fault == "unknown" else job,
        said(a),
        zips=({**ZIP, "ranges": []},),
        lock_seq=2 if fault == "lock_seq" else 1,
        who=Identity("pilot", "SITE_B", None) if fault == "site" else PILOT_A,
    )
    assert (answer["status"], answer["accepted"]) == ("stale", 0)
    assert codes(answer) == [(a, "stale_consumer")]
    assert columns(engine, a).status == SENT


def test_undispatched_ranges(engine: Engine) -> None:
    """Version 2: ranges that were never dispatched may be reported; the id has the number of the
    job set. The report takes them; those that others have stay theirs."""
    with engine.begin() as tx:
        made = make_job_set(tx, 5, consumers=2)
        stranger = make_job_set(tx, 1, task=made.task)
    mine, theirs = made.consumers
    take(engine, theirs, 1)

    def of(process: int, jobset: int = made.jobset, file: int = made.file) -> str:
        return f"{made.task}-{jobset}-{file}-{process}-10"

    theirs_id = of(1, stranger.jobset, stranger.file)
    told = (said(of(1)), said(of(6)), said(of(11), "failed"), said(of(99)), said(theirs_id))
    answer = tell(engine, mine, *told)
    assert {*codes(answer)} == {
        (of(1), "range_taken"),
        (of(99), "range_taken"),
        (theirs_id, "not_yours"),
    }
    assert tell(engine, mine, *told)["refused"] == answer["refused"]
    assert [(one[0], one[4]) for one in ranges_of(engine, made.task)][:5] == [
        (theirs, SENT),
        (mine, FINISHED),
        (mine, FAILED),
        (made.jobset, READY),
        (made.jobset, READY),
    ]


def test_a_jumbo_job_reports_ranges_of_several_job_sets(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 1)
        other = make_job_set(tx, 2, task=made.task)
        (jumbo,) = make_consumers(tx, 1, made.task, None)
    got = take(engine, jumbo, 2)
    loose = f"{made.task}-{other.jobset}-{other.file}-6-10"
    answer = tell(engine, jumbo, said(loose), zips=({**ZIP, "ranges": [said(i) for i in got]},))
    assert answer["accepted"] == 3
    with engine.begin() as tx:
        rows = tx.execute(text("SELECT DISTINCT status, pandaid, is_jumbo FROM jedi_events")).all()
        assert [tuple(row) for row in rows] == [(FINISHED, jumbo, 1)]
        assert tx.scalar(text("SELECT jobsetid FROM jedi_event_zips")) is None


def test_ranges_that_were_ended_meanwhile(engine: Engine) -> None:
    """A range of a jumbo job is done when the co-jumbo job ends; a job set may be cancelled."""
    with engine.begin() as tx:
        made = make_job_set(tx, 2)
        (jumbo,) = make_consumers(tx, 1, made.task, None)
    a, b = take(engine, jumbo, 2)
    tell(engine, jumbo, said(a))
    with engine.begin() as tx:
        tx.execute(text(f"UPDATE jedi_events SET status = {DONE} WHERE status = {FINISHED}"))
        tx.execute(text(f"UPDATE jedi_events SET status = {CANCELLED} WHERE status = {SENT}"))
    answer = tell(engine, jumbo, said(a), said(b))
    assert (answer["accepted"], codes(answer)) == (1, [(b, "not_wanted")])


def test_a_zip_file_with_another_checksum(engine: Engine) -> None:
    """Its ranges do not count; a checksum that is none, or a name that is a path, is a mistake of
    this file alone."""
    with engine.begin() as tx:
        made = make_job_set(tx, 3)
    job = made.consumers[0]
    a, b, c = take(engine, job, 3)
    tell(engine, job, zips=({**ZIP, "ranges": [said(a)]},))
    answer = tell(
        engine,
        job,
        said(c),
        zips=(
            {**ZIP, "adler32": "0000abce", "ranges": [said(b)]},
            {**ZIP, "lfn": "bad.zip", "adler32": "XYZ", "ranges": [said(c)]},
            {**ZIP, "lfn": "../../etc", "ranges": [said(c)]},
        ),
    )
    assert {*codes(answer)} == {
        (b, "other_zip"),
        ("bad.zip", "bad_entry"),
        ("../../etc", "bad_entry"),
    }
    assert [one[4] for one in ranges_of(engine, made.task)] == [FINISHED, SENT, FINISHED]


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "1-2-3-4", "status": "finished"},
        {"id": "1-2-3-4-5; DROP TABLE", "status": "finished"},
        {"id": "1-2-3-4-5", "status": "merged"},
        {"id": "1-2-3-4-5"},
        {"status": "finished"},
        {"id": "1-2-3-4-5", "status": "finished", "path_convention": 100},
        {"id": "1-2-3-4-5", "status": "finished", "surprise": 1},
        {"id": "9" * 19 + "-2-3-4-5", "status": "finished"},
        "finished",
        None,
        7,
        [1],
    ],
    ids=str,
)
def test_an_entry_with_mistakes_does_not_spoil_the_others(engine: Engine, entry: Any) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 1)
    (a,) = take(engine, made.consumers[0], 1)
    answer = tell(engine, made.consumers[0], entry, said(a))
    assert (answer["accepted"], [code for _, code in codes(answer)]) == (1, ["bad_entry"])
    assert columns(engine, a).status == FINISHED
    json.dumps(answer)


def test_calls_are_bounded() -> None:
    """100,000 ranges a call. Source: docs/reference/event-service.md#dispatch."""
    one = {"panda_id": 1, "lock_seq": 1}
    with pytest.raises(ValidationError, match="names a consumer twice"):
        ConsumerReports.model_validate({"reports": [one, one]})
    with pytest.raises(ValidationError, match="names a consumer twice"):
        RangeAsks.model_validate({"request_id": "r", "asks": [one, one]})
    half = [said("1-1-1-1-1")] * (RANGES_MAX // 2)
    told = [{**one, "panda_id": 1, "ranges": half}, {**one, "panda_id": 2, "ranges": half}]
    assert len(ConsumerReports.model_validate({"reports": told}).reports) == 2
    told[1]["zips"] = [{**ZIP, "ranges": [said("1-1-1-1-1")]}]
    with pytest.raises(ValidationError, match="send fewer at once"):
        ConsumerReports.model_validate({"reports": told})
    for n in (0, RANGES_MAX + 1):
        with pytest.raises(ValidationError):
            RangeAsks.model_validate({"request_id": "r", "asks": [{**one, "n": n}]})
    asks = [{**one, "panda_id": job, "n": RANGES_MAX // 2 + 1} for job in (1, 2)]
    with pytest.raises(ValidationError, match="asks for more than"):
        RangeAsks.model_validate({"request_id": "r", "asks": asks})


def test_of_many_ranges_one_is_bad(engine: Engine) -> None:
    """The good ones count, the bad one is named; the number of statements does not grow."""
    with engine.begin() as tx:
        made = make_job_set(tx, 20_000)
    job = made.consumers[0]
    got = [one for n in range(20) for one in take(engine, job, 1_000, str(n))]
    seen: list[float] = []
    time_statements(engine, seen.append)
    bad = f"{made.task}-{job}-{made.file}-100002-10"
    told = [said(one, endpoint="SITE_A_DATADISK") for one in got]
    answer = tell(engine, job, *told[:12_345], said(bad), *told[12_345:])
    assert (answer["accepted"], codes(answer)) == (20_000, [(bad, "unknown_range")])
    assert len(seen) == 4  # its consumer, its lock, the report, and the search for the bad one
    assert {one[4] for one in ranges_of(engine, made.task)} == {FINISHED}


def test_a_report_that_was_rolled_back_left_nothing(engine: Engine) -> None:
    """The service dies before its commit: the pilot reports again."""
    with engine.begin() as tx:
        made = make_job_set(tx, 2)
    job = made.consumers[0]
    a, b = take(engine, job, 2)
    before = ranges_of(engine, made.task)
    told: dict[str, Any] = {
        "panda_id": job,
        "lock_seq": 1,
        "zips": [{**ZIP, "ranges": [said(a)]}],
        "ranges": [said(b, "fatal")],
    }
    read = ConsumerReports.model_validate({"reports": [told]})
    with engine.connect() as tx:
        event_ranges.report(tx, PILOT_A, read.reports, ConsumerMemory())
        tx.rollback()
    with engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_event_zips")) == 0
    assert ranges_of(engine, made.task) == before
    assert tell(engine, job, said(b, "fatal"), zips=tuple(told["zips"]))["accepted"] == 2


@pytest.mark.parametrize("call", ["ask", "report"])
def test_a_call_waits_for_the_end_of_its_consumer(engine: Engine, call: str) -> None:
    """The end locks the job first and looks for its ranges then: a call of the consumer that comes
    meanwhile waits, and is stale afterwards. So no ended consumer has a range in `sent`."""
    with engine.begin() as tx:
        made = make_job_set(tx, 2)
    job = made.consumers[0]
    (a,) = take(engine, job, 1)
    got: list[Any] = []

    def late(_tx: object) -> None:
        got.append(take(engine, job, 1, "2") if call == "ask" else tell(engine, job, said(a)))

    with engine.connect() as ender:
        ender.execute(_HOLD, {"id": job})
        with blocked(engine, late):
            ender.commit()
    assert got == [[]] if call == "ask" else codes(got[0]) == [(a, "stale_consumer")]
    assert [one[4] for one in ranges_of(engine, made.task)] == [SENT, READY]


_HOLD = text("UPDATE jedi_jobs SET status = 'holding' WHERE pandaid = :id")
