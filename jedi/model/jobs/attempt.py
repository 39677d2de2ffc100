"""One attempt of a job, as a pilot gets it and as the Adder finds it afterwards.

They are tuples, because thousands are made in a second: a frozen dataclass takes three times as
long.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

PilotResult = Literal["finished", "failed", "cancelled", "lost"]
"""lost: the pilot of a consumer fell silent (set by JEDI)."""


class JobFile(NamedTuple):
    """A file of a job. An input lies at `endpoint`, an output is to get there; `size` (bytes) and
    `adler32` of an output are None until its pilot has reported them. `optional`: an output that a
    job may do without."""

    type: str
    lfn: str
    dataset: str
    endpoint: str | None
    source_name: str | None
    size: int | None
    adler32: str | None
    guid: str | None
    optional: bool = False

    @property
    def left_out(self) -> bool:
        """The job did without it."""
        return self.optional and self.size is None


class HeldJob(NamedTuple):
    """A job that was handed to a pilot; `site_endpoint` is where its outputs are staged.
    `measured`: scouts measured its needs. `max_walltime_h`: how long it may run as its task says;
    but a scout that measures how many events fit into that has all the time of its site,
    `measures_within_s`. `texts`: files made for it, by name.

    Limits: 0 stands for none; `scratch_mb` is the site's.
    """

    panda_id: int
    lock_seq: int
    jedi_task_id: int
    attempt_nr: int
    site: str
    cores: int
    memory_mb: int
    walltime_s: int
    scratch_mb: int
    command: str
    texts: dict[str, str] | None
    sandbox: str | None
    measured: bool
    max_walltime_h: float | None
    measures_within_s: int | None
    site_endpoint: str
    files: tuple[JobFile, ...]


class ReportedJob(NamedTuple):
    """A job with the end that its pilot reported, its outputs and its log; `missing` are inputs
    that it did not find; `to_merge`: its outputs are to be merged; `hold_next`: the hold that
    begins now, if it is good."""

    panda_id: int
    lock_seq: int
    pilot_result: PilotResult
    kill_code: str | None
    error_code: str | None
    error_diag: str | None
    site_endpoint: str
    hold_next: str | None = None
    to_merge: bool = False
    files: tuple[JobFile, ...] = ()
    missing: tuple[JobFile, ...] = ()

    @property
    def made(self) -> tuple[JobFile, ...]:
        """The files that its pilot has reported."""
        return tuple([file for file in self.files if file.size is not None])

    @property
    def left_out(self) -> list[str]:
        """The LFNs of the files that it did without."""
        return [file.lfn for file in self.files if file.optional and file.left_out]
