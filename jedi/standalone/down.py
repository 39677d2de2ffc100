"""`jedi down`: running jobs and their results are waited for, pilots end, jobs they still have are
closed, nothing is left."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from jedi.core import clock
from jedi.core.errors import JediError
from jedi.host import processes
from jedi.host.home import Home
from jedi.host.processes import Process
from jedi.standalone.installation import Installation
from jedi.submitter import engines
from jedi.submitter.interface import EngineError, KnownPilot
from jedi.taskbuffer.db.engine import connect, reachable
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.sites import pilots

DRAIN_S = 10.0
"""Default seconds to wait for running jobs."""

PATIENCE_S = 60.0
"""Seconds after the wait until JEDI kills a supervisor."""

COMMAND_S = 10.0
"""Seconds to wait for a batch system. If it does not answer, JEDI revokes the tokens of its pilots,
so they end by themselves."""

PART_S = 30.0
"""Seconds to wait for an unreachable database to close the jobs of pilots."""

POLL_S = 1.0
_POLL_S = 0.05
_SAY_S = 1.0


def down(
    installation: Installation,
    drain_s: float = DRAIN_S,
    say: Callable[[str], None] = lambda _: None,
) -> bool:
    """End everything that belongs to this home; False if nothing was running.

    The living supervisor does it itself; in place of one that was killed, we do. `say` gets the
    remaining work.
    """
    installation.mine("down")
    supervisor = installation.supervisor()
    if supervisor:
        with suppress(OSError):  # no room on the disk: it waits as long as it does by itself
            installation.settings.draining.write_text(str(drain_s))
        supervisor.signal(signal.SIGTERM)
        _tell(installation, supervisor, clock.monotonic() + drain_s, say)
        deadline = clock.monotonic() + PATIENCE_S
        while supervisor.alive() and clock.monotonic() < deadline:
            time.sleep(_POLL_S)
        processes.end([supervisor], grace_s=0)
    with installation.sole("down", PATIENCE_S):
        return _tidy(installation, say) or supervisor is not None


def remaining_work(engine: Engine) -> str:
    """A sentence about jobs that pilots of this machine still run and results that the Adder still
    adds; empty if there are none, or if the database does not answer."""
    try:
        with engine.begin() as tx:
            running = len(pilots.jobs_in_pilots(tx, socket.gethostname()))
            results = pilots.results_to_add(tx)
    except DBAPIError:
        return ""
    return f"running jobs: {running}, results to add: {results}" if running or results else ""


def end_pilots(engine: Engine, home: Home) -> None:
    """Close the jobs that pilots sent from this machine have, their inputs come back; end the
    pilots.

    In this order: a pilot that is asked to end reports a failure, which now comes too late to
    count.
    """
    host = socket.gethostname()
    with engine.begin() as tx:
        live = pilots.LIVE_PILOTS.rows(tx, host=host)
        reason = "The system was shut down while the job was running."
        ends = [
            JobEnd(panda_id, "closed", "shut_down", reason)
            for panda_id in pilots.jobs_in_pilots(tx, host)
        ]
        job_ends.end_jobs(tx, ends, "supervisor")
    for name in {pilot.engine for pilot in live}:
        with suppress(EngineError):
            engines.make(name, home, COMMAND_S).cancel(
                [KnownPilot.of(pilot) for pilot in live if pilot.engine == name]
            )
    with engine.begin() as tx:
        pilots.END_PILOTS.run(tx, status="ended", ids=[p.pilot_id for p in live], tidy=True)


def part(installation: Installation, engine: Engine, say: Callable[[str], None]) -> None:
    """`end_pilots`, with a database that may be recovering or going down: an embedded one is
    brought back for it. `say` gets the remaining work."""
    deadline, news = clock.monotonic() + PART_S, ""
    while True:
        try:
            if installation.embedded:
                installation.embedded.start(POLL_S)
            with reachable(engine):
                return end_pilots(engine, installation.home)
        except (JediError, DBAPIError) as error:
            if clock.monotonic() > deadline:
                raise
            if news != (news := f"pilots end when the database is back: {error}"):
                say(news)
        time.sleep(POLL_S)


def _tell(
    installation: Installation, supervisor: Process, deadline: float, say: Callable[[str], None]
) -> None:
    """Say why it waits, as often as that changes, until the deadline or the end."""
    engine, before = connect(installation.url, "jedi down", pool_size=1), ""
    while supervisor.alive() and (rest_s := deadline - clock.monotonic()) > 0:
        if (work := remaining_work(engine)) and work != before:
            say(f"{work} (at most {rest_s:.0f} s more)")
            before = work
        time.sleep(min(_SAY_S, rest_s) if work else _POLL_S)
    engine.dispose()


def _tidy(installation: Installation, say: Callable[[str], None]) -> bool:
    """Finish the work of a killed supervisor; True if there was any."""
    unfinished = installation.read_record() is not None
    embedded = installation.embedded
    running = embedded is not None and embedded.running()
    if unfinished:
        installation.end_recorded()
        engine = connect(installation.url, "jedi down", pool_size=1)
        part(installation, engine, say)
        engine.dispose()
    if embedded:
        embedded.stop()
    installation.clear_record()
    installation.settings.draining.unlink(missing_ok=True)
    return unfinished or running
