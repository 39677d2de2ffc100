"""Evaluation of a payload's measurements and end: pure functions to a failure, or none."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from .base import PayloadFailure
from .command import ARGUMENT_MAX

# limit on the wire: (error code, sentence)
LIMITS = {
    "wall_s": ("wall_limit", "The payload ran longer than its limit of {} s of wall time."),
    "cpu_s": ("cpu_limit", "The payload used more than its limit of {} s of CPU time."),
    "memory_mb": ("memory_limit", "The payload wanted more than its limit of {} MB of memory."),
    "workdir_mb": ("workdir_limit", "The payload's files took more than the limit of {} MB."),
    "max_processes": ("process_limit", "The payload ran more than {} processes at once."),
}
_TOO_LONG = "Argument list too long"
_RLIMIT_SIGNALS = {int(signal.SIGXCPU): "cpu_s", int(signal.SIGXFSZ): "workdir_mb"}
_OUT_OF_MEMORY = re.compile(r"MemoryError|bad_alloc|annot allocate memory|ut of memory|OutOfMemory")
_SIGNAL_NAMES = {int(number): number.name for number in signal.Signals}


def breach(used: Mapping[str, float], limits: Mapping[str, int]) -> PayloadFailure | None:
    """The first limit that is exceeded; `limits` holds only set ones."""
    for name in LIMITS:
        if name in limits and used.get(name, 0) > limits[name]:
            return _over(name, limits)
    return None


def judge(exit_code: int, stderr_tail: str, limits: Mapping[str, int]) -> PayloadFailure | None:
    """The failure behind an exit code; a negative one is a signal, as in `subprocess`.

    An rlimit shows itself only as a signal or as a failed allocation; the latter is recognised, as
    well as can be, by the payload's last words.
    """
    if exit_code == 0:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128  # a shell adds 128 for its child
    limit = _RLIMIT_SIGNALS.get(number, "")
    if limit in limits:
        return _over(limit, limits)
    if "memory_mb" in limits and _OUT_OF_MEMORY.search(stderr_tail):
        return _over("memory_mb", limits)
    name = _SIGNAL_NAMES.get(number)
    if exit_code < 0:
        return PayloadFailure("payload_exit", f"The payload was ended by signal {number} ({name}).")
    note = f" (as after signal {number}, {name})" if name else ""
    sentence = f"The payload ended with exit code {exit_code}{note}."
    if _TOO_LONG in stderr_tail:
        sentence += (
            " It gave a program longer arguments than the kernel takes "
            f"({ARGUMENT_MAX} bytes each, and a quarter of the stack's limit in all). Let the "
            "program read names from a file (${IN/F}, writeInputToFile), or lower nFilesPerJob."
        )
    return PayloadFailure("payload_exit", sentence)


def _over(name: str, limits: Mapping[str, int]) -> PayloadFailure:
    code, sentence = LIMITS[name]
    return PayloadFailure(code, sentence.format(limits[name]))
