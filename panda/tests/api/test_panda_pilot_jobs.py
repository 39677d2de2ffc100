"""Jobs of PanDA's pilots: getJob, updateJob and their forms. Shapes are those of recorded calls."""

# Raw UPDATEs: what only the passing of hours, or another process, would do to a job.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient
from support.job_rows import make_jobs
from support.panda_pilots import (
    GET_JOB,
    beat,
    by_form,
    by_gzip,
    client_of,
    end,
    get_job,
    option,
    store,
)

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.taskbuffer.jobs import jobs


@pytest.fixture
def client(world: World) -> TestClient:
    return client_of(world)


def job_row(world: World, panda_id: int, columns: str = "status, pilot_result") -> tuple[Any, ...]:
    with world.engine.begin() as tx:
        asked = text(f"SELECT {columns} FROM jedi_jobs WHERE pandaid = :id")
        return tuple(tx.execute(asked, {"id": panda_id}).one())


def outputs_of(world: World, job: dict[str, Any], **contents: bytes) -> str:
    output = next(one for one in job["outFiles"].split(",") if one != job["logFile"])
    made = {output: b"data 101\n", job["logFile"]: b"a log"}
    return store(world, job, made)


def test_the_dictionary_of_a_job(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1, files=0)
    [panda_id] = made.jobs
    job = get_job(client)
    assert (job["StatusCode"], job["PandaID"], job["taskID"]) == (0, panda_id, made.task)
    # docs/reference/panda.md: the transformation is a URL below the base by which the pilot asked
    assert job["transformation"] == "http://panda.site.org:25080/trf/user/jedi-command"
    assert unquote(*option(job, "command")) == f"echo {panda_id}"
    assert [unquote(one) for one in option(job, "env")] == [
        f"JEDITASKID={made.task}",
        f"PANDAID={panda_id}",
        "ATTEMPTNR=1",
        "SITE=SITE_A",
        "CORECOUNT=1",
    ]
    output, log = f"output.{panda_id}.1", f"log.{panda_id}.1"
    # docs/reference/panda.md#job-dictionary: the log is among all lists but scopeOut
    assert job["outFiles"] == f"{output},{log}"
    assert job["realDatasets"] == f"test:{made.task}.output,test:{made.task}.log"
    assert job["ddmEndPointOut"] == "SITE_A_DATADISK,SITE_A_DATADISK"
    assert (job["logFile"], job["scopeLog"]) == (log, job["scopeOut"])
    assert "," not in job["scopeOut"]
    assert len(job["outFiles"].split(",")) == len(job["destinationDBlockToken"].split(","))
    assert {job[name] for name in ("inFiles", "GUID", "fsize", "checksum", "scopeIn")} == {"NULL"}
    for name in (
        "jobsetID",
        "jobDefinitionID",
        "jobName",
        "prodSourceLabel",
        "processingType",
        "prodUserID",
        "reqID",
        "homepackage",
        "swRelease",
        "cmtConfig",
        "coreCount",
        "maxCpuCount",
        "minRamCount",
        "maxDiskCount",
        "maxWalltime",
    ):
        assert name in job
    assert job["maxWalltime"] >= 600


