"""Keeps processes alive: whatever dies is started again, after 1, 2, 4 … 30 seconds.

The supervisor waits on two sockets and polls once a second: signals (a child's end among them)
arrive on one, the children's word that they are ready on the other. Every child holds the reading
end of a pipe as its standard input and ends when the supervisor is gone.
"""

from __future__ import annotations

import select
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from jedi.core import clock
from jedi.core.backoff import Backoff
from jedi.core.errors import JediError, NotYet
from jedi.host import forks, logfiles, processes
from jedi.host.forks import Fork
from jedi.host.processes import Process

LONGEST_PAUSE_S = 30.0
GOOD_LIFE_S = 60.0
"""Seconds of life after which a child restarts with the first pause."""

POLL_S = 1.0
GRACE_S = 10.0
"""Seconds after SIGTERM until the supervisor kills a child."""


class Supervised(ABC):
    """Something the supervisor keeps alive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wanted = True
        self.asleep = False
        self.ready = False
        self.lives = 0
        self.last_end = ""
        self._living = False
        self._born = 0.0
        self._backoff = Backoff(LONGEST_PAUSE_S)

    @abstractmethod
    def launch(self) -> None:
        """Bring it to life; a JediError or OSError counts as its death, NotYet as neither life
        nor death: it is asked again."""

    @abstractmethod
    def dead(self) -> str | None:
        """None while it lives, else how it ended."""

    @abstractmethod
    def ask_to_end(self) -> None:
        """Tell it to end, if that needs no waiting."""

    @abstractmethod
    def end(self) -> None:
        """Wait until it has ended, and make it if it takes too long."""

    @abstractmethod
    def process(self) -> Process | None:
        """Its living process."""

    def due_s(self) -> float:
        """Seconds until it wants to be tended, at most POLL_S."""
        if self._living or self.asleep or not self.wanted:
            return POLL_S
        return min(POLL_S, max(0.0, self._backoff.until - clock.monotonic()))

    def tend(self, log: Any) -> bool:
        """Notice its death; give it a new life when it is time. True if anything happened."""
        if self._living and (how := self.dead()) is not None:
            self._died(how, log)
            return True
        if self._living or self.asleep or not self.wanted:
            return False
        if clock.monotonic() < self._backoff.until:
            return False
        self._living, self._born, self.lives = True, clock.monotonic(), self.lives + 1
        try:
            self.launch()
        except NotYet as error:
            self._awaited(error.sentence, log)
        except (JediError, OSError) as error:
            self._died(str(error), log)
        return True

    def _awaited(self, why: str, log: Any) -> None:
        self._living, self.lives = False, self.lives - 1
        if not self.lives:  # else it shows how the last life ended
            self.last_end = why
        self._backoff.failed(clock.monotonic())
        log.warning("not yet", name=self.name, why=why, again_in_s=self._backoff.wait_s)

    def _died(self, how: str, log: Any) -> None:
        self._living = self.ready = False
        self.last_end = how
        now = clock.monotonic()
        if now - self._born >= GOOD_LIFE_S:
            self._backoff = Backoff(LONGEST_PAUSE_S)
        self._backoff.failed(now)
        if self.wanted:
            log.warning("died", name=self.name, how=how, again_in_s=self._backoff.wait_s)


class Program(Supervised):
    """A command that runs for ever, writes to its log and says when it is ready.

    `main` does the same as the command: where possible, it runs in a fork of this process, which
    has its modules already.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        main: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(name)
        self._command, self._log, self._environment = command, log, environment
        self._main = main
        self._process: subprocess.Popen[bytes] | Fork | None = None

    def launch(self) -> None:
        with self._log.open("ab") as output:
            self._process = self._forked(output) or subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the supervisor alone
            )

    def _forked(self, output: IO[bytes]) -> Fork | None:
        if self._main is None:
            return None
        title = " ".join(self._command[self._command.index("jedi") :])
        return forks.start(self._main, title, output, self._environment)

    def dead(self) -> str | None:
        if not self._process:
            return "not started"
        code = self._process.poll()
        if code is None:
            logfiles.rotate(self._log)
            return None
        self._let_go()
        return processes.ended(code)

    def ask_to_end(self) -> None:
        if self._process:
            self._process.terminate()

    def end(self) -> None:
        if not self._process:
            return
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._let_go()

    def process(self) -> Process | None:
        alive = self._process and self._process.poll() is None
        return processes.note(self._process.pid) if self._process and alive else None

    def _let_go(self) -> None:
        if self._process and self._process.stdin:
            self._process.stdin.close()


