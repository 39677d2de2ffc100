"""Subjobs: read-only views of the units of a job.

Source: docs/reference/ganga.md#subjobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self
from weakref import WeakValueDictionary

from jedi_client.gpi import results, verbs
from jedi_client.gpi.containers import link
from jedi_client.gpi.habits import HABITS
from jedi_client.gpi.interfaces import UnitRecord
from jedi_client.gpi.overrides import overridden
from jedi_client.gpi.report import NoSuchJob, NotWritable, Report
from jedi_client.gpi.schema import Described
from jedi_client.gpi.slices import FACTS, Slice, matches, must_be_known


class Subjobs:
    """The units of a job, read again when its record has changed. Their objects are made when they
    are asked for."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self._at: tuple[int, str] | None = None
        self._records: dict[int, UnitRecord] = {}
        self._ks: Sequence[int] = ()
        self._objects: WeakValueDictionary[int, Subjob] = WeakValueDictionary()

    @property
    def ids(self) -> Sequence[int]:
        self._read()
        return self._ks

    @property
    def by_rule(self) -> bool:
        """True: the backend cut the input, and no unit has values of its own here."""
        return self.job.split and not any(one.override for one in self._read().values())

    def record(self, k: int) -> UnitRecord:
        """A unit, as it was read last. NoSuchJob."""
        found = self._read().get(k)
        if found is None:
            raise NoSuchJob(f"Job {self.job.id} has no subjob {k!r}.", k=k)
        return found

    def one(self, k: int) -> Subjob:
        """The subjob of a number, the same object for as long as it is referred to."""
        found = self._objects.get(k)
        if found is None:
            self.record(k)
            found = self._objects[k] = Subjob(self.job, k)
        return found

    def _read(self) -> dict[int, UnitRecord]:
        record = self.job.record
        at = record.change, record.status
        if self._at != at:
            store = self.job._registry.session.store
            units = () if record.status == "new" else store.units(record.id)
            self._records, self._at = {one.state.k: one for one in units}, at
            ks, whole = list(self._records), range(len(self._records))
            self._ks = whole if ks == list(whole) else ks  # a range finds its members at once
        return self._records


