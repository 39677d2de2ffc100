"""Submission: what is stored, what is refused, and that repeating is safe."""

# Raw UPDATEs: a status to which no short way leads.

from __future__ import annotations

import gzip
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jedi_client.sandbox import bundle
from sqlalchemy import Engine, text
from support.calls import call
from support.helpers import put_file_dataset
from support.situations import set_sites

from benchmarks.common import statements
from jedi.agent.base import World
from jedi.core.errors import BadInput, NotFound, Problem, Refused
from jedi.model.queries import JobQuery, ListPage, TaskQuery
from jedi.service.queues import work_queues
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.submission.storing import Submitted
from jedi.service.tasks import commanding, task_details
from jedi.service.tasks.task_verbs import RetryOptions, kill, retry
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.jobs import archive_groups
from jedi.taskbuffer.users import users
from jedi.taskrefiner.agent import TaskRefiner

OUTPUT = {"type": "template", "param_type": "output", "value": "> o.${SN}", "dataset": "a:out"}
INPUT = {"type": "template", "param_type": "input", "value": "cat ${IN}", "dataset": "demo:in"}
Submit = Callable[..., Submitted]


def document(*items: dict[str, Any], **keys: Any) -> str:
    """A task without input that writes a:out, with these items and keys besides."""
    values = {"taskName": "t", "noInput": True, "transPath": "date"}
    values |= {"jobParameters": [OUTPUT, *items], **keys}
    return yaml.safe_dump({k: v for k, v in values.items() if v is not ...})


@pytest.fixture
def submit(world: World, tmp_path: Path) -> Submit:
    def submit(text: str, who: str = "anna", key: str | None = None) -> Submitted:
        with world.engine.begin() as tx:
            return storing.submit(
                tx, world.ddm, examined(Document(text, "yaml", tmp_path), who), key
            )

    return submit


def refused(submit: Submit, text: str, who: str = "anna") -> list[Problem]:
    with pytest.raises(BadInput) as caught:
        submit(text, who)
    return list(caught.value.problems)


def rows(engine: Engine, query: str, **values: Any) -> list[Any]:
    with engine.begin() as tx:
        return list(tx.execute(text(query), values))


def test_what_is_stored(world: World, submit: Submit) -> None:
    written = "# a comment\r\n" + document(
        workingGroup="wg", taskPriority=1001, currentPriority=1005
    )
    made = submit(written)
    assert made == Submitted(made.jedi_task_id, "registered", True)
    (task,) = rows(world.engine, "SELECT * FROM jedi_tasks")
    assert (task.status, task.username, task.vo, task.prodsourcelabel) == (
        "registered",
        "anna",
        "local",
        "user",
    )
    assert (task.tasktype, task.taskpriority, task.currentpriority) == ("anal", 1001, 1005)
    assert task.reqid == task.parent_tid == task.jeditaskid
    (params,) = rows(world.engine, "SELECT * FROM jedi_taskparams")
    assert params.source_text == written and params.source_format == "yaml"
    assert params.taskparams["coreCount"] == 1
    with world.engine.begin() as tx:
        (step,) = task_details.history(call(tx), made.jedi_task_id)
    assert (step.from_status, step.status, step.user_name) == (None, "registered", "anna")


def test_nothing_is_stored_on_error(world: World, submit: Submit) -> None:
    text = document(
        INPUT,
        noInput=...,
        site="SITE_C",
        sandbox=["missing.sh"],
        prodSourceLabel="x",
        nFilesPerJob=2000,
        taskTyp="anal",
        taskType="prod",
    )
    found = {problem.path for problem in refused(submit, text)}
    assert found == {
        "jobParameters[1].dataset",
        "site",
        "sandbox[0]",
        "prodSourceLabel",
        "nFilesPerJob",
        "taskTyp",
        "taskType",
    }
    for table in ("jedi_tasks", "jedi_taskparams", "jedi_sandboxes", "jedi_tasks_statuslog"):
        assert not rows(world.engine, f"SELECT FROM {table}")


