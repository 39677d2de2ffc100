"""The first steps of `jedi up`. Meanwhile the embedded database starts, for its part, and the
modules of all parts load: each takes longer than all else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jedi.core.errors import JediError
from jedi.standalone.embedded import Embedded
from jedi.standalone.installation import Installation

LOOK_S = 1.0
"""Maximum seconds of one check of a database that starts or recovers."""


class Requests:
    """SIGTERM, Ctrl-C and a closed terminal are requests to end; the second one is impatient."""

    def __init__(self) -> None:
        self.number = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._come)

    def _come(self, *_: object) -> None:
        self.number += 1

    def any(self) -> bool:
        return self.number > 0

    def impatient(self) -> bool:
        return self.number > 1


class Beginning:
    """The system as it begins: `requests` to end, and its database, which starts."""

    def __init__(self, database: Embedded | None) -> None:
        self.requests = Requests()
        self._database = database
        self._starting = threading.Thread(target=self._start, name="database", daemon=True)
        self._starting.start()

    def wait(self) -> None:
        """Return when the first attempt to start the database is over. Nothing is forked before:
        the thread holds locks."""
        self._starting.join()

    def _start(self) -> None:
        if self._database:
            with suppress(JediError, OSError):  # the next attempt reports it
                self._database.start(LOOK_S)


@contextmanager
def begun(installation: Installation) -> Iterator[Beginning]:
    """Be the one who brings the system up, with a home that is ready and a database that starts; it
    stops at the end.

    Refused if the system is up already, or if its storage can't be written.
    """
    with installation.sole("up"):
        installation.note_release(up=False)
        installation.end_recorded()
        installation.settings.draining.unlink(missing_ok=True)
        installation.check_storage()
        installation.home.prepare()
        beginning = Beginning(installation.embedded)
        try:
            yield beginning
        finally:
            beginning.wait()
            if installation.embedded:
                installation.embedded.stop()