class Subjob:
    """A unit of a job, with the job's properties, some of which are its own. It is read-only."""

    def __init__(self, job: Any, k: int) -> None:
        self.__dict__.update(_job=job, _k=k, _view=None)

    @property
    def id(self) -> int:
        """The number in the job, from 0 on."""
        return self._k  # type: ignore[no-any-return]

    @property
    def parent(self) -> Any:
        """The job."""
        return self._job

    master = parent

    @property
    def fqid(self) -> str:
        """Both ids, as in "12.7"."""
        return f"{self._job.id}.{self._k}"

    @property
    def ids(self) -> list[int]:
        """The ids from the job down: [i, k]."""
        return [self._job.id, self._k]

    @property
    def name(self) -> str:
        return str(self._job.name)

    @property
    def comment(self) -> str:
        return str(self._job.comment)

    @property
    def folder(self) -> str | None:
        """The folder of the job."""
        return self._job.folder  # type: ignore[no-any-return]

    @property
    def status(self) -> str:
        """The status, as the backend knows it now, or knew it a few seconds ago."""
        self._job._registry.session.monitor.look()
        return str(self.state.status)

    @property
    def state(self) -> Any:
        """Status, latest attempt, site, exit code and reason, as they were read last."""
        return self.parent.unit(self._k).state

    @property
    def reason(self) -> str | None:
        return self.state.reason  # type: ignore[no-any-return]

    @property
    def why(self) -> str:
        """The status with its reason."""
        now = f"Subjob {self.fqid} is {self.status}"
        return f"{now}: {self.reason}" if self.reason else f"{now}."

    @property
    def superseded(self) -> bool:
        """True: its input was cut again into other subjobs."""
        return bool(self.state.superseded)

    @property
    def backend_id(self) -> int | None:
        """The PanDA job of the latest attempt."""
        return self.state.panda_id  # type: ignore[no-any-return]

    @property
    def subjobs(self) -> Sequence[Subjob]:
        """None: a subjob has no subjobs."""
        return []

    def description(self) -> Described:
        """The properties of this subjob."""
        found: Described | None = self._view
        if found is None:
            override = self.parent.unit(self._k).override
            found = overridden(self.parent.description(), override)
            for dotted in override:
                _adopted(found, dotted, self)
            self.__dict__["_view"] = found
        return found

    def before_change(self, name: str) -> None:
        """Refuse: a subjob is read-only."""
        raise NotWritable(f"Subjob {self.fqid} is read-only. Change a copy of it.")

    def changed(self, name: str) -> None:
        """Nothing changes."""

    def kill(self, *, keep_going: bool = False) -> Report:
        """Kill this subjob; the others go on."""
        return verbs.kill(self._job, [self._k], keep_going=keep_going)

    def resubmit(self, *, backend: Any = None, keep_going: bool = False) -> Report:
        """Run this subjob again, in place."""
        return verbs.resubmit(self._job, [self._k], backend, keep_going=keep_going)

    def resplit(self, splitter: Any, *, keep_going: bool = False) -> Report:
        """Cut the input of this ended subjob again, by a FileSplitter or a number of files. New
        subjobs get the next ids; this one is superseded."""
        return verbs.resplit(self._job, [self._k], splitter, keep_going=keep_going)

    def submit(self, **options: Any) -> Report:
        """Refuse, by a falsy report: jobs are submitted, subjobs with them."""
        return Report(
            "submit",
            (),
            {self._k: "Subjobs are submitted with their job. Resubmit it, or submit a copy."},
        )

    def remove(self, **options: Any) -> Report:
        """Refuse, by a falsy report: jobs are removed, subjobs with them."""
        return Report("remove", (), {self._k: "Subjobs are removed with their job."})

    def copy(self) -> Any:
        """A new job with the properties of this subjob and its input, without parent and splitter.
        JobError if the backend can't name its input."""
        job = self.parent
        new: dict[str, Any] = {"splitter": None, "merger": None}
        if job.units(look=False).by_rule:
            new["inputdata"] = results.inputs(job, self._k)
        if getattr(job.backend, "splitter", None) is not None:
            new["backend"] = {**job.backend.document(), "splitter": None}
        return type(job)(self, **new)

    @property
    def attempts(self) -> Sequence[results.JobAttempt]:
        """The attempts, the latest last."""
        return results.attempts(self._job, self._k)

    def log(self, name: str = "stdout", attempt: int | None = None) -> str:
        """The log of the latest attempt, or of another, also while it runs: stdout or stderr."""
        return results.log(self._job, self._k, name, attempt)

    def peek(self, name: str = "stdout", lines: int = 20, attempt: int | None = None) -> str:
        """The last lines of the log of the latest attempt, or of another."""
        return results.last(self.log(name, attempt), lines)

    def outputs(self) -> Sequence[Any]:
        """The output files."""
        return results.outputs(self._job, self._k)

    def output(self, name: str) -> Any:
        """The path of an output file on this machine, which is brought here by the first call.
        JobError."""
        return results.output(self._job, self._k, name)

    def __getattr__(self, name: str) -> Any:
        if name in getattr(vars(self).get("_job"), "_properties", ()):
            return getattr(self.description(), name)
        remedy = f". {known}" if (known := HABITS.get(name)) else ""
        raise AttributeError(f"Subjob has no {name}{remedy}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        self.before_change(name)

    def __dir__(self) -> Sequence[str]:
        return [*super().__dir__(), *self._job._properties]

    def __repr__(self) -> str:
        return f"Subjob({self.fqid}, status={self.state.status!r})"


def _adopted(view: Any, dotted: str, owner: Subjob) -> None:
    """Make a subjob the owner of the objects that only it has."""
    here = view
    for step in dotted.split("."):
        value = here._values[step]
        link(value, owner if here is view else here, step)
        here = value


class SubjobSlice(Slice[Subjob]):
    """Subjobs of a job. A verb takes one request for all of them."""

    def __init__(self, subjobs: Subjobs, ks: Sequence[int]) -> None:
        super().__init__(ks)
        self._subjobs = subjobs

    def _one(self, id: int) -> Subjob:
        return self._subjobs.one(id)

    def _some(self, ids: Sequence[int]) -> Self:
        return type(self)(self._subjobs, ids)

    def _repr_html_(self) -> str:
        from jedi_client.gpi.notebook import SHOWN, units_table

        self._subjobs.job._registry.session.monitor.look()
        shown = [self._subjobs.record(k).state for k in self._ids[:SHOWN]]
        return units_table(shown, len(self))

    def _matching(self, wanted: dict[str, Any]) -> Sequence[int]:
        job = self._subjobs.job
        must_be_known(wanted, [*FACTS, "superseded", *job._properties])
        left = list(self._ids)
        if "status" in wanted:
            now = wanted["status"]
            left = [k for k in left if self._subjobs.record(k).state.status == now]
        others = {name: value for name, value in wanted.items() if name != "status"}
        return [k for k in left if matches(self._one(k), others)] if others else left

    def kill(self, *, keep_going: bool = False) -> Report:
        """Kill all live ones."""
        return verbs.kill(self._subjobs.job, self._ids, keep_going=keep_going)

    def resubmit(self, *, backend: Any = None, keep_going: bool = False) -> Report:
        """Run all again, in place."""
        return verbs.resubmit(self._subjobs.job, self._ids, backend, keep_going=keep_going)

    def resplit(self, splitter: Any, *, keep_going: bool = False) -> Report:
        """Cut the input of all again; see `Subjob.resplit`."""
        return verbs.resplit(self._subjobs.job, self._ids, splitter, keep_going=keep_going)

    def copy(self) -> list[Any]:
        """A new job of each; see `Subjob.copy`."""
        return [one.copy() for one in self]
