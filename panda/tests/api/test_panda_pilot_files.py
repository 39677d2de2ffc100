"""Files of PanDA's pilots: links to inputs, outputs out of the exchange directory, sandboxes and
scripts, documents of queues and storages."""

# Raw UPDATEs: commands, and outputs by other names, that the job builder does not make.

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jedi_panda.transformations import script
from sqlalchemy import text
from starlette.testclient import TestClient
from support.helpers import put_file_dataset
from support.job_rows import Made, make_jobs, watch
from support.panda_pilots import beat, by_form, client_of, end, get_job, option, store
from support.pilot_world import tar_gz

from jedi.agent.base import World
from jedi.ddm.exchange import AttemptExchange
from jedi.jobdispatcher.agent import Adder
from jedi.taskbuffer.db import knobs
from jedi.watchdog import sweep

ENDPOINT = "SITE_A_DATADISK"
Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def client(world: World) -> TestClient:
    return client_of(world)


def job_with_files(world: World, files: int = 2) -> Made:
    """A job whose inputs lie at its site."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1, files=files)
    for kind in ("output", "log"):
        world.ddm.create(f"test:{made.task}.{kind}", ENDPOINT)
    contents = {f"input.{made.jobs[0]}.{n}": f"f{n}\n".encode() for n in range(1, files + 1)}
    if files:
        put_file_dataset(world, f"test:{made.task}.input", contents, ENDPOINT)
    return made


def pilots_place(world: World, scope: str, lfn: str) -> Path:
    """The place of a file by the rule of the pilot's copy tool: SCOPE/aa/bb/LFN."""
    digest = md5(f"{scope}:{lfn}".encode()).hexdigest()
    root = Path(world.ddm.exchange_where(ENDPOINT))
    return root.joinpath(*scope.split("."), digest[:2], digest[2:4], lfn)


def row(world: World, panda_id: int) -> tuple[Any, ...]:
    with world.engine.begin() as tx:
        asked = text("SELECT status, error_code, error_diag FROM jedi_jobs WHERE pandaid = :id")
        return tuple(tx.execute(asked, {"id": panda_id}).one())


def test_inputs_are_links(client: TestClient, world: World) -> None:
    made = job_with_files(world)
    job = get_job(client)
    lfns = [f"input.{made.jobs[0]}.{n}" for n in (1, 2)]
    assert job["inFiles"].split(",") == lfns
    assert job["realDatasetsIn"] == ",".join([f"test:{made.task}.input"] * 2)
    assert job["fsize"] == "3,3"
    assert job["ddmEndPointIn"] == f"{ENDPOINT},{ENDPOINT}"
    lists = (
        "GUID",
        "checksum",
        "scopeIn",
        "prodDBlocks",
        "prodDBlockToken",
        "dispatchDblock",
        "dispatchDBlockToken",
    )
    assert {len(job[name].split(",")) for name in lists} == {2}
    for number, (scope, lfn) in enumerate(zip(job["scopeIn"].split(","), lfns, strict=True), 1):
        place = pilots_place(world, scope, lfn)
        assert place.is_symlink()
        assert place.read_text() == f"f{number}\n"
    # directories of outputs are there, so that JEDI may move files out of them
    for lfn in job["outFiles"].split(","):
        assert pilots_place(world, job["scopeLog"], lfn).parent.is_dir()


@pytest.mark.parametrize("damage", ["missing", "size"])
def test_an_input_that_can_not_be_used(client: TestClient, world: World, damage: str) -> None:
    """The pilot would follow a link to nowhere. The next job is taken instead."""
    made, good = job_with_files(world), job_with_files(world, 0)
    path = world.ddm.path(ENDPOINT, f"test:{made.task}.input", f"input.{made.jobs[0]}.1")
    path.unlink() if damage == "missing" else path.write_bytes(b"longer than that\n")
    assert get_job(client)["PandaID"] == good.jobs[0]
    Adder(world).run_once()
    status, code, diag = row(world, made.jobs[0])
    assert (status, code) == ("failed", f"stagein_{damage}")
    assert f"input.{made.jobs[0]}.1" in diag