def test_a_submission_reads_once_and_writes_once(world: World, submit: Submit) -> None:
    """Most of its time is ways to the database and back: eight statements before, two now."""
    own = {**OUTPUT, "dataset": "a:out.$JEDITASKID"}
    with statements(world.engine) as seen:
        submit(document(jobParameters=[own]))
    assert [sql.split()[0] for sql in seen] == ["SELECT", "WITH"]


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize(
    ("first", "taken"), [("criteria: coreCount > 1", False), ("queue_order: 2", True)]
)
def test_criteria_decide_unless_the_first_queue_has_none(
    world: World, submit: Submit, first: str, taken: bool
) -> None:
    queue = "- {queue_id: 1, queue_name: q, queue_type: user, vo: local, %s}"
    with world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_work_queue"))
        work_queues.import_queues(call(tx, "me"), queue % first)
    if taken:
        assert submit(document(coreCount=1)).created
    else:
        (problem,) = refused(submit, document(coreCount=1))
        assert problem.rule == "no active work queue takes the task (q)"
        assert submit(document(coreCount=8)).created


def test_a_vo_without_work_queues_is_named(submit: Submit) -> None:
    (problem,) = refused(submit, document(vo="locl"))
    assert (problem.path, problem.value) == ("vo", "locl")
    assert problem.rule == "no active work queue serves this vo"
    assert problem.remedy == "Did you mean local?"


def test_the_only_word_of_a_key_is_the_remedy(submit: Submit) -> None:
    (problem,) = refused(submit, document(jobParameters=[{**OUTPUT, "type": "templat"}]))
    assert (problem.path, problem.rule) == ("jobParameters[0].type", "must be 'template'")
    assert problem.remedy == "Write 'template'"


def test_a_mistyped_site_gets_a_suggestion(submit: Submit) -> None:
    (problem,) = refused(submit, document(site="SITE_AA"))
    assert problem.remedy == "Did you mean SITE_A?"
    (problem,) = refused(submit, document(site="SITE_A, SITE_C"))
    assert (problem.path, problem.value) == ("site", "SITE_C")
    submit(document(site="SITE_A, SITE_B", nucleus="SITE_B"))


def test_cloud_world_is_no_place(submit: Submit, world: World) -> None:
    """The same as none, also where no site has it. Source: docs/reference/nucleus.md."""
    with world.engine.begin() as tx:
        set_sites(tx, cloud="US")
    submit(document(cloud="WORLD"))
    assert refused(submit, document(cloud="ND"))[0].rule == "no such cloud"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"site": "SITE_A", "excludedSite": "SITE_A"},
            "site: 'SITE_A': all are excluded. Name another one, or shorten excludedSite.",
        ),
        (
            {"site": "SITE_A", "includedSite": "SITE_B"},
            "site: 'SITE_A': includedSite names other sites. Leave one of the two out.",
        ),
        (
            {"excludedSite": "*"},
            "excludedSite: '*': excludes every site that the task may use. Shorten it.",
        ),
        (
            {"includedSite": "SITE_A", "excludedSite": "X,SITE_*"},
            "excludedSite: 'X,SITE_*': excludes every site that the task may use. Shorten it.",
        ),
        (
            {"includedSite": "NOPE*"},
            "includedSite: 'NOPE*': matches no site. Look at the output of: jedi site list.",
        ),
        (
            {"includedSite": "SITE_AA"},
            "includedSite: 'SITE_AA': matches no site. Did you mean SITE_A?",
        ),
    ],
    ids=str,
)
def test_keys_that_leave_no_site_are_refused(
    submit: Submit, keys: dict[str, str], expected: str
) -> None:
    """Docs: "run at these sites only" and "do not run at these sites": if the keys leave none of
    SITE_A and SITE_B, no broker can choose one; the task would wait for ever."""
    assert [str(one) for one in refused(submit, document(**keys))] == [expected]


@pytest.mark.parametrize(
    "keys",
    [
        {"includedSite": "SITE_*,NOPE", "excludedSite": "SITE_A,GONE"},
        {"includedSite": "AUTO", "excludedSite": "SITE_A"},
        {"site": "SITE_A,SITE_B", "excludedSite": "SITE_A"},
    ],
    ids=str,
)
def test_keys_that_leave_a_site_are_accepted(submit: Submit, keys: dict[str, str]) -> None:
    """SITE_B is left in each case; AUTO is any site, and an unknown one may come later."""
    assert submit(document(**keys)).created


def test_outputs_go_to_endpoints_that_exist(world: World, submit: Submit) -> None:
    second = {**OUTPUT, "value": "p.${SN}", "dataset": "a:b", "destination": "SITE_B_DATADIS"}
    problems = refused(submit, document(second, destination="NOWHERE"))
    assert [(p.path, p.remedy) for p in problems] == [
        ("destination", "Look at the output of: jedi endpoint list"),
        ("jobParameters[1].destination", "Did you mean SITE_B_DATADISK?"),
    ]
    submit(document(second | {"destination": "SITE_B_DATADISK"}, destination="SITE_A_DATADISK"))


