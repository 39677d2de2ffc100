"""Herds from submission to jobs: the ten children of RFC #15, one transaction, no second split.

Expected values: RFC #15 ("Proposed implementation", "JobDB changes", "Manifest changes");
docs/reference/herds.md.
"""

# Raw UPDATEs: time passes; ends that take long.

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import sound
from support.generating import catalogue, generate, rows
from support.herds import (
    RFC,
    herd,
    jobs,
    members,
    next_panda_id,
    refined,
    split,
    submitted,
    with_jobs,
)
from support.task_rows import row_of

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import BadInput, JediError, Refused
from jedi.ddm.interface import FileInfo
from jedi.service.planning.text_plans import Alternative, plan_now
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks.commanding import command
from jedi.splitter.agent import Splitter
from jedi.taskbuffer.db import knobs
from jedi.taskcommando.agent import TaskCommando

VALUES = [
    "1",
    "2.3",
    "3.99",
    "6.187",
    "9.0431",
    "12.75603",
    "17.582839",
    "23.8576907",
    "32.01499791",
    "42.619497283",
]
"""x(n+1) = x(n) * 1.3 + 1, x(0) = 1, by hand; the RFC shows 3.99."""


def test_originator_alone_before_the_split(world: World) -> None:
    """Expected: "DIRAC will not know a priori how many jobs will be generated": the herd is its
    originator, WillSplit, with one PandaID; nothing is split by the submission."""
    next_panda_id(world, 41)
    task = submitted(world, herd())
    [alone] = members(world, task)
    assert (alone.originpandaid, alone.masterjobid, alone.jobsplittype) == (41, 41, "WillSplit")
    assert (alone.unit_nr, alone.splitid) == (None, None)


def test_rfc_table_field_by_field(world: World) -> None:
    """Expected: all ten children by the RFC's rules; child 02 is the RFC's own."""
    next_panda_id(world, 41)
    task = with_jobs(world, herd())
    found = members(world, task)
    assert [one.originpandaid for one in found] == [*range(41, 51)]
    assert [one.splitid for one in found] == [f"{n:02}" for n in range(10)]
    assert {one.masterjobid for one in found} == {41}
    assert [one.jobsplittype for one in found] == ["Splitted"] + ["Single"] * 9
    for n, one in enumerate(found):
        assert one.options == {
            "JobName": f"parametric_41:{n:02}",
            "Arguments": VALUES[n],
            "StdOutput": f"StdOut_{n:02}",
            "StdError": f"StdErr_{n:02}",
            "OutputSandbox": [f"StdOut_{n:02}", f"StdErr_{n:02}"],
            "Parameter": VALUES[n],
            "ParameterNumber": str(n),
        }
    made = jobs(world, task)
    assert [job.panda_id for job in made] == [*range(41, 51)]
    assert [job.originpandaid for job in made] == [*range(41, 51)]
    assert [job.unit_nr for job in made] == [*range(1, 11)]
    assert [job.jobparameters for job in made] == [f"/bin/echo {value}" for value in VALUES]
    assert {job.kind for job in made} == {"normal"}  # no scouts


def test_nothing_is_written_before_the_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: "Once all jobs have been stored, the originating job JobSplitType will be changed
    to Splitted": a worker that dies before the commit leaves WillSplit, and the next one splits."""
    task = refined(world, herd())

    class Died(BaseException):
        pass

    def die(_: str, name: str) -> None:
        if name == "before_commit":
            raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr("jedi.core.crash.point", die)
        Splitter(world).run_once()
    assert [one.jobsplittype for one in members(world, task)] == ["WillSplit"]
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET lease_until = jedi_now() - interval '1 day'"))
    assert Splitter(world).run_once() == 1
    assert len(members(world, task)) == 10
    assert Splitter(world).run_once() == 0


def test_two_workers_make_one_herd(world: World) -> None:
    """Expected: ten units, whoever comes first: the other one finds a stale claim."""
    task = refined(world, herd())
    late, quick = Splitter(world), Splitter(world)
    with world.engine.begin() as tx:
        items = late.claim(tx, 1)
    results = [(one, late.work(one)) for one in items]
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET lease_until = jedi_now() - interval '1 day'"))
    assert quick.run_once() == 1
    with world.engine.begin() as tx:
        late.apply(tx, results)
    assert len(members(world, task)) == 10
    workers = [threading.Thread(target=Splitter(world).run_once) for _ in range(2)]
    other = refined(world, herd(taskName="other"))
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert len(members(world, other)) == 10


