"""Batch systems that are not installed here, and ones that misbehave: their commands are played
back, and their calls recorded."""

# Raw UPDATEs: a pilot that is not there holds the job.

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.calls import call
from support.situations import set_sites
from support.submitter import Field

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import NotFound
from jedi.service.jobs import job_details
from jedi.service.sites.listing import show
from jedi.standalone.down import end_pilots
from jedi.submitter import local
from jedi.submitter.agent import Submitter
from jedi.submitter.batch import BatchEngine
from jedi.submitter.interface import EngineError, KnownPilot, Slot, Start
from jedi.submitter.queues import lost_node
from jedi.submitter.shapes import Shape

PILOT = "HERE.0123456789ab"
ATTRIBUTES = {
    "slurm": {"qos": "long"},
    "lsf": {"app": "grid"},
    "pbs": {"A": "physics"},
    "htcondor": {"accounting_group_user": "me"},
}


@dataclass(frozen=True)
class Played:
    """A system as its manual shows it: the output and the expected input of its commands."""

    submit: tuple[str, str, str]
    """The command, what it says, the id in it."""

    lists: tuple[str, str]
    """The command, what it says of a pilot that runs, one that waits, and another's job."""

    cancels: tuple[str, ...]
    directives: tuple[str, ...]
    """Lines of the script."""


def _pbs(name: str, state: str, **more: str) -> dict[str, str]:
    return {"Job_Name": name, "Job_Owner": "me@head", "job_state": state, "queue": "q", **more}


SYSTEMS = {
    "slurm": Played(
        ("sbatch", "Submitted batch job 1017", "1017"),
        (
            "squeue --me --noheader --states=all --format=%i|%T|%r|%j",
            f"1017|RUNNING|None|{PILOT}\n1018|PENDING|Resources|HERE.2\n1019|PENDING|Priority|other",
        ),
        ("scancel", "-Q", "1017", "1018"),
        (
            f'#SBATCH --job-name="{PILOT}"',
            '#SBATCH --partition="main"',
            "#SBATCH --mem=2048000K",
            "#SBATCH --ntasks=2",
            "#SBATCH --nodes=1",
            "#SBATCH --time=1:16:0",
            '#SBATCH --qos="long"',
        ),
    ),
    "lsf": Played(
        ("bsub", "Job <1017> is submitted to queue <main>.", "1017"),
        (
            "bjobs -a -json -o jobid job_name stat exit_reason",
            json.dumps(
                {
                    "COMMAND": "bjobs",
                    "JOBS": 3,
                    "RECORDS": [
                        {"JOBID": "1017", "JOB_NAME": PILOT, "STAT": "RUN", "EXIT_REASON": ""},
                        {"JOBID": "1018", "JOB_NAME": "HERE.2", "STAT": "PEND", "EXIT_REASON": ""},
                        {"JOBID": "1019", "JOB_NAME": "other", "STAT": "PEND", "EXIT_REASON": ""},
                    ],
                }
            ),
        ),
        ("bkill", "1017", "1018"),
        (
            f'#BSUB -J "{PILOT}"',
            '#BSUB -q "main"',
            "#BSUB -M 2048000KB",
            "#BSUB -n 2",
            "#BSUB -W 1:16",
            '#BSUB -app "grid"',
        ),
    ),
    "pbs": Played(
        ("qsub", "1017.head.example.org", "1017.head.example.org"),
        (
            "qstat -f -F json",
            json.dumps(
                {
                    "pbs_version": "22.05.11",
                    "Jobs": {
                        "1017.head.example.org": _pbs(PILOT, "R"),
                        "1018.head.example.org": _pbs(
                            "HERE.2", "Q", comment="Not Running: no resources"
                        ),
                        "1019.head.example.org": _pbs("other", "Q"),
                    },
                }
            ),
        ),
        ("qdel", "1017.head.example.org", "1018.head.example.org"),
        (
            f'#PBS -N "{PILOT}"',
            "#PBS -q main",
            '#PBS -r "n"',
            "#PBS -l select=1:ncpus=2:mpiprocs=2:mem=2097152000",
            "#PBS -l walltime=1:16:0",
            '#PBS -A "physics"',
        ),
    ),
    "htcondor": Played(
        ("condor_submit -terse", "1017.0 - 1017.0", "1017.0"),
        (
            "condor_q -json -attributes ClusterId,ProcId,JobBatchName,JobStatus,HoldReason",
            json.dumps(
                [
                    {"ClusterId": 1017, "ProcId": 0, "JobBatchName": PILOT, "JobStatus": 2},
                    {"ClusterId": 1018, "ProcId": 0, "JobBatchName": "HERE.2", "JobStatus": 1},
                    {"ClusterId": 1019, "ProcId": 0, "JobBatchName": "other", "JobStatus": 1},
                ]
            ),
        ),
        ("condor_rm", "1017.0", "1018.0"),
        (
            f"batch_name = {PILOT}",
            "accounting_group = main",
            "request_cpus = 2",
            "request_memory = 2000",
            "allowed_job_duration = 4560",
            "accounting_group_user = me",
            "should_transfer_files = NO",
            "queue",
        ),
    ),
}


