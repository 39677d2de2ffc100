"""Reports of verbs: falsy when nothing was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jedi_client.errors import JediError, NotFound


class JobError(JediError):
    """A verb on jobs was refused."""

    code = "job_refused"


class NotWritable(JobError):
    """The job is not new, or another session changed it: its properties can't be set."""

    code = "not_writable"


class RegistryIsReadOnly(NotWritable):
    """Another session holds the registry, or it was opened read-only."""

    code = "registry_read_only"


class NoSuchJob(NotFound, KeyError):
    """A registry or a job has nothing of this id or name."""

    __str__ = Exception.__str__


class MergeFailed(JediError):
    """Outputs could not be merged; the target is as it was."""

    code = "merge_failed"


@dataclass(frozen=True, repr=False)
class Report:
    """A verb with its done and failed jobs: numbers of subjobs, or ids of jobs, with the reasons of
    the failed. `None` stands for the job itself."""

    verb: str
    done: Sequence[int | None] = ()
    failed: Mapping[int | None, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.done)

    def __str__(self) -> str:
        head = f"{len(self.done)} done, {len(self.failed)} refused"
        if not self.failed:
            alone = [*self.done] == [None]
            head = "done" if alone else f"{len(self.done)} done" if self.done else "nothing to do"
        lines = [f"{self.verb}: {head}"]
        lines += [f"  {'job' if k is None else k}: {why}" for k, why in self.failed.items()]
        return "\n".join(lines[:20] + ([f"  and {len(lines) - 20} more"] if lines[20:] else []))

    __repr__ = __str__

    def checked(self, *, keep_going: bool) -> Report:
        """This report; JobError for its first refusal unless the caller keeps going."""
        if self.failed and not keep_going:
            k, why = next(iter(self.failed.items()))
            subject = "" if k is None else f"Subjob {k}: "
            raise JobError(f"{subject}{why}", report=self)
        return self