def test_a_repeat_under_a_key_finds_the_first_task(submit: Submit) -> None:
    first = submit(document(), key="k")
    again = submit(document(), key="k")
    assert again == Submitted(first.jedi_task_id, "registered", False)
    other = submit(
        document({**OUTPUT, "value": "p.${SN}", "dataset": "a:b"}, jobParameters=[]),
        "berta",
        key="k",
    )
    assert other.created


def test_racing_submissions_under_one_key_make_one_task(world: World, submit: Submit) -> None:
    start = threading.Barrier(8)
    made: list[Submitted] = []

    def race(i: int) -> None:
        start.wait()
        made.append(submit(document(), key="k"))

    threads = [threading.Thread(target=race, args=[i]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.jedi_task_id for one in made}) == 1
    assert sum(one.created for one in made) == 1
    assert len(rows(world.engine, "SELECT FROM jedi_tasks")) == 1


def test_ordinary_users_submit_for_themselves(world: World, submit: Submit) -> None:
    text = document(userName="berta", taskType="prod", prodSourceLabel="managed", taskPriority=2000)
    assert {p.path for p in refused(submit, text)} == {
        "userName",
        "taskType",
        "prodSourceLabel",
        "taskPriority",
    }
    (problem,) = refused(submit, document(workQueueName="user"))
    assert (problem.path, problem.value) == ("workQueueName", "user")
    submit(document(userName="anna"))


@pytest.mark.parametrize("role", ["production", "operator"])
def test_production_users_submit_for_others(world: World, submit: Submit, role: str) -> None:
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="prod", role=role, gridpref=None, cap=None)
    submit(document(userName="berta", taskType="prod", taskPriority=2000), "prod")
    (task,) = rows(world.engine, "SELECT * FROM jedi_tasks")
    assert (task.username, task.tasktype, task.taskpriority) == ("berta", "prod", 2000)
    other = [{**OUTPUT, "dataset": "a:other"}]
    (problem,) = refused(submit, document(workQueueName="manage", jobParameters=other), "prod")
    assert (problem.path, problem.remedy) == ("workQueueName", "Did you mean managed?")
    chosen = submit(document(workQueueName="managed", jobParameters=other), "prod")
    assert TaskRefiner(world).run_once() == 2
    (found,) = rows(
        world.engine, "SELECT gshare FROM jedi_tasks WHERE jeditaskid = :t", t=chosen.jedi_task_id
    )
    assert found.gshare == "managed"


def test_inputs_must_be_known(world: World, submit: Submit) -> None:
    text = document(INPUT, noInput=...)
    (problem,) = refused(submit, text)
    assert (problem.path, problem.value) == ("jobParameters[1].dataset", "demo:in")
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    submit(text)


def test_the_output_of_a_task_is_an_input_before_it_exists(world: World, submit: Submit) -> None:
    reader = document(
        {**INPUT, "dataset": "a:out"},
        noInput=...,
        jobParameters=[
            {**INPUT, "dataset": "a:out"},
            {**OUTPUT, "dataset": "a:second"},
        ],
    )
    third = reader.replace("a:second", "a:third")
    submit(document())
    submit(reader)
    assert TaskRefiner(world).run_once() == 2
    submit(third)


def test_each_task_has_outputs_of_its_own(world: World, submit: Submit) -> None:
    first = submit(document())
    for _ in range(2):  # before refining, after it
        (problem,) = refused(submit, document())
        assert problem.path == "jobParameters[0].dataset"
        assert f"task {first.jedi_task_id}" in problem.rule
        assert problem.remedy.endswith("a:out.$JEDITASKID")
        TaskRefiner(world).run_once()
    put_file_dataset(world, "a:mine", {"f": b"x"}, "SITE_A_DATADISK")
    mine = document(jobParameters=[{**OUTPUT, "dataset": "a:mine"}])
    assert refused(submit, mine)[0].rule == "exists in data management"
    for _ in range(2):
        submit(document(jobParameters=[{**OUTPUT, "dataset": "a:out.$JEDITASKID"}]))


