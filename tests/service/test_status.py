"""What `jedi status` reports of agents."""

from __future__ import annotations

import os
import socket
import subprocess

from sqlalchemy import Engine

from jedi.service.system.status import system
from jedi.taskbuffer.housekeeping import agents


def test_dead_processes_of_this_host_do_not_count(engine: Engine) -> None:
    """An agent that was killed and restarted has one process; one of another host may live."""
    with subprocess.Popen(["true"]) as dead:
        dead.wait()
    host = socket.gethostname()[:24]
    with engine.begin() as tx:
        for process in (f"{host}-{dead.pid}", f"{host}-{os.getpid()}", f"elsewhere-{dead.pid}"):
            agents.BEAT.run(
                tx, agent="TaskRefiner", process=process, cycles=1, items=5, error=None, rss=1024
            )
        found = {agent.agent: agent for agent in system(tx).agents}["TaskRefiner"]
    assert (found.healthy, found.processes, found.items) == (True, 2, 10)