def test_a_job_from_start_to_end(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    job = get_job(client)
    assert job_row(world, panda_id, "status, pilot_id") == ("sent", "panda node1.site.org")
    good = {"StatusCode": 0, "command": "NULL"}
    for state in ("starting", "running", "running", "running"):
        assert beat(client, job, state) == good
        assert job_row(world, panda_id)[0] == state
    started = job_row(world, panda_id, "extract(epoch FROM starttime)::float8")[0]
    assert started == 1795187180.25
    for _ in range(2):
        assert end(client, job, "finished", xml=outputs_of(world, job)) == good
        assert job_row(world, panda_id) == ("holding", "finished")
    # out of order: it neither wakes the job nor harms the pilot's next one
    assert beat(client, job, "running") == good
    assert job_row(world, panda_id, "cpu_s, wall_s, exit_code") == (4.0, 5.0, 0)
    Adder(world).run_once()
    assert job_row(world, panda_id) == ("finished", "finished")
    for kind, content in (("output", b"data 101\n"), ("log", b"a log")):
        [name] = dataset_names(world, kind)
        path = world.ddm.path("SITE_A_DATADISK", name, f"{kind}.{panda_id}.1")
        assert path.read_bytes() == content
    assert list(world.ddm.staged("SITE_A_DATADISK")) == []
    assert end(client, job, "finished", xml="") == good
    assert job_row(world, panda_id)[0] == "finished"


def dataset_names(world: World, kind: str) -> list[str]:
    with world.engine.begin() as tx:
        asked = text("SELECT datasetname FROM jedi_datasets WHERE type = :kind")
        names = list(tx.scalars(asked, {"kind": kind}))
    return names


@pytest.fixture(autouse=True)
def datasets(world: World, request: pytest.FixtureRequest) -> None:
    """Datasets of outputs exist once their first job was made."""
    for number in range(1, 30):
        for kind in ("output", "log"):
            world.ddm.create(f"test:{number}.{kind}", "SITE_A_DATADISK")


def test_no_job(client: TestClient) -> None:
    # docs/reference/panda.md: none: {"StatusCode": 20, "errorDialog": "no jobs in PanDA"}
    assert get_job(client) == {"StatusCode": 20, "errorDialog": "no jobs in PanDA"}


def test_no_job_while_the_system_ends(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        make_jobs(tx, 1, files=0)
    world.settings.draining.touch()
    assert get_job(client)["StatusCode"] == 20


def test_all_forms_of_bodies_and_answers(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 4, files=0)
    ways = [by_form(client, "getJob", GET_JOB), by_gzip(client, "getJob", GET_JOB)]
    ways.append(client.post("/server/panda/getJob", json=GET_JOB))
    assert [one.json()["PandaID"] for one in ways] == made.jobs[:3]
    plain = by_form(client, "getJob", GET_JOB, Accept="application/x-www-form-urlencoded")
    assert plain.headers["content-type"].startswith("application/x-www-form-urlencoded")
    found = parse_qs(plain.text)
    assert (found["StatusCode"], found["PandaID"]) == (["0"], [str(made.jobs[3])])
    # no Accept at all, or anything: JSON (docs/reference/panda.md: "Use JSON")
    assert by_form(client, "getJob", GET_JOB, Accept="*/*").json()["StatusCode"] == 20


def test_slots_of_a_node_bound_its_jobs(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        [small] = make_jobs(tx, 1, files=0, memory_mb=1_000).jobs
        [large] = make_jobs(tx, 1, files=0, memory_mb=6_000, cores=8).jobs
    assert get_job(client, mem=900)["StatusCode"] == 20
    assert get_job(client, mem=7_900, resourceType="MCORE")["PandaID"] == large
    assert get_job(client, mem=1_000, resourceType="SCORE")["PandaID"] == small


def test_harvesters_worker_is_the_delegation(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    get_job(client, harvester_id="cern1", worker_id="77")
    columns = "delegation_kind, delegation_queue, delegation_id"
    assert job_row(world, panda_id, columns) == ("grid", "SITE_A", "cern1:77")


def test_a_site_is_its_tokens(client: TestClient) -> None:
    answer = by_form(client, "getJob", {**GET_JOB, "siteName": "SITE_B"})
    assert answer.status_code == 403
    assert answer.json() == {
        "StatusCode": 40,
        "errorDialog": "This token is for SITE_A, not for SITE_B.",
    }


@pytest.mark.parametrize("name", ["getJob", "updateJob", "getStatus"])
def test_strangers(world: World, name: str) -> None:
    """A pilot runs any object without StatusCode as a job."""
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = by_form(client_of(world, None), name, GET_JOB, **headers)
        assert (answer.status_code, answer.json()["StatusCode"]) == (403, 40)
        assert "token" in answer.json()["errorDialog"]


# ----------------------------------------------------------------------------- kills and attempts


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_kill_reaches_the_pilot(client: TestClient, world: World, state: str) -> None:
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    job = get_job(client)
    if state == "running":
        assert beat(client, job, "running")["command"] == "NULL"
    with world.engine.begin() as tx:
        jobs.ASK_TO_KILL.run(tx, code="task_killed", ids=[panda_id])
    assert beat(client, job, state)["command"] == "tobekilled"
    killed = {"pilotErrorCode": "1144", "pilotErrorDiag": "This job was killed by panda server"}
    assert end(client, job, "failed", **killed)["command"] == "NULL"
    assert job_row(world, panda_id, "pilot_result, error_code") == ("cancelled", "killed")


def test_a_job_that_was_given_out_again(client: TestClient, world: World) -> None:
    """The number of the attempt fences the old pilot, whatever it reports."""
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    old = get_job(client)
    assert beat(client, old, "running")["command"] == "NULL"
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_jobs SET lock_seq = lock_seq + 1"))
    new = {**old, "attemptNr": old["attemptNr"] + 1}
    for state in ("starting", "running", "finished", "failed"):
        assert beat(client, old, state)["command"] == "tobekilled", state
    assert beat(client, new, "running")["command"] == "NULL"
    assert job_row(world, panda_id) == ("running", None)
    # a pilot that does not say its attempt has the last one
    nameless = {"PandaID": panda_id, "attemptNr": ""}
    assert beat(client, nameless, "running")["command"] == "NULL"
    assert beat(client, {"PandaID": 10**9, "attemptNr": ""}, "running")["command"] == "tobekilled"
    assert beat(client, {"PandaID": 10**9, "attemptNr": 1}, "finished")["command"] == "tobekilled"


def test_jobs_of_another_site_are_not_touched(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    job = get_job(client)
    other = client_of(world, "SITE_B")
    for state in ("running", "finished", "failed"):
        assert beat(other, job, state)["command"] == "tobekilled"
    assert job_row(world, panda_id) == ("sent", None)
    assert by_form(other, "getStatus", {"ids": panda_id}).json()["status"] == "notfound"


def test_a_lost_answer_to_get_job_costs_one_time_out(client: TestClient, world: World) -> None:
    """getJob has no number of its own: a repeated one gets another job. The first one is `sent`,
    and ends by watchdog.sent_timeout_s: never lost."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2, files=0)
    assert [get_job(client)["PandaID"] for _ in range(2)] == made.jobs
    assert job_row(world, made.jobs[0])[0] == "sent"


# ------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        # docs/reference/panda.md: payload `exit 7`: failed, pilotErrorCode 1305, transExitCode 7
        (
            {"pilotErrorCode": "1305", "transExitCode": "7", "pilotErrorDiag": "Failed to execute"},
            "payload_exit",
            "Exit code 7",
        ),
        (
            {"pilotErrorCode": "1165", "pilotErrorDiag": "Local output file is missing: out.dat"},
            "output_missing",
            "out.dat",
        ),
        ({"pilotErrorCode": "-1137", "pilotErrorDiag": "mv: no"}, "stageout_failed", "mv: no"),
        ({"pilotErrorCode": "1099"}, "stagein_failed", "1099"),
        ({"pilotErrorCode": "1213"}, "wall_limit", "batch system"),
        ({"pilotErrorCode": "1212"}, "memory_limit", "memory"),
        ({"pilotErrorCode": "4711", "pilotErrorDiag": "odd"}, "pilot_error", "odd"),
        ({"exeErrorCode": "65", "exeErrorDiag": "bad option"}, "payload_exit", "bad option"),
        ({"transExitCode": "3"}, "payload_exit", "exit code 3"),
        ({}, "no_reason", "without a reason"),
    ],
)
def test_failures_are_read(
    client: TestClient, world: World, said: dict[str, str], code: str, sentence: str
) -> None:
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    job = get_job(client)
    beat(client, job, "running")
    log = store(world, job, {job["logFile"]: b"why"})
    assert end(client, job, "failed", xml=log, **said) == {"StatusCode": 0, "command": "NULL"}
    columns = "pilot_result, error_code, error_diag, exit_code"
    result, found, diag, exit_code = job_row(world, panda_id, columns)
    assert (result, found) == ("failed", code)
    assert sentence in diag
    assert exit_code == int(said.get("transExitCode", 0))
    Adder(world).run_once()
    [name] = dataset_names(world, "log")
    assert world.ddm.path("SITE_A_DATADISK", name, job["logFile"]).read_bytes() == b"why"


def test_finished_with_an_error_code_failed(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    job = get_job(client)
    end(client, job, "finished", pilotErrorCode="1305", transExitCode="1")
    assert job_row(world, panda_id) == ("holding", "failed")


def test_holding_is_a_failure(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0).jobs
    end(client, get_job(client), "holding", pilotErrorCode="1137")
    assert job_row(world, panda_id, "pilot_result, error_code") == ("failed", "stageout_failed")


# ------------------------------------------------------------------------------------ outputs


def test_outputs_that_are_not_there(client: TestClient, world: World) -> None:
    """`finished` is no proof: each output is read."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 4, files=0)
    codes = []
    for number, panda_id in enumerate(made.jobs):
        job = get_job(client)
        told = json.loads(outputs_of(world, job))
        output = f"output.{panda_id}.1"
        place = told[output]["surl"].removeprefix("file://localhost")
        if number == 0:
            Path(place).unlink()
        elif number == 1:
            told[output]["fsize"] += 1
        elif number == 2:
            told[output]["adler32"] = "00000001"
        else:
            Path(place).unlink()
            del told[output]
        end(client, job, "finished", xml=json.dumps(told))
        Adder(world).run_once()
        status, code, diag = job_row(world, panda_id, "status, error_code, error_diag")
        assert status == "failed"
        assert output in diag
        codes.append(code)
    assert codes == ["staged_missing", "size_differs", "stageout_failed", "output_not_reported"]


def test_statuses_of_jobs(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        first, second = make_jobs(tx, 2, files=0).jobs
    beat(client, get_job(client), "running")
    answer = by_form(client, "getStatus", {"ids": f"{first},{second},999999"}).json()
    assert answer == {
        "StatusCode": 0,
        "status": "running,activated,notfound",
        "attemptNr": "1,0,0",
    }
