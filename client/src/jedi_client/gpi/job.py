"""Jobs and templates: documents of a registry, in people's hands.

    j = Job(name="Z->mumu", application=Script("fit.py", args=["--year", "2025"]))
    j.submit()

Source: docs/reference/ganga.md.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi import results, submission, verbs
from jedi_client.gpi.applications import Application, Executable
from jedi_client.gpi.backends import BackendSettings, Local
from jedi_client.gpi.containers import Problems, link, settled
from jedi_client.gpi.datasets import InputData
from jedi_client.gpi.files import File, files_of, names_of
from jedi_client.gpi.habits import HABITS
from jedi_client.gpi.interfaces import Document, Record, UnitRecord
from jedi_client.gpi.kinds import Scalar
from jedi_client.gpi.mergers import OutputMerger
from jedi_client.gpi.notebook import JobView
from jedi_client.gpi.report import JobError, NotWritable, Report
from jedi_client.gpi.schema import Described, prop, values_of
from jedi_client.gpi.splitters import JobSplitter
from jedi_client.gpi.store import refusals
from jedi_client.gpi.subjobs import Subjob, Subjobs, SubjobSlice

if TYPE_CHECKING:
    from jedi_client.gpi.registry import Registry

_OWN = ("name", "comment")


class _Gone:
    """Owner of the parts of a job's earlier document, which another session replaced."""

    def before_change(self, name: str) -> None:
        raise NotWritable(f"Another session has changed this job. Read its {name} again.")

    def changed(self, name: str) -> None:
        raise NotImplementedError


class JobProperties(Described, abstract=True):
    """The properties of jobs and templates, kept by a registry."""

    application: Annotated[Any, Application] = prop(Executable, doc="Program to run")
    inputdata: Annotated[Any, InputData | None] = prop(None, doc="Input data")
    inputsandbox: Annotated[Any, list[File]] = prop(
        [], doc="Files that each subjob finds in its working directory", convert=files_of
    )
    outputsandbox: Annotated[Any, list[str]] = prop(
        [], doc="Names of the files to keep; all must be made", convert=names_of
    )
    outputdata: Annotated[Any, list[str]] = prop(
        [],
        doc="Files left where the job runs (/x), or put into the catalogue (lfn:/x)",
        convert=names_of,
    )
    splitter: Annotated[Any, JobSplitter | None] = prop(None, doc="Division into subjobs")
    merger: Annotated[Any, OutputMerger | None] = prop(None, doc="Merger of the subjobs' outputs")
    backend: Annotated[Any, BackendSettings] = prop(Local, doc="Place where the job runs")
    output_mode: str = prop(
        "cache",
        doc="cache: the output waits on the backend; fetch: `wait` brings it",
        choices=("cache", "fetch"),
    )

    _elsewhere = HABITS
    _home: ClassVar[Any]
    """The registry of new ones; the session sets it."""
    _registry: Any
    _id: int
    _version: int

    def __init__(self, *args: Any, **values: Any) -> None:
        name, comment = values.pop("name", None), values.pop("comment", None)
        source = args[0] if args else None
        if isinstance(source, JobProperties | Subjob):
            name = source.name if name is None else name
            comment = source.comment if comment is None else comment
            args, values = args[1:], {**source.description()._values, **values}
        elif "backend" not in values and (default := os.environ.get("JEDI_CLIENT_BACKEND")):
            values["backend"] = default
        problems: Problems = []
        name, comment = _text("name", name, problems), _text("comment", comment, problems)
        self._build(args, values, problems)
        registry, document = type(self)._home, self.document()
        [record] = registry.session.store.create(registry.kind, [document], [name], [comment])
        self._hold(registry, record.id, record.version)
        registry.add(self, record)

    @classmethod
    def held(cls, registry: Registry[Any], id: int) -> Self:
        """The job of a record; its document is read when a property is asked for."""
        new = cls.__new__(cls)
        new._hold(registry, id, 0)
        return new

    def description(self) -> JobProperties:
        """The properties alone, for `overridden`."""
        return _Description.of(self)

    def document(self) -> Document:
        return {**super().document(), "type": "Job"}

    @property
    def id(self) -> int:
        """The id in the registry. It is never used again."""
        return self._id

    @property
    def name(self) -> str:
        """A name, which several jobs may have. It is writable in any state."""
        self._registry.sync()
        return self.record.name

    @name.setter
    def name(self, value: str) -> None:
        self._annotate("name", value)

    @property
    def comment(self) -> str:
        """A remark. It is writable in any state."""
        self._registry.sync()
        return self.record.comment

    @comment.setter
    def comment(self, value: str) -> None:
        self._annotate("comment", value)

    @property
    def record(self) -> Record:
        """The record, as it was read last."""
        found: Record = self._registry.record(self._id)
        return found

    def copy(self) -> Self:
        """A new job with the same properties; the two share nothing."""
        return type(self)(self)

    def before_change(self, name: str) -> None:
        registry, record = self._registry, self.record
        if record.status != "new":
            raise refusals.of_change(record, record.version)
        if registry.session.store.read_only:
            raise refusals.read_only(registry.session.store.url)

    def changed(self, name: str) -> None:
        store, kind = self._registry.session.store, self._registry.kind
        try:
            record = store.write(kind, self._id, self.document(), self._version)
        except NotWritable:
            self._registry.sync(float("-inf"))
            raise
        object.__setattr__(self, "_version", record.version)
        self._registry.learn(record)

    def outdated(self, version: int) -> None:
        """Drop the document that was read, if it is not of this version."""
        values = vars(self).get("_values")
        if values is not None and version != self._version:
            for value in values.values():
                link(value, _Gone())
            object.__delattr__(self, "_values")

    def _put(self, name: str, value: Any) -> None:
        try:
            super()._put(name, value)
        except NotWritable:
            self.outdated(-1)  # read it again
            raise

    def _hold(self, registry: Registry[Any], id: int, version: int) -> None:
        for name, value in (("_registry", registry), ("_id", id), ("_version", version)):
            object.__setattr__(self, name, value)

    def _annotate(self, name: str, value: Any) -> None:
        registry, problems = self._registry, list[Problem]()
        annotation = {name: settled(_text(name, value, problems), problems)}
        registry.learn(registry.session.store.annotate(registry.kind, self._id, **annotation))

    def _load(self) -> None:
        """Read the document. JobError if it is damaged."""
        [record] = self._registry.session.store.load(self._registry.kind, [self._id])
        if record.document is None:
            raise JobError(f"{self._registry.kind.capitalize()} {self._id}: {record.reason}")
        object.__setattr__(self, "_version", record.version)
        self._fill(values_of(JobProperties, record.document))
        self._registry.learn(record)

    def __getattr__(self, name: str) -> Any:
        if name == "_values":
            self._load()
            return vars(self)["_values"]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        found = inspect.getattr_static(type(self), name, None)
        if isinstance(found, property) and found.fset is None:
            path = f"{type(self).__name__}.{name}"
            raise BadInput([Problem(path, value, "is read-only", "Leave it")])
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        """Equality of all properties."""
        return self is other or (isinstance(other, JobProperties) and self._values == other._values)

    __hash__ = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self._id}, name={self.name!r})"