def test_outputs_by_other_names_and_outputs_that_may_be_missing(
    client: TestClient, world: World
) -> None:
    made = job_with_files(world, 0)
    [panda_id] = made.jobs
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_job_files SET source_name = 'out dat' WHERE type = 'output'"))
    job = get_job(client)
    assert option(job, "rename") == [quote(f"out dat=output.{panda_id}.1", safe="/:._-+@,")]
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET attributes = 'an' WHERE type = 'output'"))
    other = job_with_files(world, 0)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET attributes = 'an' WHERE type = 'output'"))
    job = get_job(client)
    lfn = f"output.{other.jobs[0]}.1"
    assert job["outFiles"] == job["logFile"]
    assert job["scopeOut"] == ""
    place = pilots_place(world, job["scopeLog"], lfn)
    assert option(job, "deliver") == [quote(f"{lfn}={place}", safe="/:._-+@,")]
    place.write_bytes(b"found")  # as jedi-command does
    end(client, job, "finished", xml=store(world, job, {job["logFile"]: b"log"}))
    Adder(world).run_once()
    assert row(world, other.jobs[0])[0] == "finished"
    published = world.ddm.path(ENDPOINT, f"test:{other.task}.output", lfn)
    assert published.read_bytes() == b"found"


@pytest.mark.parametrize("trick", ["file", "directory", "fifo"])
def test_nothing_outside_of_the_exchange_directory_is_touched(
    client: TestClient, world: World, tmp_path: Path, trick: str
) -> None:
    made = job_with_files(world, 0)
    [panda_id] = made.jobs
    job = get_job(client)
    lfn = f"output.{panda_id}.1"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / lfn).write_bytes(b"secret")
    told = json.loads(store(world, job, {lfn: b"secret", job["logFile"]: b"log"}))
    place = pilots_place(world, job["scopeOut"], lfn)
    place.unlink()
    if trick == "file":
        place.symlink_to(outside / lfn)
    elif trick == "fifo":
        os.mkfifo(place)
    else:
        place.parent.rmdir()
        place.parent.symlink_to(outside)
    end(client, job, "finished", xml=json.dumps(told))
    assert (outside / lfn).read_bytes() == b"secret"
    Adder(world).run_once()
    assert row(world, panda_id)[:2] == ("failed", "output_not_file")


def test_names_of_the_pilot_lead_nowhere(client: TestClient, world: World, tmp_path: Path) -> None:
    """Outputs are those of the database; `surl` is not read."""
    made = job_with_files(world, 0)
    job = get_job(client)
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    for lfn in ("../../victim", str(victim), ".hidden", "a/b", "x" * 300, ""):
        xml = json.dumps(
            {lfn: {"fsize": 4, "adler32": "00000001", "guid": "", "surl": str(victim)}}
        )
        answer = end(client, job, "finished", xml=xml)
        assert answer["StatusCode"] == 30
        assert "xml" in answer["errorDialog"]
    assert victim.read_bytes() == b"mine"
    assert row(world, made.jobs[0])[0] == "sent"


def test_a_crash_between_the_move_and_the_report(client: TestClient, world: World) -> None:
    """The outputs lie in the staging directory already: the repeated update finds them."""
    made = job_with_files(world, 0)
    [panda_id] = made.jobs
    job = get_job(client)
    xml = store(world, job, {f"output.{panda_id}.1": b"data", job["logFile"]: b"log"})
    target = world.ddm.staging_dir(ENDPOINT, panda_id, job["attemptNr"])
    target.mkdir(parents=True)
    root = Path(world.ddm.exchange_where(ENDPOINT))
    found = AttemptExchange(root, panda_id, job["attemptNr"]).collect(
        f"output.{panda_id}.1", target
    )
    assert found is not None
    assert found.size == 4
    end(client, job, "finished", xml=xml)
    Adder(world).run_once()
    assert row(world, panda_id)[0] == "finished"


def test_leftovers_are_swept(client: TestClient, world: World) -> None:
    made = job_with_files(world)
    job = get_job(client)
    attempt = (made.jobs[0], job["attemptNr"])
    assert attempt in world.ddm.staged(ENDPOINT)
    sweep.run(world)
    assert world.ddm.staged(ENDPOINT) == [attempt]  # it lives
    end(client, job, "failed", pilotErrorCode="1305")
    assert list(Path(world.ddm.exchange_where(ENDPOINT)).iterdir()) == []
    # a pilot that comes back after the end
    AttemptExchange(Path(world.ddm.exchange_where(ENDPOINT)), *attempt).prepare({}, ["late"])
    Adder(world).run_once()
    sweep.run(world)
    assert world.ddm.staged(ENDPOINT) == []