def test_racing_submissions_with_one_output_make_one_task(world: World, submit: Submit) -> None:
    start = threading.Barrier(6)
    refusals: list[BadInput] = []

    def race() -> None:
        start.wait()
        try:
            submit(document())
        except BadInput as error:
            refusals.append(error)

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refusals) == 5
    assert len(rows(world.engine, "SELECT FROM jedi_tasks")) == 1


# The sandbox


def unpacked(data: bytes) -> dict[str, tuple[bytes, int]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: (archive.extractfile(m).read(), m.mode) for m in archive}  # type: ignore[union-attr]


def tar_with(path: Path, **members: tarfile.TarInfo | bytes) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, member in members.items():
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(name)
            content = member if isinstance(member, bytes) else b""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_warnings_of_what_the_jobs_would_meet(world: World, submit: Submit) -> None:
    """An output that makes the name of an input; a dataset that never suffices for a job."""
    out = {**OUTPUT, "sourceName": "b"}
    second = {**INPUT, "value": "${IN2}", "dataset": "demo:second"}
    three = {**second, "value": "${IN3}", "dataset": "demo:three", "attributes": "np=3,repeat"}
    keys = {"noInput": ..., "nFilesPerJob": 2}
    put_file_dataset(world, "demo:in", {"o.000003": b"1", "o.000001": b"1"}, "SITE_A_DATADISK")
    put_file_dataset(world, "demo:second", {"b": b"1", "c": b"1"}, "SITE_A_DATADISK")
    put_file_dataset(world, "demo:three", {"d": b"1", "e": b"1"}, "SITE_A_DATADISK")
    items = [INPUT, second, three, out]
    warned = submit(document(jobParameters=items, **keys)).warnings
    assert warned == (
        "Output o.${SN} can produce names of existing files of demo:in, such as o.000001: a job "
        "that reads one gets another serial number.",
        "sourceName b is a file of demo:second, too: JEDI makes no job that would overwrite it.",
        "A job needs 3 files of demo:three, which has 2: the task would wait for more.",
    )
    fine = [INPUT, second, {**OUTPUT, "value": "> p.${SN}", "dataset": "a:other"}]
    assert submit(document(jobParameters=fine, **keys)).warnings == ()


def test_a_blank_in_the_name_of_an_output_is_warned_of(submit: Submit) -> None:
    """`> count ${SN}.txt` writes to the file `count`; the output `${SN}.txt` never exists."""

    def warned(value: str) -> tuple[str, ...]:
        item = {**OUTPUT, "value": value, "dataset": "a:$JEDITASKID"}
        return tuple(submit(document(jobParameters=[item])).warnings)

    assert warned("> count ${SN}.txt") == (
        "The shell writes to the file count in `> count ${SN}.txt`, and the output is ${SN}.txt. "
        "Names have no blanks: write > count.${SN}.txt if both are one name.",
    )
    for fine in ("> count.${SN}.txt", "> ${SN}.txt", "2>&1 > c.${SN}", "> log -o ${SN}.txt"):
        assert warned(fine) == ()


def test_the_sandbox_is_packed_and_stored_once(
    world: World, submit: Submit, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "sub" / "run.sh").chmod(0o4755)
    tar_with(tmp_path / "more.tar.gz", **{"lib/a.txt": b"a"})
    with zipfile.ZipFile(tmp_path / "even.zip", "w") as archive:
        archive.writestr("b.txt", b"b")
    files = ["sub/run.sh", "more.tar.gz", str(tmp_path / "even.zip")]
    for i in range(2):
        os.utime(tmp_path / "sub" / "run.sh", (i, i))
        submit(document(jobParameters=[{**OUTPUT, "dataset": f"a:{i}"}], sandbox=files))
    (stored,) = rows(world.engine, "SELECT sha256, data FROM jedi_sandboxes")
    assert unpacked(stored.data) == {
        "run.sh": (b"#!/bin/sh\n", 0o755),
        "lib/a.txt": (b"a", 0o644),
        "b.txt": (b"b", 0o644),
    }
    found = rows(world.engine, "SELECT DISTINCT sandbox_sha256 FROM jedi_taskparams")
    assert [row.sandbox_sha256 for row in found] == [stored.sha256]


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../evil"),
        tarfile.TarInfo("/etc/evil"),
        tarfile.TarInfo("a/../../evil"),
        link("evil", "/etc/passwd"),
        link("evil", "good", tarfile.LNKTYPE),
        link("evil", "", tarfile.CHRTYPE),
        link("evil", "", tarfile.FIFOTYPE),
        tarfile.TarInfo("good"),
        tarfile.TarInfo("good/below"),
    ],
    ids=lambda member: f"{member.name}-{member.type!r}",
)
def test_archives_with_tricks_are_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    tar_with(tmp_path / "x.tgz", good=b"good", evil=member)
    sandbox, (problem,) = bundle(["x.tgz"], tmp_path, 1)
    assert sandbox is None and problem.path == "sandbox[0]"


