"""A real Slurm of one node: Debian's packages, loopback only, a directory of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jedi.core import clock
from jedi.host import processes

COMMANDS = ("munged", "slurmctld", "slurmd", "squeue", "sbatch")
DEADLINE_S = 60.0
_TICK_S = 0.05
_CONF = """
ClusterName=jedi
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={d_port}
AuthType=auth/munge
AuthInfo=socket={run}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={run}/state
SlurmdSpoolDir={run}/spool
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd.pid
SlurmctldLogFile={run}/slurmctld.log
SlurmdLogFile={run}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MinJobAge=10
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,default_queue_depth=2000,partition_job_depth=2000,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=64000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """munged, slurmctld and slurmd, each found again by its pid file."""

    def __init__(self, run: Path, cpus: int = 16) -> None:
        self.run, self.cpus = run, cpus
        self.conf = run / "slurm.conf"

    def start(self) -> None:
        """Everything, until the node is idle."""
        for name in ("state", "spool"):
            (self.run / name).mkdir(parents=True)
        host = socket.gethostname().partition(".")[0]
        ctld_port, d_port = _free_port(), _free_port()
        self.conf.write_text(
            _CONF.format(
                host=host, run=self.run, cpus=self.cpus, ctld_port=ctld_port, d_port=d_port
            )
        )
        self._start_munge()
        for daemon in ("slurmctld", "slurmd"):
            self.launch(daemon)
        self._until_idle()

    def launch(self, daemon: str) -> None:
        """Start slurmctld or slurmd (again)."""
        _run([_where(daemon), "-f", str(self.conf)])

    def alive(self, daemon: str) -> bool:
        """Whether a daemon runs."""
        return self._process(daemon) is not None

    def kill(self, daemon: str, number: int = signal.SIGKILL) -> None:
        """Send a daemon a signal and wait until it is gone."""
        if process := self._process(daemon):
            process.signal(number)
            _until(lambda: not process.alive(), f"{daemon} ends")

    def jobs(self) -> list[str]:
        """The ids of jobs that have not ended."""
        said = subprocess.run(
            ["squeue", "--noheader", "--format=%i"], check=True, capture_output=True, text=True
        ).stdout
        return said.split()

    def pilots(self) -> dict[str, processes.Process]:
        """The pilots that run here, by name: processes of Python, not the scripts around them."""
        ours, found = f"SLURM_CONF={self.conf}\0".encode(), {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                named = words[-3:-2] == [b"--pilot-id"] and b"python" in words[0]
                process = processes.note(int(entry.name)) if named else None
                if process and ours in (entry / "environ").read_bytes():
                    found[words[-2].decode()] = process
        return found

    def stop(self) -> None:
        """End every job, then every daemon."""
        with suppress(subprocess.CalledProcessError):
            if left := self.jobs():
                subprocess.run(["scancel", "--signal=KILL", "--full", *left], check=False)
        for daemon in ("slurmd", "slurmctld", "munged"):
            self.kill(daemon, signal.SIGTERM)
        shutil.rmtree(self.run, ignore_errors=True)

    def _process(self, daemon: str) -> processes.Process | None:
        """By its pid file; None if it is dead, or has not written it yet."""
        try:
            pid = int((self.run / f"{daemon}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return processes.note(pid)

    def _start_munge(self) -> None:
        place = self.run / "munge"
        place.mkdir(mode=0o700)
        key = place / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        names = {
            "key-file": key,
            "socket": self.run / "munge.socket",
            "pid-file": self.run / "munged.pid",
            "log-file": place / "log",
            "seed-file": place / "seed",
        }
        _run([_where("munged"), "--force", *(f"--{name}={path}" for name, path in names.items())])

    def _until_idle(self) -> None:
        def idle() -> bool:
            said = subprocess.run(
                ["sinfo", "--noheader", "--format=%T"], check=False, capture_output=True, text=True
            )
            return said.stdout.strip() == "idle"

        _until(idle, "the node is idle")


def missing() -> str:
    """Why there can't be a cluster here; empty if there can."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    absent = [command for command in COMMANDS if not _found(command)]
    return f"not installed: {', '.join(absent)}" if absent else ""


def _found(command: str) -> str | None:
    return shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _where(command: str) -> str:
    found = _found(command)
    assert found, f"no {command}"
    return found


def _run(argv: list[str]) -> None:
    quiet = subprocess.DEVNULL
    subprocess.run(argv, check=True, stdin=quiet, stdout=quiet, stderr=quiet)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _until(what: Callable[[], bool], wanted: str) -> None:
    deadline = clock.monotonic() + DEADLINE_S
    while not what():
        assert clock.monotonic() < deadline, f"not in {DEADLINE_S} s: {wanted}"
        time.sleep(_TICK_S)