class Commands:
    """Commands in a directory that comes first in PATH; each notes how it was called."""

    def __init__(self, directory: Path) -> None:
        self.directory, self._calls = directory, directory / "calls"
        directory.mkdir()

    def plays(self, command: str, said: str = "", code: int = 0, then: str = "") -> None:
        name = command.partition(" ")[0]
        (self.directory / f"{name}.said").write_text(said)
        script = self.directory / name
        script.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {self._calls}\n{then}\n'
            f"cat {self.directory}/{name}.said\nexit {code}\n"
        )
        script.chmod(0o755)

    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{commands.directory}:{os.environ['PATH']}")
    return commands


def engine(name: str, tmp_path: Path, command_s: float = 10.0) -> BatchEngine:
    return BatchEngine(name, tmp_path / "batch", tmp_path / "logs", command_s)


def slot(name: str) -> Slot:
    return Slot(
        "HERE",
        Shape("", 2, 2000, 0),
        5,
        1.0,
        30.0,
        Path("/scratch"),
        "http://head:8765",
        "python3",
        walltime_s=3660,
        queue="main",
        attributes=ATTRIBUTES[name],
        certificate=Path("/shared/service.crt"),
    )


def start(*names: str) -> list[Start]:
    return [Start(name, f"secret-{name}", None) for name in names]


# ------------------------------------------------------------------------------------- in order


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_pilot_is_submitted(name: str, commands: Commands, tmp_path: Path) -> None:
    played = SYSTEMS[name]
    command, said, batch_id = played.submit
    commands.plays(command, said)
    sent = engine(name, tmp_path).submit(slot(name), start(PILOT))
    assert sent.why is None
    assert sent.started[PILOT].batch_id == batch_id
    assert not sent.started[PILOT].running
    [call] = commands.calls()
    script = Path(call.removeprefix(f"{command} "))
    lines = script.read_text().splitlines()
    assert [line for line in played.directives if line not in lines] == []
    everything = "".join(path.read_text() for path in script.parent.iterdir())
    (code,) = (tmp_path / "batch").glob("pilot.*/pilot")  # worker nodes see no other
    assert str(code) in everything and str(local.PILOT) not in everything
    subprocess.run([sys.executable, "-I", code, "--help"], check=True, stdout=subprocess.DEVNULL)
    assert f"--pilot-id {PILOT}" in everything
    assert "--walltime-s 3660" in everything
    assert "secret" not in everything
    secrets = tmp_path / "batch" / f"{PILOT}.env"
    assert f"JEDI_PILOT_TOKEN=secret-{PILOT}\n" in secrets.read_text()
    assert "JEDI_PILOT_CERTIFICATE=/shared/service.crt\n" in secrets.read_text()
    assert [secrets.stat().st_mode & 0o77, secrets.parent.stat().st_mode & 0o77] == [0, 0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_pilots_are_found_by_name_and_cancelled(
    name: str, commands: Commands, tmp_path: Path
) -> None:
    played = SYSTEMS[name]
    commands.plays(*played.lists)
    commands.plays(played.cancels[0])
    engine_ = engine(name, tmp_path)
    known = [
        KnownPilot(PILOT, 1.0, False),
        KnownPilot("HERE.2", 1.0, False),
        KnownPilot("HERE.3", 1.0, False),
    ]
    seen = engine_.look(known)
    batch_id = played.submit[2]
    assert (seen.found[PILOT].batch_id, seen.found[PILOT].running) == (batch_id, True)
    assert ([*seen.waiting], [*seen.others], [*seen.gone]) == (["HERE.2"], ["other"], [])
    engine_.cancel(known)
    assert commands.calls() == [played.lists[0], played.lists[0], " ".join(played.cancels)]


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        ("slurm", "", 0),
        ("lsf", "No job found", 255),
        ("lsf", '{"RECORDS": []}', 0),
        ("pbs", '{"pbs_version": "22.05.11"}', 0),
        ("htcondor", "", 0),
    ],
)
def test_an_empty_queue(
    name: str, said: str, code: int, commands: Commands, tmp_path: Path
) -> None:
    commands.plays(SYSTEMS[name].lists[0], said, code)
    seen = engine(name, tmp_path).look([KnownPilot(PILOT, 1.0, True, batch_id="17")])
    assert seen.gone[PILOT].how == f"({name} job 17) is gone: its queue knows no more of it"