@pytest.mark.parametrize("name", ["../evil", "/etc/evil"])
def test_zips_with_tricks_are_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, b"x")
    with zipfile.ZipFile(tmp_path / "l.zip", "w") as archive:
        info = zipfile.ZipInfo("evil")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    _, problems = bundle(["x.zip", "l.zip"], tmp_path, 1)
    assert [p.path for p in problems] == ["sandbox[0]", "sandbox[1]"]


def test_what_can_not_be_in_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "torn.tgz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    (tmp_path / "no.zip").write_bytes(b"no zip")
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "dir" / "a").write_bytes(b"2")
    files = ["dir", "fifo", "torn.tgz", "no.zip", "missing", "a", "dir/a", "nul\0"]
    sandbox, problems = bundle(files, tmp_path, 1)
    assert sandbox is None
    assert [p.path for p in problems] == [f"sandbox[{i}]" for i in (0, 1, 2, 3, 4, 6, 7)]


def test_a_sandbox_is_bounded(world: World, submit: Submit, tmp_path: Path) -> None:
    tar_with(tmp_path / "bomb.tgz", zeros=bytes(3 * 2**20))
    (tmp_path / "half").write_bytes(bytes(600_000))
    (tmp_path / "other").write_bytes(bytes(600_000))
    for files in (["bomb.tgz"], ["half", "other"]):
        _, (problem,) = bundle(files, tmp_path, 1)
        assert "sandbox.max_mb" in problem.rule
    with world.engine.begin() as tx:
        knobs.put(tx, "sandbox.max_mb", 1, "op")
    assert refused(submit, document(sandbox=["bomb.tgz"]))[0].path == "sandbox[0]"


# Looking and commanding


def test_find_and_show(world: World, submit: Submit) -> None:
    made = [
        submit(document(taskName=name, jobParameters=[{**OUTPUT, "dataset": f"a:{i}"}]), who)
        for i, (name, who) in enumerate([("one", "anna"), ("two_%", "anna"), ("one", "berta")])
    ]
    with world.engine.begin() as tx:
        ids = [task.jedi_task_id for task in task_details.find(tx)]
        assert ids == [one.jedi_task_id for one in reversed(made)]
        assert [
            t.task_name for t in task_details.find(tx, TaskQuery(user="anna", name="t*_%"))
        ] == ["two_%"]
        assert (
            not task_details.find(tx, TaskQuery(status=["done"]))
            and len(task_details.find(tx, page=ListPage(limit=2))) == 2
        )
        details = task_details.show(call(tx), ids[0])
        assert (details.task.status, details.jobs, details.failures) == ("registered", {}, [])
        assert not task_details.jobs(tx, ids[0]) and not task_details.files(call(tx), ids[0])
        assert not task_details.outputs(call(tx), ids[0], logs=True)
        for look in (task_details.show, task_details.files, task_details.history):
            with pytest.raises(NotFound):
                look(call(tx), 10**6)
        with pytest.raises(NotFound):
            task_details.jobs(tx, 10**6)