def test_limit_is_checked_before_anything_is_written(world: World) -> None:
    """Expected: as many units as knob split.max_units are a herd; one more breaks the task, and no
    unit is there."""
    with world.engine.begin() as tx:
        knobs.put(tx, "split.max_units", 10, "ops")
    assert len(members(world, split(world, herd()))) == 10
    more = {**RFC, "options": {"Parameters": 11}}
    task = refined(world, herd(more, taskName="more"))
    Splitter(world).run_once()
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("tobroken", "too_many_units")
    assert [one.jobsplittype for one in members(world, task)] == ["WillSplit"]


def test_cancel_before_the_split_wins(world: World) -> None:
    """Expected: no child ever appears, though the splitter has planned already."""
    task = refined(world, herd())
    late = Splitter(world)
    with world.engine.begin() as tx:
        items = late.claim(tx, 1)
    results = [(one, late.work(one)) for one in items]
    with world.engine.begin() as tx:
        command(tx, "anna", task, "kill")
    with world.engine.begin() as tx:
        late.apply(tx, results)
    assert Splitter(world).run_once() in (0, 1)
    while TaskCommando(world).run_once():
        pass
    assert row_of(world, task).status == "toabort"
    assert Splitter(world).run_once() == 0
    assert [one.unit_nr for one in members(world, task)] == [None]


def test_incexec_of_a_herd_is_refused(world: World) -> None:
    """Expected: the units are made once, so no other parameters can apply."""
    task = with_jobs(world, herd())
    with world.engine.begin() as tx:  # all has been processed
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_tasks SET status = 'finished'"))
    other = {"parameters": {"ramCount": 1}}
    with pytest.raises(Refused, match="is a herd"), world.engine.begin() as tx:
        command(tx, "anna", task, "incexec", other)


def test_remedies_of_an_aborted_herd_lead_in_no_circle(world: World) -> None:
    """Docs: "A herd can be retried, but not executed incrementally", and an aborted task can't be
    retried: neither refusal names the other command."""
    task = with_jobs(world, herd())
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_tasks SET status = 'aborted'"))
    for name, expected in (("retry", "Possible now: nothing."), ("incexec", "once: submit a new")):
        with pytest.raises(Refused) as caught, world.engine.begin() as tx:
            command(tx, "anna", task, name)
        assert expected in str(caught.value) and "retry it" not in str(caught.value)


ECHO_HI = {"type": "constant", "value": "echo hi"}


def refusal(world: World, document: dict[str, Any]) -> list[str]:
    with pytest.raises(BadInput) as caught:
        submitted(world, document)
    return [str(one) for one in caught.value.problems]


def test_splitters_mistakes_are_found_at_submission(world: World) -> None:
    """Expected: all mistakes at once: names, numbers of values, input, keys that say the same."""
    [unknown] = refusal(world, herd({**RFC, "name": "Parametrik"}))
    assert "splitter.name" in unknown and "Parametric" in unknown
    for wrong in ("0", "-1", "2.5"):
        [values] = refusal(world, herd({**RFC, "options": {"Parameters": wrong}}))
        assert "splitter.options.Parameters" in values
    [odd] = refusal(world, herd({**RFC, "options": {"Parameters": {"a": 1}}}, ECHO_HI))
    assert odd.startswith("splitter.options.Parameters") and "must be a text" in odd
    [key] = refusal(world, herd({**RFC, "value": {}}, ECHO_HI))
    assert key.startswith("splitter.value") and "values" in key
    [no_input] = refusal(world, herd({"name": "InputDataBySE"}, ECHO_HI))
    assert "the task has no input" in no_input
    [key] = refusal(world, herd({"name": "InputDataBySE"}, ECHO_HI, {**IN, "foo": 2}))
    assert key.startswith("jobParameters[1].foo")  # the faulty item is an input
    found = refusal(world, herd(nFilesPerJob=2, groupBoundaryID=1))
    assert len(found) == 2 and "the splitter says" in found[0]
    found = refusal(world, {**herd(), "splitter": None})
    assert len(found) == 2 and "${UNIT/Executable}" in found[0] and "nothing fills it" in found[0]