def test_jobs_that_no_pilot_of_panda_can_run(client: TestClient, world: World) -> None:
    long, comma = job_with_files(world, 0), job_with_files(world, 0)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_job_params SET jobparameters = repeat('x ', 60000) WHERE pandaid = :id"
            ),
            {"id": long.jobs[0]},
        )
        tx.execute(
            text("UPDATE jedi_job_files SET lfn = 'a,b' WHERE pandaid = :id AND type = 'output'"),
            {"id": comma.jobs[0]},
        )
    assert get_job(client)["StatusCode"] == 20
    assert get_job(client)["StatusCode"] == 20
    Adder(world).run_once()
    for made, word in ((long, "100000 characters"), (comma, "a,b")):
        status, code, diag = row(world, made.jobs[0])
        assert (status, code) == ("failed", "panda_unfit")
        assert word in diag


def test_pruns_command_has_its_own_transformation(client: TestClient, world: World) -> None:
    job_with_files(world, 0)
    words = """-j "" --sourceURL http://h:1 -r . -a jobO.1.tar.gz -o "{'o': 'x'}" -p "a%20b" """
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_job_params SET jobparameters = :c"), {"c": f"./jedi-run {words}"}
        )
    job = get_job(client)
    assert job["transformation"] == "http://panda.site.org:25080/trf/user/jedi-run"
    assert job["jobPars"] == words


def test_knob_of_the_address(world: World) -> None:
    job_with_files(world, 0)
    with world.engine.begin() as tx:
        knobs.put(tx, "api.panda_url", "https://jedi.site.org/", "me")
    job = get_job(client_of(world))
    assert job["transformation"] == "https://jedi.site.org/trf/user/jedi-command"


# --------------------------------------------------------------------- what payloads fetch


def test_scripts_and_sandboxes_need_no_token(world: World) -> None:
    stranger = client_of(world, None)
    archive = tar_gz(("run.sh", b"echo\n"))
    name = hashlib.sha256(archive).hexdigest()
    with world.engine.begin() as tx:
        tx.execute(
            text("INSERT INTO jedi_sandboxes (sha256, data) VALUES (:n, :d)"),
            {"n": name, "d": archive},
        )
    assert stranger.get(f"/trf/sandbox/{name}").content == archive
    assert stranger.get("/trf/user/jedi-command").content == script("jedi-command")
    assert stranger.get("/trf/user/jedi-run").content == script()
    for wrong in (
        "/trf/sandbox/abc",
        f"/trf/sandbox/{'0' * 64}",
        "/trf/user/other",
        "/trf/user/..%2fapp",
        "/trf/user/jedi_command.py",
    ):
        assert stranger.get(wrong).status_code == 404, wrong