def test_failures_by_cause(world: World, submit: Submit) -> None:
    task_id = submit(document()).jedi_task_id
    job = (
        "INSERT INTO {} (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status, "
        "site, priority, cores, memory_mb, walltime_s, disk_mb, exit_code, error_source, "
        "error_code, error_diag, postprocessed_at) SELECT n, :task, :task, n, n, 1, :status, "
        "'SITE_A', 1, 1, 0, 0, 0, :exit, 'payload', :code, 'diag ' || n, jedi_now() "
        "FROM generate_series(CAST(:first AS int), :last) n"
    )
    with world.engine.begin() as tx:
        for table, first, last, status, exit_code, code in (
            ("jedi_jobs", 1, 2, "failed", 1, "payload_exit"),
            ("jedi_jobs_archived", 3, 3, "failed", 1, "payload_exit"),
            ("jedi_jobs", 4, 4, "failed", None, "wall_limit"),
            ("jedi_jobs", 5, 5, "finished", 0, None),
        ):
            tx.execute(
                text(job.format(table)),
                {
                    "task": task_id,
                    "status": status,
                    "exit": exit_code,
                    "code": code,
                    "first": first,
                    "last": last,
                },
            )
        archive_groups.count_all(tx)
        tx.execute(text("INSERT INTO jedi_job_tail (pandaid, stderr_tail) VALUES (3, 'oh no')"))
        details = task_details.show(call(tx), task_id)
        assert details.jobs == {"failed": 4, "finished": 1}
        assert [(f.error_code, f.jobs, f.panda_id) for f in details.failures] == [
            ("payload_exit", 3, 3),
            ("wall_limit", 1, 4),
        ]
        assert details.failures[0].error_diag == "diag 3"
        failed = task_details.jobs(tx, task_id, JobQuery(status=["failed"]))
        assert [job.panda_id for job in failed] == [1, 2, 3, 4]
        assert failed[2].stderr_tail == "oh no"
        assert len(task_details.jobs(tx, task_id)) == 5


def test_commands_need_the_owner_and_the_right_status(world: World, submit: Submit) -> None:
    task_id = submit(document()).jedi_task_id
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="op", role="operator", gridpref=None, cap=None)
        with pytest.raises(BadInput, match="Did you mean kill"):
            commanding.command(tx, "anna", task_id, "kil")
        with pytest.raises(NotFound):
            commanding.command(tx, "anna", 10**6, "kill")
        [refused] = kill(call(tx, "berta"), [task_id])
        assert (refused.error, refused.command_id) == ("forbidden", None)
        assert "belongs to anna" in refused.sentence
        with pytest.raises(Refused, match="registered"):
            commanding.command(tx, "anna", task_id, "retry")
        commanding.command(tx, "anna", task_id, "pause", comment="mistake")
        commanding.command(tx, "op", task_id, "kill")
        with pytest.raises(Refused, match="being killed already"):
            commanding.command(tx, "anna", task_id, "kill")
    found = rows(world.engine, "SELECT * FROM jedi_commands ORDER BY command_id")
    assert [(c.command, c.username, c.comment) for c in found] == [
        ("pause", "anna", "mistake"),
        ("kill", "op", None),
    ]


def test_production_users_retry_tasks_of_others(world: World, submit: Submit) -> None:
    task_id = submit(document()).jedi_task_id
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="prod", role="production", gridpref=None, cap=None)
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_tasks SET status = 'exhausted'"))
        assert retry(call(tx, "prod"), jedi_task_ids=[task_id], options=RetryOptions())[0].accepted
        assert kill(call(tx, "prod"), [task_id])[0].error == "forbidden"


@pytest.mark.parametrize(
    ("keys", "path", "words"),
    [
        ({"transPath": "echo it's a date"}, "jobParameters", "Unterminated quoted string"),
        ({"transPath": "if true; then date"}, "jobParameters", "end of file unexpected"),
        ({"transPath": "echo $(date"}, "jobParameters", "end of file unexpected"),
        (
            {"mergeOutput": True, "mergeSpec": {"transPath": "cat )", "jobParameters": "$PANDAID"}},
            "mergeSpec",
            "unexpected",
        ),
        ({"transPath": "/bin/echo " + "ü" * 70_000}, "jobParameters", "has 140000 bytes"),
    ],
)
def test_a_command_that_the_shell_can_not_read_is_refused(
    submit: Submit, keys: dict[str, Any], path: str, words: str
) -> None:
    """No attempt can make it better: an apostrophe was tried three times."""
    (problem,) = refused(submit, document(**keys))
    assert problem.path == path and words in problem.rule


@pytest.mark.parametrize(
    "command",
    [
        "for f in ${IN/S}; do cat $f; done",
        "test a = 'b' || echo \"${IN}\"",
        "f() { cat ${IN/F}; }; f",
        "echo ${IN/A} ${IN/T} ${SN/P} ${SEQNUMBER/M[#*2]} $PANDAID $(date) `date`",
    ],
)
def test_a_command_that_the_shell_can_read_is_taken(
    submit: Submit, world: World, command: str
) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    items = [{**INPUT, "value": command}, OUTPUT]
    submit(document(noInput=..., transPath=..., jobParameters=items))