class _Description(JobProperties, abstract=True):
    """The properties of a job alone, read-only: no registry has them."""

    @classmethod
    def of(cls, job: JobProperties) -> _Description:
        new = cls.__new__(cls)
        object.__setattr__(new, "_values", job._values)
        return new


def _text(name: str, value: Any, problems: Problems) -> Any:
    """A name or comment; or a new problem."""
    return "" if value is None else Scalar(str).check(value, name, problems)


class JobTemplate(JobProperties):
    """A recipe of jobs, in a registry of its own: JobTemplate(j) keeps one, Job(t) uses it."""

    status = property(lambda self: "template", doc="Templates are not run.")

    def submit(self, **options: Any) -> Report:
        """Refuse: a template is not run."""
        raise JobError(f"Template {self.id} is not run. Submit a job of it: Job(template).submit()")

    kill = resubmit = submit

    def remove(self, *, keep_going: bool = False, force: bool = False) -> Report:
        """Remove the template from its registry."""
        self._registry.session.store.remove("template", [self._id])
        self._registry.lose(self._id)
        return Report("remove", (self._id,))


class Job(JobView, JobProperties):
    """A job. It is new until `submit`; then its backend changes it, and its properties are
    read-only. Job(j) and Job(template) are copies."""

    @property
    def status(self) -> str:
        """The status, as its backend knows it now, or knew it a few seconds ago."""
        self._registry.session.monitor.look()
        return self.record.status

    @property
    def reason(self) -> str | None:
        """The reason for the status, if there is one. Without splitter, this is that of the only
        unit."""
        if self.record.reason or self.split or self.record.status == "new":
            return self.record.reason
        units = self.units(look=False)
        return units.record(units.ids[0]).state.reason if units.ids else None

    @property
    def parent(self) -> None:
        """None: a job is no subjob."""
        return None

    master = parent

    @property
    def fqid(self) -> str:
        """The id, as text."""
        return str(self._id)

    @property
    def ids(self) -> list[int]:
        """The ids from the job down: [i], of a subjob [i, k]."""
        return [self._id]

    @property
    def backend_id(self) -> str | None:
        """The backend's own id of the job; see `backend.id`."""
        return self.record.backend_id

    @property
    def backend_status(self) -> str | None:
        """The backend's own word for the state; see `backend.status`."""
        return self.record.backend_status

    @property
    def folder(self) -> str | None:
        """The first of the folders with the job; `folders.find(j)` gives all."""
        found = self._registry.session.folders.find(self)
        return found[0] if found else None

    @property
    def created(self) -> datetime | None:
        return self.record.created

    @property
    def submitted(self) -> datetime | None:
        return self.record.submitted

    @property
    def ended(self) -> datetime | None:
        return self.record.ended

    @property
    def split(self) -> bool:
        """True: the submission makes subjobs."""
        return self.splitter is not None or getattr(self.backend, "splitter", None) is not None

    @property
    def subjobs(self) -> SubjobSlice:
        """The subjobs, by id from 0; none before the submission."""
        subjobs = self.units()
        return SubjobSlice(subjobs, subjobs.ids if self.split else [])

    def units(self, *, look: bool = True) -> Subjobs:
        """The units, also that of a job without splitter."""
        if look:
            self._registry.session.monitor.look()
        found: Subjobs | None = vars(self).get("_units")
        if found is None:
            found = Subjobs(self)
            object.__setattr__(self, "_units", found)
        return found

    def unit(self, k: int) -> UnitRecord:
        """A unit, as it was read last."""
        return self.units(look=False).record(k)

    def __getitem__(self, k: int) -> Subjob:
        return self.subjobs(k)

    def preview(self) -> submission.Preview:
        """The subjobs that a submission would make, and its mistakes. Nothing is sent."""
        return submission.preview(self)

    def submit(self, *, keep_going: bool = False) -> Report:
        """Submit the job once. The report names the subjobs that were refused; without
        `keep_going`, they raise JobError, after the others were accepted."""
        return submission.submit(self, keep_going=keep_going)

    def kill(self, *, keep_going: bool = False) -> Report:
        """Kill all live subjobs. A job that has ended stays as it is."""
        return verbs.kill(self, None, keep_going=keep_going)

    def resubmit(self, *, backend: Any = None, keep_going: bool = False) -> Report:
        """Run the failed and killed subjobs again; if there are none, the completed ones.
        `backend`: the same backend with other options."""
        return verbs.resubmit(self, None, backend, keep_going=keep_going)

    def remove(self, *, keep_going: bool = False, force: bool = False) -> Report:
        """Remove the job with its folder on this machine; a live one is killed first. `force`:
        also if its backend does not answer, or its submission is not settled."""
        return verbs.remove(self, keep_going=keep_going, force=force)

    def merge(self, *merger: OutputMerger | None) -> Any:
        """merge(m): set the merger of a new job; merge an ended one now. merge(None): don't merge.
        merge(): merge by the job's merger now. Paths of the merged files."""
        return results.merge(self, *merger)

    def wait(self, timeout_s: float | None = None, timeout: float | None = None) -> str:
        """Wait for the end, for `timeout` s at most, and give the status. TimeoutError."""
        self._registry.session.monitor.wait([self._id], timeout_s, timeout)
        results.at_end(self)
        return self.record.status

    def watch(self) -> Any:
        """The changes of the job until its end: `for change in j.watch()`, or `async for`."""
        return self._registry.session.monitor.watch(self)

    @property
    def attempts(self) -> Sequence[results.JobAttempt]:
        """The attempts of a job without splitter, the latest last."""
        return results.attempts(self, results.only_unit(self, "attempts"))

    def log(self, name: str = "stdout", attempt: int | None = None) -> str:
        """The log of a job without splitter, also while it runs: stdout or stderr."""
        return results.log(self, results.only_unit(self, "log"), name, attempt)

    def peek(self, name: str = "stdout", lines: int = 20, attempt: int | None = None) -> str:
        """The last lines of the log of a job without splitter."""
        return results.last(self.log(name, attempt), lines)

    def outputs(self) -> Sequence[Any]:
        """The output files, of all subjobs and of the job itself."""
        return results.outputs(self, None)

    def output(self, name: str) -> Any:
        """The path of an output file on this machine, which is brought here by the first call. Of
        a job with splitter, this is the merged file. JobError."""
        return results.output(self, None, name)

    def __repr__(self) -> str:
        if self._registry.known(self._id) is None:
            return f"Job(id={self._id}, removed)"
        return f"Job(id={self._id}, name={self.name!r}, status={self.status!r})"

    def __str__(self) -> str:
        record = self.record
        counts = ", ".join(f"{n} {status}" for status, n in record.counts.items() if n)
        lines = [repr(self)]
        lines += [f"  reason: {self.reason}"] if self.reason else []
        lines += [f"  subjobs: {counts}"] if counts and self.split else []
        lines += [
            f"  {name}: {_shown(self._values[name])}"
            for name in self._properties
            if self._values[name] not in (None, [], "")
        ]
        return "\n".join(lines)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _signed(cls: Any) -> None:
    """Name and comment in the signature of a constructor, after its properties."""
    kind = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(one, kind, annotation=str, default="") for one in _OWN]
    old = inspect.signature(cls)
    cls.__signature__ = old.replace(parameters=[*old.parameters.values(), *extra])


_signed(Job)
_signed(JobTemplate)
