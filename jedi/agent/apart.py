"""Work with plug-ins of other people, in processes forked from the agent's. A plug-in that hangs or
ends its process holds its own task only: the agent leaves the slow process behind, and goes on with
others.

A process works on one item after the other, each when the agent asks for it, so that most cycles
fork once. It dies with the agent.
"""

from __future__ import annotations

import io
import os
import pickle
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, NoReturn, TypeVar

import psycopg
from sqlalchemy.exc import DBAPIError

from jedi.agent.plugins import PluginFailed
from jedi.core import clock
from jedi.core.errors import JediError, LockLost, NotWritten
from jedi.host import forks, processes

SLOW_S = 0.3
"""Seconds for an item, after which its process is left behind."""

MOST = 16
"""Processes that are left behind at a time."""

_HEAD = 8
"""Bytes before an answer: its length."""

NO_PLACE = object()
"""The answer for an item that nobody has worked on."""

CAN_FORK = sys.platform == "linux"

Item = TypeVar("Item")
ItemAnswer = Any
"""The result for an item, or its error."""


class _Worker(Generic[Item]):
    """A process that works on items; `item` is the one in hand."""

    def __init__(
        self, items: Sequence[Item], work: Callable[[Item], Any], others: Sequence[_Worker[Item]]
    ) -> None:
        asks, self._asking = os.pipe()
        self._answers, answers = os.pipe()
        self._items = iter([*items])
        with forks.QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the other threads are quiet
            self._pid = os.fork()
        if not self._pid:
            for one in (self, *others):
                os.close(one._asking)
                os.close(one._answers)
            _serve(items, work, asks, answers)
        os.close(asks)
        os.close(answers)
        self._read = bytearray()
        self._code: int | None = None
        self.ask()

    def ask(self) -> None:
        """Ask for the next item."""
        self.item, self.since = next(self._items), clock.monotonic()
        with suppress(BrokenPipeError):  # it has died: `answer` says so
            os.write(self._asking, b"+")

    def answer(self, wait_s: float) -> ItemAnswer | None:
        """The answer for the item, if it comes in time. A dead process answers PluginFailed."""
        end = clock.monotonic() + wait_s
        while True:
            length = int.from_bytes(self._read[:_HEAD], "big")
            if len(self._read) >= _HEAD and len(self._read) - _HEAD >= length:
                whole = bytes(self._read[_HEAD:])
                self._read.clear()
                return _told(whole)
            left = max(0.0, end - clock.monotonic())
            if not select.select([self._answers], [], [], left)[0]:
                return None
            piece = os.read(self._answers, 2**20)
            if not piece:
                return PluginFailed(f"its process ended ({processes.ended(self.end())})")
            self._read += piece

    def end(self) -> int:
        """End it, with all that it has started; its exit code."""
        if self._code is not None:
            return self._code
        os.kill(self._pid, signal.SIGKILL)  # not its group alone: it may not lead one yet
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        os.close(self._asking)
        os.close(self._answers)
        return self._code

    @property
    def descriptor(self) -> int:
        """The descriptor from which its answers are read."""
        return self._answers


class Apart(Generic[Item]):
    """The processes of an agent; `work` works on an item."""

    def __init__(self, work: Callable[[Item], Any]) -> None:
        self._work = work
        self._behind: list[_Worker[Item]] = []

    @property
    def items(self) -> list[Item]:
        """The items of processes that were left behind."""
        return [one.item for one in self._behind]

    def done(self, items: Sequence[Item]) -> Iterator[tuple[Item, ItemAnswer]]:
        """Work on items. Slow ones stay behind; without a process there is no answer, NO_PLACE. A
        process that begins later knows the notes of earlier results."""
        left = list(items)
        while left and len(self._behind) < MOST:
            worker = _Worker(left, self._work, self._behind)
            while (answer := worker.answer(SLOW_S)) is not None:
                yield left.pop(0), answer
                if not left or isinstance(answer, PluginFailed):
                    worker.end()
                    break
                worker.ask()
            else:
                left.pop(0)
                self._behind.append(worker)
        for item in left:
            yield item, NO_PLACE

    def late(self, most_s: float, wait_s: float = 0.0) -> list[tuple[Item, ItemAnswer]]:
        """The answers of processes that were left behind, as far as they have come within `wait_s`.
        One that works for longer than `most_s` is ended: plugin_timeout."""
        if self._behind and wait_s:
            select.select([one.descriptor for one in self._behind], [], [], wait_s)
        found: list[tuple[Item, ItemAnswer]] = []
        for worker in [*self._behind]:
            answer = worker.answer(0.0)
            if answer is None and clock.monotonic() - worker.since > most_s:
                why = f"it did not answer within {most_s:g} s (knob agent.plugin_s)"
                answer = PluginFailed(why, code="plugin_timeout")
            if answer is not None:
                found.append((worker.item, answer))
                self._behind.remove(worker)
                worker.end()
        return found

    def close(self) -> None:
        """End all."""
        for worker in self._behind:
            worker.end()
        self._behind.clear()


def _serve(items: Sequence[Item], work: Callable[[Item], Any], asks: int, answers: int) -> NoReturn:
    """Be the process: work on each item that the agent asks for. Nothing of the agent's own end is
    done here."""
    code = 1
    try:
        forks.become_leader()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        processes.end_with(os.getppid())
        for item in items:
            if not os.read(asks, 1):
                break
            said = _answer(item, work)
            with os.fdopen(answers, "wb", closefd=False) as out:
                out.write(len(said).to_bytes(_HEAD, "big") + said)
        code = 0
    finally:
        os._exit(code)


def _answer(item: Item, work: Callable[[Item], Any]) -> bytes:
    try:
        return pickle.dumps((True, work(item)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - other people's code
        return pickle.dumps((False, _plain(error)))


def _plain(error: Exception) -> tuple[str, str, str]:
    """The kind, the code and the sentence of an error; the agent knows no class of a plug-in."""
    match error:
        case LockLost():
            return "lost", "", str(error)
        case PluginFailed():
            return "named", error.code, error.sentence
        case JediError():
            return "jedi", error.code, error.sentence
        case DBAPIError() | psycopg.Error():
            return "database", "", type(getattr(error, "orig", error)).__name__
    return "plugin", PluginFailed.code, f"{type(error).__name__}: {error}"


def _told(whole: bytes) -> ItemAnswer:
    """The result or the error in an answer. Its classes are the agent's."""
    try:
        good, found = unpacked(whole)
    except Exception as error:  # noqa: BLE001 - a plug-in's objects
        return PluginFailed(f"its answer can't be read: {error}")
    if good:
        return found
    kind, code, sentence = found
    match kind:
        case "lost":
            return LockLost(sentence)
        case "named":
            return PluginFailed(sentence, code=code, plugin="")
        case "jedi":
            return JediError(sentence, code=code)
        case "database":
            return NotWritten(sentence, passing=True)
    return PluginFailed(sentence)


def unpacked(whole: bytes) -> Any:
    """The pickled object, of classes that this process has loaded."""
    return _Known(io.BytesIO(whole)).load()


class _Known(pickle.Unpickler):
    """Loads no module: one of a plug-in might hang."""

    def find_class(self, module: str, name: str) -> Any:
        if module not in sys.modules:
            raise pickle.UnpicklingError(f"{module}.{name} is no class of JEDI")
        return super().find_class(module, name)
