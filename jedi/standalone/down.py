"""`jedi down`: running jobs are waited for, pilots end, their jobs are closed, nothing is left."""

from __future__ import annotations

import signal
import socket
import time

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from jedi.core import clock, processes
from jedi.core.processes import Process
from jedi.standalone.place import Place
from jedi.taskbuffer import jobs_end, pilots
from jedi.taskbuffer.engine import connect
from jedi.taskbuffer.jobs_end import JobEnd

DRAIN_S = 10.0
"""Running jobs are waited for so long unless somebody says otherwise."""

PATIENCE_S = 60.0
"""A supervisor that has not ended this long after the wait is killed."""

PILOT_GRACE_S = 10.0
_POLL_S = 0.05


def down(place: Place, drain_s: float = DRAIN_S) -> bool:
    """End everything that belongs to this home; False if nothing was running.

    The living supervisor does it itself; in place of one that was killed, we do.
    """
    supervisor = place.supervisor()
    if supervisor:
        place.settings.draining.write_text(str(drain_s))
        supervisor.signal(signal.SIGTERM)
        deadline = clock.monotonic() + drain_s + PATIENCE_S
        while supervisor.alive() and clock.monotonic() < deadline:
            time.sleep(_POLL_S)
        processes.end([supervisor], grace_s=0)
    with place.sole("down", PATIENCE_S):
        return _tidy(place) or supervisor is not None


def busy(engine: Engine) -> bool:
    """A pilot of this machine has a job. False if the database does not answer."""
    try:
        with engine.begin() as tx:
            return bool(pilots.jobs_in_pilots(tx, socket.gethostname()))
    except DBAPIError:
        return False


def end_pilots(engine: Engine) -> None:
    """Close the jobs that pilots of this machine have, their inputs come back; end the pilots.

    In this order: a pilot told to end reports a failure, which now comes too late to count.
    """
    host = socket.gethostname()
    with engine.begin() as tx:
        live = pilots.live_pilots(tx, host)
        reason = "The system was shut down while the job was running."
        ends = [
            JobEnd(panda_id, "closed", "shut_down", reason)
            for panda_id in pilots.jobs_in_pilots(tx, host)
        ]
        jobs_end.end_jobs(tx, ends, "supervisor")
    processes.end(
        [Process(p.pid, p.process_start) for p in live if p.pid and p.process_start],
        PILOT_GRACE_S,
    )
    with engine.begin() as tx:
        pilots.end_pilots(tx, [p.pilot_id for p in live], "ended")


def _tidy(place: Place) -> bool:
    """Finish what a killed supervisor could not; True if there was anything to do."""
    unfinished = place.read_record() is not None
    embedded = place.embedded
    running = embedded is not None and embedded.running()
    if unfinished:
        place.end_recorded()
        if embedded:
            embedded.start()
        engine = connect(place.url, "jedi down", pool_size=1)
        end_pilots(engine)
        engine.dispose()
    if embedded:
        embedded.stop()
    place.clear_record()
    place.settings.draining.unlink(missing_ok=True)
    return unfinished or running