def test_placeholders_of_options_that_no_unit_has_are_refused(world: World) -> None:
    """Docs: "`${UNIT/Name}` in the job parameters is the value of the option Name of the unit": its
    values, the options that the strategy sets, and "SplitID, SplitSourceJob and JobID are options
    of every unit". A task with another name would wait for ever, and nobody could correct it."""
    sweep = {
        "name": "Parametric",
        "values": {"A": "$Parameter"},
        "options": {"Parameters": 3, "Parameters.B": ["x", "y", "z"]},
    }
    names = (
        "A",
        "Parameter",
        "Parameter.B",
        "ParameterNumber",
        "SplitID",
        "SplitSourceJob",
        "JobID",
    )
    all_known = " ".join(f"${{UNIT/{name}}}" for name in names)
    output = {
        "type": "template",
        "param_type": "output",
        "value": "o.${UNIT/Split}.${SN}",
        "dataset": "demo:o",
    }
    echo = {"type": "constant", "value": f"{all_known} ${{UNIT/Nope}}"}
    rule = "no unit of the herd has this option"
    assert refusal(world, herd(sweep, echo, output)) == [
        f"jobParameters[0].value: '${{UNIT/Nope}}': {rule}. Units have {', '.join(names)}.",
        f"jobParameters[1].value: '${{UNIT/Split}}': {rule}. Did you mean SplitID?",
    ]
    catalogue(world, **{"in": 2})
    text = "${UNIT/SplitterChosenSE} ${UNIT/SplitterMaxFilesPerJob}"
    chosen = {"type": "constant", "value": text}
    by_se = {"name": "InputDataBySE", "options": {"SplitterMaxFilesPerJob": 2}}
    [wrong] = refusal(world, herd(by_se, IN, chosen))
    assert "'${UNIT/SplitterMaxFilesPerJob}'" in wrong


def test_options_that_the_splitter_has_not_are_refused(world: World) -> None:
    """`options` are the strategy's "own options": a mistyped one would change nothing, and one
    job would process what four should."""
    wrong = {"SplitterMaxFilePerJob": 2, "Size": 1}
    assert refusal(world, herd({"name": "ByFiles", "options": wrong}, ECHO_HI)) == [
        "splitter.options.SplitterMaxFilePerJob: '2': splitter ByFiles has no such option. Did you "
        "mean SplitterMaxFilesPerJob?",
        "splitter.options.Size: '1': splitter ByFiles has no such option. It has "
        "SplitterMaxFilesPerJob.",
        "splitter.name: 'ByFiles': it divides input files, and the task has no input. Add an item "
        "with param_type: input.",
    ]
    sweep = {"Parameters": 3, "ParameterSteps": 2, "ParameterStart.A": 1, "Parameters.A": 3}
    [odd] = refusal(world, herd({"name": "Parametric", "options": sweep}, ECHO_HI))
    assert "splitter.options.ParameterSteps: '2'" in odd and "mean ParameterStep?" in odd
    catalogue(world, **{"in": 1})
    [none] = refusal(world, herd({"name": "ByBoundary", "options": {"Size": 1}}, IN))
    assert none.endswith("has no such option. Leave it out, or put it into values.")


IN = {"type": "template", "param_type": "input", "value": "cat ${IN/S}", "dataset": "demo:in"}


def test_input_is_divided_when_it_is_known(world: World) -> None:
    """Expected: five files, two a unit: three units; each job reads the files of one of them."""
    catalogue(world, **{"in": 5})
    by_files = {"name": "ByFiles", "options": {"SplitterMaxFilesPerJob": 2}}
    task = refined(world, herd(by_files, IN))
    assert Splitter(world).run_once() == 0
    assert ContentsFeeder(world).run_once() == 1
    assert (row_of(world, task).status, row_of(world, task).reason_code) == ("defined", "to_split")
    assert ContentsFeeder(world).run_once() == 0
    assert Splitter(world).run_once() == 1
    assert row_of(world, task).reason_code == "split"
    assert ContentsFeeder(world).run_once() == 1
    assert row_of(world, task).status == "ready"
    assert generate(world) == 1
    made = jobs(world, task)
    assert [job.panda_id for job in made] == [one.originpandaid for one in members(world, task)]
    names = [f"in{n:06d}" for n in range(5)]
    assert [job.jobparameters for job in made] == [
        f"cat {' '.join(some)}" for some in (names[:2], names[2:4], names[4:])
    ]


