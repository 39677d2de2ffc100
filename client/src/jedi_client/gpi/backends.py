"""Backends as jobs describe them. `connect` gives the one that runs jobs.

Source: docs/reference/ganga.md#backends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, ClassVar

from jedi_client.errors import JediError, Problem
from jedi_client.gpi.files import WRITE_INSIDE, output_path, plain_name
from jedi_client.gpi.interfaces import Backend
from jedi_client.gpi.schema import Described, prop
from jedi_client.gpi.splitters import InputSplitter, JobSplitter
from jedi_client.gpi.store.database import own_guid
from jedi_client.gpi.workspace import home


class BackendSettings(Described, abstract=True):
    """A backend with its options. A plug-in adds its properties and overrides `check`, which only
    reads the job, and `connect`."""

    _title = "backend"
    cuts_input: ClassVar[bool] = False
    """It applies the rules of splitters to its own knowledge of the input."""
    has_catalogue: ClassVar[bool] = False
    """It reads JEDI's catalogue of files and datasets."""
    on_this_machine: ClassVar[bool] = False
    """Its jobs run on this machine and open its files."""
    connection: ClassVar[Sequence[str]] = ()
    """Names of the properties that choose the service; jobs that agree on them share requests."""
    refresh_s: ClassVar[float] = 5.0
    """Least seconds between two requests for states."""
    runner: ClassVar[str] = ""
    """`module:name` of the function of these settings that gives the Backend."""

    def check(self, job: Any) -> list[Problem]:
        """All reasons why this backend can't run the job."""
        return []

    def output_mistake(self, name: str) -> tuple[str, str] | None:
        """The rule by which this backend can't keep a declared output, and the remedy."""
        return None

    def where(self) -> dict[str, Any]:
        """The values that choose the service, without empty ones."""
        return {name: value for name in self.connection if (value := getattr(self, name))}

    @classmethod
    def at(cls, where: Mapping[str, Any]) -> BackendSettings:
        """Settings with all defaults for a service that `where` gave. JediError: it is out of
        reach from here."""
        return cls(**where)

    def connect(self, job: Any = None) -> Backend:
        """The backend, for a job or for all jobs with these settings."""
        module, _, name = self.runner.partition(":")
        backend: Backend = getattr(import_module(module), name)(self)
        return backend

    @property
    def id(self) -> str | None:
        """The backend's own id of the job, once it has one."""
        return self._fact("backend_id")

    @property
    def status(self) -> str | None:
        """The backend's own word for the state of the job."""
        return self._fact("backend_status")

    def _fact(self, name: str) -> str | None:
        return getattr(self._owner, name, None)


def _cores(value: int) -> tuple[str, str] | None:
    return None if value > 0 else ("is not above 0", "Give 1 or more, or None for all cores")


class OtherHome(JediError):
    """A job runs in another folder of the client."""

    code = "other_home"


class Local(BackendSettings):
    """This machine. A helper process runs the jobs and goes on after the session."""

    on_this_machine = True
    refresh_s = 0.2  # a file of this machine
    runner = "jedi_client.gpi.local.backend:LocalBackend"

    slots: int | None = prop(None, doc="Subjobs side by side; None: the cores", check=_cores)

    def where(self) -> dict[str, Any]:
        """The client's folder whose helper runs the jobs: a registry on a service may be used from
        several."""
        return {"home": own_guid(home())}

    @classmethod
    def at(cls, where: Mapping[str, Any]) -> BackendSettings:
        """Settings for jobs of this machine. OtherHome."""
        if where.get("home", "") not in ("", own_guid(home())):
            raise OtherHome(
                "The job runs on another machine, or with another JEDI_CLIENT_HOME. Look at it "
                "there; here it has the state that a session there saw last."
            )
        return cls()


def _sign(value: float) -> tuple[str, str] | None:
    return None if value >= 0 else ("is negative", "Give 0 or more")


_OUTPUT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+\-=@%,~]*")
_LONGEST = 246
"""Characters of an output's name; the catalogue takes 256, of which JEDI's number has 10."""


class JEDI(BackendSettings):
    """JEDI: each job is a task. Empty options are left to the service."""

    cuts_input = True
    has_catalogue = True
    connection = ("server", "profile")
    runner = "jedi_client.gpi.jedi_backend:JediBackend"

    server: str = prop("", doc="URL of the service; empty: that of the session")
    profile: str = prop("", doc="Profile of the service; empty: that of the session")
    site: str = prop("", doc="Site that runs the job; empty: the brokers choose")
    cores: int = prop(1, doc="Cores of each subjob", check=_cores)
    memory_mb: int = prop(0, doc="Memory of each subjob in MB; 0: not given", check=_sign)
    walltime_s: int = prop(0, doc="Time of each subjob in s; 0: not given", check=_sign)
    max_attempts: int = prop(3, doc="Attempts of each subjob", check=_cores)
    splitter: Annotated[Any, JobSplitter | None] = prop(None, doc="Rule that only JEDI may apply")
    options: dict[str, Any] = prop({}, doc="More keys of the task document, verbatim")

    def check(self, job: Any) -> list[Problem]:
        """There is one splitter at most, and that of the backend is a rule."""
        if self.splitter is None:
            return []
        name = type(self.splitter).__name__
        if not isinstance(self.splitter, InputSplitter):
            rule = "runs in the client, not in JEDI"
            return [Problem("backend.splitter", name, rule, "Set it as the job's splitter")]
        if job.splitter is not None:
            return [Problem("backend.splitter", name, "the job has a splitter, too", "Remove one")]
        return self.splitter.check(job)

    def output_mistake(self, name: str) -> tuple[str, str] | None:
        """JEDI keeps files of the working directory, by names that its catalogue can have."""
        plain = plain_name(name)
        if plain != output_path(name):
            rule = "lies in a directory, and JEDI keeps files of the working directory"
            return rule, WRITE_INSIDE
        if any(sign in plain for sign in "*?["):
            return "is a pattern, and JEDI keeps files by their names", "Name each file"
        if _OUTPUT.fullmatch(plain) and ".." not in plain and len(plain) <= _LONGEST:
            return None
        rule = (
            f"is no name for the catalogue: it has 1 to {_LONGEST} letters, digits and "
            "._+-=@%,~ and no '..', and starts with a letter, a digit or '_'"
        )
        return rule, "Let the program give the file such a name"