class Sleeper(Program):
    """A program without a life until it is called. It ends by itself, with exit code 0, when it has
    nothing to do."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asleep = self.ready = True

    def call(self) -> None:
        """There is work for it. From any thread."""
        self.asleep = False

    def _died(self, how: str, log: Any) -> None:
        if how != processes.ended(0):
            super()._died(how, log)
            return
        self._living, self.asleep, self.last_end = False, True, how


class Supervisor:
    """Keeps `children` alive, in this order, while `run` runs. One a process: it owns SIGCHLD.

    `notify` is the path of the socket on which children say that they are ready; they find it in
    NOTIFY_SOCKET. `record` is called with all charges whenever something happened to one, and
    again and again while it raises OSError: a full disk ends nobody.
    """

    def __init__(
        self,
        children: Sequence[Supervised],
        notify: Path,
        record: Callable[[Sequence[Supervised]], None],
        log: Any,
    ) -> None:
        self.children, self._notify, self._record, self._log = children, notify, record, log
        self._recorded = True

    def __enter__(self) -> Supervisor:
        self._notify.unlink(missing_ok=True)
        self._notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notes.bind(str(self._notify))
        self._signals, self._waker = socket.socketpair()
        for end in (self._notes, self._signals, self._waker):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it only wakes us
        return self

    def __exit__(self, *_: object) -> None:
        self.halt()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._notes, self._signals, self._waker):
            end.close()
        self._notify.unlink(missing_ok=True)

    def run(self, until: Callable[[], bool]) -> None:
        """Tend all charges until `until()`; it is asked after each event and each second."""
        while not until():
            self.tend()
            self._wait()

    def tend(self) -> None:
        """Tend all charges once: due ones get a life."""
        happened = [child.tend(self._log) for child in self.children]
        if any(happened) or not self._recorded:
            self._note()

    def wake(self) -> None:
        """Tend all charges now. From any thread."""
        with suppress(BlockingIOError):  # it is awake
            self._waker.send(b"!")

    def ready(self) -> bool:
        """True if every process lives and has reported that it is ready."""
        return all(child.ready for child in self.children if child.wanted)

    def halt(self, *names: str) -> None:
        """End the charges of these names (none given: all) for good, the first one last."""
        chosen = [c for c in reversed(self.children) if not names or c.name in names]
        for child in chosen:
            child.wanted = False
            child.ask_to_end()
        for child in chosen:
            child.end()

    def _wait(self) -> None:
        patience_s = min((child.due_s() for child in self.children), default=POLL_S)
        select.select([self._signals, self._notes], [], [], patience_s)
        for source in (self._signals, self._notes):
            try:
                while data := source.recv(4096):
                    if source is self._notes:
                        self._heard(data.decode(errors="replace"))
            except BlockingIOError:
                continue

    def _heard(self, note: str) -> None:
        words = dict(line.partition("=")[::2] for line in note.splitlines())
        for child in self.children:
            process = child.process()
            if process and words.get("READY") == "1" and words.get("MAINPID") == str(process.pid):
                child.ready = True
                self._note()

    def _note(self) -> None:
        try:
            self._record(self.children)
            self._recorded = True
        except OSError as error:
            if self._recorded:
                self._log.warning("not recorded, for now", error=str(error))
            self._recorded = False