def test_variable_inputdata_is_the_input_of_the_unit(world: World) -> None:
    """RFC #15: InputDataBySE makes "jobs with a maximum number of Input Data files", which "will be
    reflected in the manifest, and users need to define where this modifications have to be used":
    $InputData of a unit names its own files, as text and as a list, and not the master's."""
    catalogue(world, **{"in": 3})
    lfns = [f"LFN:/demo/in/in{n:06d}" for n in range(3)]
    values = {"InputData": lfns, "Arguments": "$InputData", "JobName": "of $InputData"}
    by_files = {"name": "ByFiles", "options": {"SplitterMaxFilesPerJob": 2}, "values": values}
    echo = {"type": "constant", "value": "| echo ${UNIT/Arguments}"}
    task = with_jobs(world, herd(by_files, IN, echo))
    assert [one.options for one in members(world, task)] == [
        {"Arguments": lfns[:2], "JobName": f"of {lfns[0]},{lfns[1]}"},
        {"Arguments": lfns[2:], "JobName": f"of {lfns[2]}"},
    ]
    assert [job.jobparameters for job in jobs(world, task)] == [
        f"cat in000000 in000001 | echo {lfns[0]} {lfns[1]}",
        f"cat in000002 | echo {lfns[2]}",
    ]


def test_units_have_numbers_whatever_the_strategy(world: World) -> None:
    """Docs: "`%n` the number of the unit from 0", also by input: of eleven units 00 to 10, of ten 0
    to 9, as wide as the last one (DIRAC: "`%n` = `2` for N=10")."""
    catalogue(world, **{"in": 11, "ten": 10})
    values = {"Arguments": "n=%n"}
    by_files = {"name": "ByFiles", "options": {"SplitterMaxFilesPerJob": 1}, "values": values}
    for name, expected in (
        ("in", [f"n={n:02}" for n in range(11)]),
        ("ten", [f"n={n}" for n in range(10)]),
    ):
        task = split(world, herd(by_files, {**IN, "dataset": f"demo:{name}"}))
        assert [one.options["Arguments"] for one in members(world, task)] == expected


def test_events_are_divided_across_files(world: World) -> None:
    """Expected: 3 files of 10 events, 12 a unit: 12 + 12 + 6 events; a file's parts go to two."""
    catalogue(world, in_=[FileInfo(f"f{n}", 10, "00000001", None, 10) for n in range(3)])
    by_events = {"name": "ByEvents", "options": {"SplitterEventsPerJob": 12}}
    skip = {"type": "constant", "value": "skip ${SKIPEVENTS} of ${MAXEVENTS}"}
    task = with_jobs(world, herd(by_events, IN, skip))
    assert [job.jobparameters for job in jobs(world, task)] == [
        "cat f0 f1 skip 0 of 12",
        "cat f1 f2 skip 2 of 12",
        "cat f2 skip 4 of 6",
    ]
    [counted] = rows(
        world,
        "SELECT nfiles, nfilesused, nfilestobeused FROM jedi_datasets "
        "WHERE jeditaskid = :t AND type = 'input'",
        t=task,
    )
    assert counted == (5, 5, 5)
    sound(world)


def test_a_file_without_events_has_a_job(world: World) -> None:
    """Expected: 10, 0 and 10 events, 10 a unit: the empty file goes with the third."""
    counts = (10, 0, 10)
    catalogue(world, in_=[FileInfo(f"f{n}", 10, "00000001", None, c) for n, c in enumerate(counts)])
    by_events = {"name": "ByEvents", "options": {"SplitterEventsPerJob": 10}}
    skip = {"type": "constant", "value": "skip ${SKIPEVENTS} of ${MAXEVENTS}"}
    task = with_jobs(world, herd(by_events, IN, skip))
    assert [job.jobparameters for job in jobs(world, task)] == [
        "cat f0 skip 0 of 10",
        "cat f1 f2 skip 0 of 10",
    ]
    sound(world)


def test_the_limit_counts_the_units_of_all_datasets(world: World) -> None:
    """`a limit on herd size checked before anything is inserted`: two datasets of 2 files, one
    file a unit, are 4 units, and 3 are allowed; a plan refuses the same."""
    catalogue(world, **{"in": 2, "more": 2})
    with world.engine.begin() as tx:
        knobs.put(tx, "split.max_units", 3, "ops")
    world.refresh()
    by_files = {"name": "ByFiles", "options": {"SplitterMaxFilesPerJob": 1}}
    document = herd(by_files, {**IN, "dataset": "demo:in,demo:more"})
    task = refined(world, document)
    assert (ContentsFeeder(world).run_once(), Splitter(world).run_once()) == (1, 1)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("tobroken", "too_many_units")
    with world.engine.begin() as tx, pytest.raises(JediError, match="more than 3 units"):
        plan_now(
            tx,
            world.ddm,
            examined(Document(json.dumps(document), "json", Path()), "anna"),
            1,
            Alternative(),
        )