@pytest.mark.parametrize(
    ("code", "how", "failed", "reason"),
    [
        ("0\n", "ended with exit code 0", False, "lost_pilot"),
        ("1\n", "ended with exit code 1", True, "lost_pilot"),
        (None, "is gone: TIMEOUT, TimeLimit", True, "lost_node"),
    ],
)
def test_how_a_pilot_ended(
    code: str | None, how: str, failed: bool, reason: str, commands: Commands, tmp_path: Path
) -> None:
    commands.plays("squeue", f"17|TIMEOUT|TimeLimit|{PILOT}\n")
    engine_ = engine("slurm", tmp_path)
    if code:
        (tmp_path / "batch/slurm/17.ec").write_text(code)
    pilot = KnownPilot(PILOT, 1.0, True, batch_id="17")
    end = engine_.look([pilot]).gone[PILOT]
    assert (end.how, end.failed, end.code) == (f"(slurm job 17) {how}", failed, reason)
    engine_.forget([pilot])
    assert list((tmp_path / "batch/slurm").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ("TIMEOUT, TimeLimit", True),
        ("NODE_FAIL, NodeDown", True),
        ("PREEMPTED", True),
        ("CANCELLED by 0", True),
        ("OUT_OF_MEMORY, OutOfMemory", False),
        ("FAILED", False),
        ("EXIT, TERM_RUNLIMIT: job killed after reaching LSF run time limit", True),
        ("EXIT, TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", False),
        ("EXIT, TERM_CPULIMIT: job killed after reaching LSF CPU usage limit", False),
        ("F, job killed: walltime 3610 exceeded limit 3600", True),
        ("F, job killed: mem 9kb exceeded limit 8kb", False),
        ("its queue knows no more of it", False),
    ],
)
def test_ends_that_are_not_the_payloads(words: str, lost: bool) -> None:
    """Expected: "a pilot ended by its batch system's own limit or a lost node" is nobody's fault;
    limits of the payload are its own."""
    assert lost_node(f"(lsf job 17) is gone: {words}") == lost


def _lsf(*records: dict[str, str]) -> str:
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records})