class CommandRun:
    """jedi-command in a directory of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "jedi-command").write_bytes(script("jedi-command"))

    def __call__(
        self, command: str, **options: str | list[str]
    ) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "jedi-command"]
        for name, values in options.items():
            for value in [values] if isinstance(values, str) else values:
                words.append(f"--{name}={quote(value, safe='')}")
        words.append(f"--command={quote(command, safe='')}")
        return subprocess.run(words, cwd=self.place, capture_output=True, text=True, check=False)


@pytest.fixture
def run(tmp_path: Path) -> CommandRun:
    place = tmp_path / "run"
    place.mkdir()
    return CommandRun(place)


def file_url(tmp_path: Path, archive: bytes, name: str = "") -> str:
    place = tmp_path / (name or hashlib.sha256(archive).hexdigest())
    place.write_bytes(archive)
    return place.as_uri()


def test_the_command_of_a_job(run: CommandRun, tmp_path: Path) -> None:
    url = file_url(tmp_path, tar_gz(("d/run.sh", b'echo "$1 $PANDAID"; cat list\n')))
    done = run(
        "sh d/run.sh 'a;b $x' > 'out 1'; echo x > maybe",
        sandbox=url,
        env="PANDAID=17",
        text="list=é\n",
        rename="out 1=o.dat",
        deliver=[f"maybe={tmp_path}/target", f"never={tmp_path}/no"],
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (run.place / "o.dat").read_text() == "a;b $x 17\né\n"
    assert (tmp_path / "target").read_text() == "x\n"
    assert not (tmp_path / "no").exists()
    assert run("exit 7").returncode == 7
    assert run("kill -9 $$").returncode == 137


def test_a_command_without_its_inputs(run: CommandRun) -> None:
    """A run said `finished` with links to nowhere: its last command returned 0."""
    (run.place / "input").symlink_to("/nowhere/input")
    done = run("true")
    assert done.returncode == 81
    assert "Inputs are missing: input." in done.stderr


def test_metadata_of_a_payload_reach_the_job(
    client: TestClient, world: World, run: CommandRun
) -> None:
    assert run("""echo '{"N_GOOD": 3}' > jedi_metadata.json""").returncode == 0
    made = job_with_files(world, 0)
    job = get_job(client)
    [lfn] = [one for one in job["outFiles"].split(",") if one != job["logFile"]]
    xml = store(world, job, {lfn: b"x", job["logFile"]: b"y"})
    report = (run.place / "jobReport.json").read_text()
    end(client, job, "finished", xml=xml, metaData=report)
    with world.engine.begin() as tx:
        asked = text("SELECT metadata FROM jedi_jobs WHERE pandaid = :id")
        assert tx.scalar(asked, {"id": made.jobs[0]}) == {"N_GOOD": 3}


def test_bad_sandboxes(run: CommandRun, tmp_path: Path) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    hard = tarfile.TarInfo("hard")
    hard.type, hard.linkname = tarfile.LNKTYPE, "jedi-command"
    setuid = tarfile.TarInfo("set")
    setuid.mode, setuid.size = 0o4755, 1
    device = tarfile.TarInfo("dev")
    device.type = tarfile.CHRTYPE
    for archive, word in (
        (tar_gz(("../out", b"x")), "leads out"),
        (tar_gz(("/tmp/out", b"x")), "leads out"),
        (tar_gz(("jedi-command", b"x")), "File exists"),
        (tar_gz(link), "no plain file"),
        (tar_gz(hard), "no plain file"),
        (tar_gz(setuid), "no plain file"),
        (tar_gz(device), "no plain file"),
        (b"no archive", "ERROR"),
    ):
        done = run("touch ran", sandbox=file_url(tmp_path, archive))
        assert done.returncode == 81
        assert word in done.stderr
    damaged = run("touch ran", sandbox=file_url(tmp_path, tar_gz(("a", b"x")), "0" * 64))
    assert "damaged" in damaged.stderr
    (run.place / "out").symlink_to(tmp_path)
    trap = run("touch ran", sandbox=file_url(tmp_path, tar_gz(("out/file", b"x"))))
    assert "leads out" in trap.stderr
    assert not (tmp_path / "file").exists()
    assert not (run.place / "ran").exists()


# ------------------------------------------------------------------------------ documents


def test_documents_of_queues_and_storages(world: World) -> None:
    stranger = client_of(world, None)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_sites SET catchall = '{\"timefloor\": 10}', maxwdir = 5000 "
                "WHERE site = 'SITE_A'"
            )
        )
    queue = stranger.get("/cache/schedconfig/SITE_A.all.json").json()
    assert queue == stranger.get("/cache/schedconfig/SITE_A.json").json()
    found = {
        name: queue[name]
        for name in ("nickname", "panda_resource", "state", "status", "timefloor", "maxwdir")
    }
    assert found == {
        "nickname": "SITE_A",
        "panda_resource": "SITE_A",
        "state": "ACTIVE",
        "status": "online",
        "timefloor": 10,
        "maxwdir": 5000,
    }
    assert "mv_final_destination" in queue["catchall"]
    assert list(queue["copytools"]) == ["mv"]
    assert queue["astorages"]["pw"] == [ENDPOINT]
    storages = stranger.get("/cache/ddmendpoints.json").json()
    assert list(storages) == ["SITE_A_DATADISK", "SITE_B_DATADISK"]
    place = world.ddm.exchange_where(ENDPOINT)
    [protocol] = storages[ENDPOINT]["arprotocols"]["pw"]
    assert (protocol["endpoint"], protocol["path"]) == ("file://localhost", f"{place}/")
    assert stranger.get("/cache/schedconfig/NONE.all.json").status_code == 404


def test_workers_are_heard(client: TestClient) -> None:
    said = {
        "workerID": "1",
        "harvesterID": "h",
        "status": "started",
        "site": "SITE_A",
        "node_id": "n",
    }
    assert by_form(client, "updateWorkerPilotStatus", said).json() == {"StatusCode": 0}


def test_a_heartbeat_is_one_statement(client: TestClient, world: World) -> None:
    job_with_files(world, 0)
    job = get_job(client)
    beat(client, job, "running")
    seen = watch(world.engine)
    beat(client, job, "running")
    assert [one for one in seen if "UPDATE jedi_jobs" in one] == []  # psycopg's own, unseen here
    assert len(seen) <= 1
