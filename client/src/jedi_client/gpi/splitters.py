"""Splitters: explicit ones make the subjobs here; rules let the backend cut the input.

Source: docs/reference/ganga.md#splitters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi.interfaces import Override, Rule
from jedi_client.gpi.overrides import property_at, unknown
from jedi_client.gpi.schema import Described, prop

GB = 10**9


class JobSplitter(Described, abstract=True):
    """A splitter. A plug-in adds its properties and overrides two functions, which only read the
    job; `split` runs once for each submission."""

    _title = "splitter"

    @classmethod
    def given(cls, value: Any) -> Described | None:
        """A number stands for a FileSplitter with so many files a subjob."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        return FileSplitter(files=value) if whole else None

    def check(self, job: Any) -> list[Problem]:
        """All reasons why this splitter does not suit the job."""
        return []

    def split(self, job: Any) -> Sequence[Override] | Rule:
        """The overrides of each subjob, or the rule by which the backend cuts the input."""
        raise NotImplementedError


def _rows(value: Any) -> Any:
    """Lists of arguments; a text stands for a list with it alone."""
    return [[one] if isinstance(one, str) else one for one in value] if _many(value) else value


def _many(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


class ArgSplitter(JobSplitter):
    """A subjob for each list of arguments."""

    args: list[list[str]] = prop([], doc="Arguments of each subjob", convert=_rows)

    def check(self, job: Any) -> list[Problem]:
        """There are arguments, and the application takes them."""
        values: dict[str, Sequence[Any]] = {"application.args": self.args}
        return _explicit_problems(job, values, "splitter.args")

    def split(self, job: Any) -> Sequence[Override]:
        """An override of the arguments for each subjob."""
        return [Override({"application.args": list(args)}) for args in self.args]


class GenericSplitter(JobSplitter):
    """A subjob for each value of a property, or of several properties at once."""

    _aliases = {"multi_attrs": "attributes"}  # noqa: RUF012

    attribute: str = prop("", doc="Dotted name of a property, such as application.environment")
    values: list[Any] = prop([], doc="Its value in each subjob")
    attributes: dict[str, list[Any]] = prop({}, doc="Values by dotted name, all equally many")

    def check(self, job: Any) -> list[Problem]:
        """The properties exist and may have these values; all have equally many."""
        return _explicit_problems(job, self._columns(), "splitter.values")

    def split(self, job: Any) -> Sequence[Override]:
        """An override of the properties for each subjob."""
        columns = self._columns()
        rows = zip(*columns.values(), strict=True)
        return [Override(dict(zip(columns, row, strict=True))) for row in rows]

    def _columns(self) -> dict[str, Sequence[Any]]:
        own = {self.attribute: self.values} if self.attribute or self.values else {}
        return {**own, **self.attributes}


def _explicit_problems(job: Any, columns: dict[str, Sequence[Any]], place: str) -> list[Problem]:
    """The mistakes of values by name of the property: each name exists, each value is allowed."""
    problems: list[Problem] = []
    lengths = {len(values) for values in columns.values()}
    if not any(lengths):
        return [Problem(place, [], "makes no subjob", "Give at least one value")]
    if len(lengths) > 1:
        rule = f"has different numbers of values: {', '.join(map(str, sorted(lengths)))}"
        problems.append(Problem(place, list(columns), rule, "Give equally many"))
    for dotted, values in columns.items():
        one = property_at(job, dotted)
        if one is None:
            problems.append(unknown(job, dotted, values))
        elif not dotted.startswith(("application", "inputdata")):
            remedy = "Split by a property of application or inputdata"
            problems.append(Problem(dotted, values, "is the same in all subjobs", remedy))
        else:
            for i, value in enumerate(values):
                one.checked(value, f"{dotted}, subjob {i}", problems)
    return problems


class InputSplitter(JobSplitter, abstract=True):
    """A splitter of the input by a rule. A backend that knows the input cuts it; for the others
    the rule is applied here."""

    strategy: ClassVar[str]

    def check(self, job: Any) -> list[Problem]:
        """The job has input data."""
        if job.inputdata is not None:
            return []
        rule = f"{type(self).__name__} divides input data, and the job has none"
        return [Problem("inputdata", None, rule, "Set inputdata, or take another splitter")]

    def split(self, job: Any) -> Sequence[Override] | Rule:
        """The rule; if the backend can't cut, the files of each subjob."""
        if job.backend.cuts_input:
            return Rule(self.strategy, self.options())
        return [Override({"inputdata": files}) for files in self._cut(job.inputdata.files_of(job))]

    def options(self) -> dict[str, Any]:
        """Options of the split strategy."""
        raise NotImplementedError

    def _cut(self, files: Sequence[str]) -> Iterator[list[str]]:
        rule = f"{type(self).__name__} needs a backend that knows the input"
        raise BadInput([Problem("splitter", self.strategy, rule, "Set backend to JEDI")])


def _positive(value: float) -> tuple[str, str] | None:
    return None if value > 0 else ("is not above 0", "Give 1 or more")


class FileSplitter(InputSplitter):
    """So many files a subjob, in the order of their names."""

    _aliases = {"filesPerJob": "files"}  # noqa: RUF012
    strategy = "ByFiles"
    files: int = prop(1, doc="Files of each subjob", check=_positive)

    def options(self) -> dict[str, Any]:
        """SplitterMaxFilesPerJob."""
        return {"SplitterMaxFilesPerJob": self.files}

    def _cut(self, files: Sequence[str]) -> Iterator[list[str]]:
        ordered = sorted(files)
        for first in range(0, len(ordered), self.files):
            yield ordered[first : first + self.files]


class SizeSplitter(InputSplitter):
    """At most so many GB a subjob, in the order of the names of files; a larger file has a subjob
    of its own."""

    strategy = "BySize"
    gb: float = prop(1.0, doc="GB (10^9 bytes) of each subjob", check=_positive)

    def options(self) -> dict[str, Any]:
        """SplitterMaxGBPerJob."""
        return {"SplitterMaxGBPerJob": self.gb}

    def _cut(self, files: Sequence[str]) -> Iterator[list[str]]:
        unit: list[str] = []
        room = self.gb * GB
        for name in sorted(files):
            size = Path(name).stat().st_size
            if unit and size > room:
                yield unit
                unit, room = [], self.gb * GB
            unit.append(name)
            room -= size
        if unit:
            yield unit


class EventSplitter(InputSplitter):
    """So many events a subjob, of at most so many files. The backend knows the events of files."""

    strategy = "ByEvents"
    events: int = prop(1000, doc="Events of each subjob", check=_positive)
    files: int | None = prop(None, doc="Most files of each subjob", check=_positive)

    def check(self, job: Any) -> list[Problem]:
        """The job has input data, and a backend that knows its events."""
        problems = super().check(job)
        if not job.backend.cuts_input:
            rule = "does not know the numbers of events of files, which EventSplitter needs"
            name = type(job.backend).__name__
            problems.append(Problem("backend", name, rule, "Set backend to JEDI"))
        return problems

    def options(self) -> dict[str, Any]:
        """SplitterEventsPerJob, and SplitterMaxFilesPerJob if there is a limit."""
        most = {} if self.files is None else {"SplitterMaxFilesPerJob": self.files}
        return {"SplitterEventsPerJob": self.events, **most}