STATES = {
    "slurm": lambda word: f"17|{word}|None|{PILOT}",
    "lsf": lambda word: _lsf({"JOBID": "17", "JOB_NAME": PILOT, "STAT": word, "EXIT_REASON": ""}),
    "pbs": lambda word: json.dumps({"Jobs": {"17.head": _pbs(PILOT, word)}}),
    "htcondor": lambda word: json.dumps(
        [{"ClusterId": 17, "ProcId": 0, "JobBatchName": PILOT, "JobStatus": int(word)}]
    ),
}
"""What a system says of a pilot in a state, in its own word for that."""


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("slurm", "waits", "PENDING CONFIGURING REQUEUED REQUEUE_HOLD SPECIAL_EXIT"),
        ("slurm", "runs", "RUNNING COMPLETING SUSPENDED STOPPED RESIZING STAGE_OUT NEW_WORD"),
        ("slurm", "ended", "COMPLETED FAILED TIMEOUT NODE_FAIL OUT_OF_MEMORY PREEMPTED BOOT_FAIL"),
        ("lsf", "waits", "PEND PSUSP PROV WAIT"),
        ("lsf", "runs", "RUN USUSP SSUSP UNKWN ZOMBI NEW_WORD"),
        ("lsf", "ended", "DONE EXIT"),
        ("pbs", "waits", "Q H W T M"),
        ("pbs", "runs", "R E S U B"),
        ("pbs", "ended", "F C X"),
        ("htcondor", "waits", "1 5"),
        ("htcondor", "runs", "2 6 7 99"),
        ("htcondor", "ended", "3 4"),
    ],
)
def test_every_state_of_a_queue(
    name: str, state: str, words: str, commands: Commands, tmp_path: Path
) -> None:
    engine_ = engine(name, tmp_path)
    for word in words.split():
        commands.plays(SYSTEMS[name].lists[0], STATES[name](word))
        seen = engine_.look([KnownPilot(PILOT, 1.0, False)])
        said = {
            "ended": PILOT in seen.gone,
            "waits": PILOT in seen.waiting,
            "runs": PILOT in seen.found and seen.found[PILOT].running,
        }
        assert [*filter(said.get, said)] == [state], word


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "slurm",
            "1020_3|RUNNING|None|a|b\n1021_[1-5%2]|PENDING|JobArrayTaskLimit|mine\n"
            f"17|RUNNING|None|{PILOT}",
        ),
        (
            "lsf",
            _lsf(
                {"JOBID": "1020", "ERROR": "Job <1020> is not found"},
                {"JOBID": "17", "JOB_NAME": PILOT, "STAT": "RUN", "EXIT_REASON": ""},
            ),
        ),
        (
            "pbs",
            json.dumps({"Jobs": {"1020[].head": _pbs("mine", "B"), "17.head": _pbs(PILOT, "R")}}),
        ),
        (
            "htcondor",
            json.dumps(
                [
                    {
                        "ClusterId": 1020,
                        "ProcId": 5,
                        "JobStatus": 5,
                        "HoldReason": "Disk quota exceeded",
                    },
                    {"ClusterId": 17, "ProcId": 0, "JobBatchName": PILOT, "JobStatus": 2},
                ]
            ),
        ),
    ],
)
def test_what_else_is_in_a_queue_does_not_matter(
    name: str, said: str, commands: Commands, tmp_path: Path
) -> None:
    commands.plays(SYSTEMS[name].lists[0], said)
    assert engine(name, tmp_path).look([KnownPilot(PILOT, 1.0, False)]).found[PILOT].running


# -------------------------------------------------------------------------------- out of order


