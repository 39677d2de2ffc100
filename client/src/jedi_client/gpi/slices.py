"""Slices of jobs: sequences with verbs for all their jobs.

Source: docs/reference/ganga.md#registries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Generic, Self, TypeVar, overload

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi.kinds import did_you_mean
from jedi_client.gpi.report import JobError, NoSuchJob, Report
from jedi_client.gpi.status import STATUSES

J = TypeVar("J")
FACTS = ("id", "name", "comment", "status", "folder", "fqid", "reason", "backend_id")
"""Facts of jobs and subjobs that a selection may ask for, beside their properties."""
SHOWN = 50


class Slice(Sequence[J], Generic[J]):
    """Jobs or subjobs, by id, in a fixed order. They are loaded when they are asked for."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = ids

    def ids(self) -> list[int]:
        """The ids of all members."""
        return list(self._ids)

    def _one(self, id: int) -> J:
        raise NotImplementedError

    def _some(self, ids: Sequence[int]) -> Self:
        raise NotImplementedError

    def _matching(self, wanted: dict[str, Any]) -> Sequence[int]:
        """The ids of members that have all these values."""
        return [id for id in self._ids if matches(self._one(id), wanted)]

    def __call__(self, id: int) -> J:
        """The member with an id. NoSuchJob."""
        if id not in self._ids:
            raise NoSuchJob(f"There is no {id!r} in this slice. See its ids().", id=id)
        return self._one(id)

    def select(self, minid: int | None = None, maxid: int | None = None, **values: Any) -> Self:
        """The members with ids from `minid` to `maxid` that have all these values. An object is
        also named by its class: select(backend="Local"); a text may have * and ?:
        select(name="fit*"). BadInput for unknown names."""
        ids = [
            id
            for id in self._ids
            if (minid is None or id >= minid) and (maxid is None or id <= maxid)
        ]
        return self._some(self._some(ids)._matching(values) if values else ids)

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> J: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> J | Self:
        if isinstance(index, slice):
            return self._some(self._ids[index])
        return self._one(self._ids[index])

    def __iter__(self) -> Iterator[J]:
        return map(self._one, list(self._ids))

    def __eq__(self, other: object) -> bool:
        """Equality with each sequence of the same members."""
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = [repr(self._one(id)) for id in self._ids[:SHOWN]]
        more = [f"... {len(self)} in all"] if len(self) > SHOWN else []
        return "[" + ",\n ".join(lines + more) + "]"


def alike(found: object, wanted: object) -> bool:
    """True for equal values, for an object and the name of its class, and for a text that fits a
    pattern with * and ?."""
    if found == wanted or (found is not None and type(found).__name__ == wanted):
        return True
    if not isinstance(found, str) or not isinstance(wanted, str) or not {*"*?"} & {*wanted}:
        return False
    return fnmatchcase(found, wanted.replace("[", "[[]"))


def matches(one: object, wanted: dict[str, Any]) -> bool:
    """True if all values are as wanted; an object is also named by its class."""
    return all(alike(getattr(one, name), value) for name, value in wanted.items())


def must_be_known(wanted: Mapping[str, Any], known: Sequence[str]) -> None:
    """BadInput for names that no job has, and for a status that no job can have."""
    problems = [
        Problem(
            name,
            value,
            "is nothing that jobs have",
            did_you_mean(name, known) or f"Known: {', '.join(known)}",
        )
        for name, value in wanted.items()
        if name not in known
    ]
    status = wanted.get("status", "new")
    if status not in (*STATUSES, "template"):
        remedy = did_you_mean(status, STATUSES) or f"Give one of {', '.join(STATUSES)}"
        problems.append(Problem("status", status, "is no status", remedy))
    if problems:
        raise BadInput(problems)


class JobSlice(Slice[Any]):
    """Jobs of a registry. A verb acts on each; `keep_going=False` raises JobError for the first
    refusal and leaves the later jobs alone."""

    def __init__(self, registry: Any, ids: Sequence[int]) -> None:
        super().__init__(ids)
        self._registry = registry

    def _one(self, id: int) -> Any:
        return self._registry.job(id)

    def _some(self, ids: Sequence[int]) -> Self:
        return type(self)(self._registry, ids)

    def _matching(self, wanted: dict[str, Any]) -> Sequence[int]:
        found: Sequence[int] = self._registry.matching(self._ids, wanted)
        return found

    def _repr_html_(self) -> str:
        from jedi_client.gpi.notebook import SHOWN, jobs_table

        self._registry.session.monitor.look()
        known = [self._registry.known(id) for id in self._ids[:SHOWN]]
        return jobs_table([one for one in known if one is not None], len(self))

    def submit(self, *, keep_going: bool = False) -> Report:
        """Submit all jobs."""
        return self._each("submit", keep_going)

    def kill(self, *, keep_going: bool = False) -> Report:
        """Kill all live jobs."""
        return self._each("kill", keep_going)

    def resubmit(self, *, keep_going: bool = False) -> Report:
        """Resubmit the failed and killed subjobs of all jobs; see `Job.resubmit`."""
        return self._each("resubmit", keep_going)

    def remove(self, *, keep_going: bool = False, force: bool = False) -> Report:
        """Remove all jobs; `force`: see `Job.remove`."""
        return self._each("remove", keep_going or force, force=force)

    def copy(self) -> JobSlice:
        """New jobs like these."""
        return self._some([one.copy().id for one in self])

    def export(self, path: str | os.PathLike[str], *, append: bool = False) -> Report:
        """Write these jobs to a file, JSON or YAML, which `jobs.load` reads. `append`: add them to
        the file."""
        from jedi_client.gpi.exports import export

        registry = self._registry
        return export(registry.session.store, path, self._ids, registry.kind, append=append)

    def wait(self, timeout_s: float | None = None, timeout: float | None = None) -> JobSlice:
        """Wait until all have ended, for `timeout` s at most. TimeoutError."""
        self._registry.session.monitor.wait(self._ids, timeout_s, timeout)
        return self

    def _each(self, verb: str, keep_going: bool, **options: Any) -> Report:
        done: list[int | None] = []
        failed: dict[int | None, str] = {}
        for one in self:
            id = one.id
            report: Report = getattr(one, verb)(keep_going=True, **options)
            if report:
                done.append(id)
            if report.failed:
                failed[id] = _refusals(report)
                if not keep_going:
                    break
        all_ = Report(verb, done, failed)
        if failed and not keep_going:
            [(refused, why)] = failed.items()
            raise JobError(f"Job {refused}: {why}", report=all_)
        return all_


def _refusals(report: Report) -> str:
    """The refusals of one job in one sentence."""
    k, why = next(iter(report.failed.items()))
    first = why if k is None else f"subjob {k}: {why}"
    more = len(report.failed) - 1
    return f"{first} ({more} more)" if more else first