REFUSALS = {
    "slurm": "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission "
    "failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
    "lsf": "User <me>: Pending job threshold reached. Job not submitted.",
    "pbs": "qsub: would exceed queue generic's per-user limit of jobs in 'Q' state",
    "htcondor": "ERROR: Failed to submit jobs: Number of submitted jobs would exceed "
    "MAX_JOBS_PER_OWNER",
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_quota(name: str, commands: Commands, tmp_path: Path) -> None:
    command = SYSTEMS[name].submit[0]
    commands.plays(command, REFUSALS[name], 1)
    sent = engine(name, tmp_path).submit(slot(name), start(PILOT, "HERE.2"))
    assert ([*sent.started], sent.refused) == ([], [PILOT, "HERE.2"])
    assert sent.why and sent.why.sentence == f"{command.split()[0]}: {REFUSALS[name]}"
    assert len(commands.calls()) == 1


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_said_around_an_id(name: str, commands: Commands, tmp_path: Path) -> None:
    command, said, batch_id = SYSTEMS[name].submit
    commands.plays(command, f"Welcome. Project 12 has 17 hours left.\n{said}\n")
    sent = engine(name, tmp_path).submit(slot(name), start(PILOT))
    assert sent.started[PILOT].batch_id == batch_id


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_that_hang_or_talk_nonsense(name: str, commands: Commands, tmp_path: Path) -> None:
    played = SYSTEMS[name]
    known = [KnownPilot(PILOT, 1.0, True, batch_id="17")]
    for nonsense in ("Segmentation fault", "[", '{"RECORDS": [{}], "Jobs": {"17": {}}}', "17"):
        commands.plays(played.lists[0], nonsense)
        with pytest.raises(EngineError, match="no list of jobs"):
            engine(name, tmp_path).look(known)
    for command in (played.lists[0], played.submit[0]):
        commands.plays(command, then="sleep 60")
    with pytest.raises(EngineError, match="has not answered") as error:
        engine(name, tmp_path, 0.2).look(known)
    assert error.value.code == "batch_timeout"
    sent = engine(name, tmp_path, 0.2).submit(slot(name), start(PILOT, "HERE.2"))
    assert sent.why and sent.why.code == "batch_timeout"
    assert sent.refused == ["HERE.2"]  # of the other nobody knows


def test_of_twins_one_lives(commands: Commands, tmp_path: Path) -> None:
    commands.plays("squeue", f"16|PENDING|None|{PILOT}\n17|RUNNING|None|{PILOT}\n")
    commands.plays("scancel")
    seen = engine("slurm", tmp_path).look([KnownPilot(PILOT, 1.0, False)])
    assert seen.found[PILOT].batch_id == "17"
    assert commands.calls()[-1] == "scancel -Q 16"
    seen = engine("slurm", tmp_path).look([KnownPilot(PILOT, 1.0, False, batch_id="16")])
    assert seen.found == {}
    assert commands.calls()[-1] == "scancel -Q 17"


def test_a_queue_that_hangs_or_talks_nonsense_ends_no_pilot(
    commands: Commands, tmp_path: Path
) -> None:
    known = [KnownPilot(PILOT, 1.0, True, batch_id="17")]
    begin = clock.monotonic()
    commands.plays("squeue", then="sleep 60")
    with pytest.raises(EngineError, match="squeue has not answered") as error:
        engine("slurm", tmp_path, 0.5).look(known)
    assert (error.value.code, clock.monotonic() - begin < 20) == ("batch_timeout", True)
    for garbage in ("slurm_load_jobs error", "17", f"x|RUNNING|None|{PILOT}"):
        commands.plays("squeue", garbage)
        with pytest.raises(EngineError, match="no list of jobs") as error:
            engine("slurm", tmp_path).look(known)
        assert error.value.code == "batch_garbage"
    commands.plays("squeue", "Unable to contact slurm controller", 1)
    with pytest.raises(EngineError, match="squeue: Unable to contact") as error:
        engine("slurm", tmp_path).look(known)
    assert error.value.code == "batch_refused"


def test_a_system_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    sent = engine("lsf", tmp_path).submit(slot("lsf"), start("HERE.1", "HERE.2"))
    assert sent.why and sent.why.code == "batch_missing"
    assert "Is lsf installed here?" in sent.why.sentence
    assert sent.refused == ["HERE.1", "HERE.2"]


def test_what_may_have_been_submitted_is_not_taken_for_refused(
    commands: Commands, tmp_path: Path
) -> None:
    three = start("HERE.1", "HERE.2", "HERE.3")
    commands.plays("sbatch", "Submitted batch job 17")
    first = 'case "$*" in *HERE.1.job) ;; *) sleep 60;; esac'
    commands.plays("sbatch", "Submitted batch job 17", then=first)
    sent = engine("slurm", tmp_path, 1.0).submit(slot("slurm"), three)
    assert ([*sent.started], sent.refused) == (["HERE.1"], ["HERE.3"])
    for nonsense in ("", "hello world", "Submitted batch job"):
        commands.plays("sbatch", nonsense)
        sent = engine("slurm", tmp_path).submit(slot("slurm"), three)
        assert sent.why and sent.why.code == "batch_garbage"
        assert sent.refused == ["HERE.2", "HERE.3"]


def test_commands_learn_nothing_of_the_database(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEDI_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PGPASSWORD", "secret")
    commands.plays("sbatch", "Submitted batch job 17", then=f"env > {tmp_path}/env")
    engine("slurm", tmp_path).submit(slot("slurm"), start(PILOT))
    assert "secret" not in (tmp_path / "env").read_text()
    assert "SBATCH_NO_REQUEUE=1" in (tmp_path / "env").read_text()


# ------------------------------------------------------------------------------ the submitter


@pytest.fixture
def field(world: World, commands: Commands) -> Iterator[Field]:
    field = Field(world)
    set_sites(field.engine, "SITE_A", submitter="slurm", nslots=8)
    field.knob("submitter.queue_s", 0.1)
    field.knob("submitter.command_s", 0.5)
    commands.plays("squeue")
    yield field
    clock.turn_to(None)
    field.close()


def trouble(field: Field) -> list[Any]:
    return [row.value for row in field.sql("SELECT value FROM jedi_site_metrics")]


def test_a_place_that_takes_no_files_is_told(field: Field, commands: Commands) -> None:
    (field.home.path / "batch").write_text("in the way")
    field.jobs(1, ":")
    submitter = Submitter(field.world)
    submitter.run_once()
    assert [value["reason"] for value in trouble(field)] == [
        f"[Errno 17] File exists: '{field.home.path}/batch'"
    ]
    (field.home.path / "batch").unlink()
    commands.plays("sbatch", "Submitted batch job 17")
    field.until(field.pilots, submitter)


def test_a_refusal_is_told_and_tried_again_with_a_single_pilot(
    field: Field, commands: Commands
) -> None:
    said = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy"
    commands.plays("sbatch", said, 1)
    field.jobs(5, ":")
    submitter = Submitter(field.world)
    submitter.run_once()
    with field.engine.begin() as tx:
        assert show(call(tx), "SITE_A").trouble == f"sbatch: {said}"
    assert [(p.status, p.endtime is None) for p in field.pilots()] == [("ended", False)] * 5
    assert field.sql("SELECT count(*) FROM jedi_tokens WHERE revoked_at IS NULL")[0][0] == 0
    assert list((field.home.path / "batch").glob("*.env")) == []
    assert submitter.run_once() == 0
    field.until(lambda: len(field.pilots()) == 6, submitter)
    assert [value["wait_s"] for value in trouble(field)] == [2.0]


def test_a_queue_that_does_not_answer_is_told_and_asked_again(
    field: Field, commands: Commands
) -> None:
    commands.plays("squeue", then="sleep 60")
    field.jobs(1, ":")
    submitter = Submitter(field.world)
    submitter.run_once()
    assert [v["reason"] for v in trouble(field)] == ["squeue has not answered in 0.5 s."]
    assert [pilot.status for pilot in field.pilots()] == ["ended"]
    commands.plays("squeue")
    commands.plays("sbatch", "Submitted batch job 17")
    field.until(lambda: field.pilots("batch_id = '17'"), submitter)
    assert trouble(field) == []


def test_a_system_that_hangs_holds_up_its_own_sites_alone(
    field: Field, commands: Commands, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    commands.plays("squeue", then=f"until [ -e {gate} ]; do sleep 0.1; done")
    commands.plays("sbatch", "Submitted batch job 17")
    commands.plays("condor_q")
    commands.plays("condor_submit", "18.0 - 18.0")
    field.knob("submitter.command_s", 60.0)
    set_sites(field.engine, "SITE_B", submitter="htcondor", nslots=1)
    field.jobs(1, ":")
    field.jobs(1, ":", site="SITE_B")
    submitter = Submitter(field.world)
    field.until(lambda: field.pilots("batch_id = '18.0'"), submitter)
    submitter.run_once()
    assert len(field.pilots("site = 'SITE_A'")) == 1
    asked = [call for call in commands.calls() if call.startswith("squeue")]
    assert len(asked) == 1  # not again while it hangs
    gate.touch()
    field.until(lambda: field.pilots("batch_id = '17'"), submitter)
    assert field.sql("SELECT site FROM jedi_site_metrics WHERE site = 'SITE_A'") == []


def test_tokens_last_while_the_submitter_lives(field: Field, commands: Commands) -> None:
    commands.plays("sbatch", "Submitted batch job 17")
    field.knob("submitter.token_s", 1000.0)
    field.jobs(1, ":")
    submitter = Submitter(field.world)
    submitter.run_once()
    (pilot,) = field.pilots()
    commands.plays("squeue", f"17|PENDING|Priority|{pilot.pilot_id}")
    expires = "SELECT extract(epoch FROM expires_at - jedi_now()) AS s FROM jedi_tokens"
    clock.turn_to(clock.now() + timedelta(seconds=600))
    assert field.sql(expires)[0].s < 500
    submitter.run_once()
    assert field.sql(expires)[0].s == 1000
    clock.turn_to(clock.now() + timedelta(seconds=1001))
    assert field.sql(expires)[0].s < 0


def test_pilots_by_which_a_system_ends_are_cancelled(field: Field, commands: Commands) -> None:
    commands.plays("sbatch", "Submitted batch job 17")
    field.jobs(1, ":")
    Submitter(field.world).run_once()
    (pilot,) = field.pilots()
    commands.plays("squeue", f"17|RUNNING|None|{pilot.pilot_id}")
    commands.plays("scancel")
    end_pilots(field.engine, field.home)
    assert commands.calls()[-1] == "scancel -Q 17"
    assert field.pilots("endtime IS NULL") == []


def test_what_the_pilot_printed_is_shown(field: Field) -> None:
    made = field.jobs(1, ":")
    field.sql("UPDATE jedi_jobs SET pilot_id = 'SITE_A.1'")
    field.home.pilot_logs.mkdir(parents=True)
    with field.engine.begin() as tx:
        with pytest.raises(NotFound, match="no pilot log"):
            job_details.log(call(tx, home=field.home), made.jobs[0], pilot=True)
        (field.home.pilot_logs / "SITE_A.1.log").write_text("no python3 here\n")
        printed = job_details.log(call(tx, home=field.home), made.jobs[0], pilot=True)
    assert printed.stdout == "no python3 here\n"
