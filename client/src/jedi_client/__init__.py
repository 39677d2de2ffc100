"""The client of JEDI: everything that the service may be asked for, over its unix socket or HTTP.

from jedi_client import connect

with connect() as jedi:
    print(jedi.task_list(status=["running"]))
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jedi_client.release import __version__ as __version__

if TYPE_CHECKING:
    from jedi_client.gpi.applications import Executable, Script
    from jedi_client.gpi.backends import JEDI, Local
    from jedi_client.gpi.datasets import Dataset
    from jedi_client.gpi.files import File
    from jedi_client.gpi.mergers import CustomMerger, RootMerger, TextMerger
    from jedi_client.gpi.plugins import (
        list_applications,
        list_backends,
        list_choices,
        list_datasets,
        list_defaults,
        list_mergers,
        list_splitters,
    )
    from jedi_client.gpi.report import JobError
    from jedi_client.gpi.session import Job, JobTemplate, folders, jobs, templates
    from jedi_client.gpi.splitters import (
        ArgSplitter,
        EventSplitter,
        FileSplitter,
        GenericSplitter,
        SizeSplitter,
    )
    from jedi_client.operations import Client

__all__ = [
    "JEDI",
    "ArgSplitter",
    "CustomMerger",
    "Dataset",
    "EventSplitter",
    "Executable",
    "File",
    "FileSplitter",
    "GenericSplitter",
    "Job",
    "JobError",
    "JobTemplate",
    "Local",
    "RootMerger",
    "Script",
    "SizeSplitter",
    "TextMerger",
    "connect",
    "folders",
    "jobs",
    "list_applications",
    "list_backends",
    "list_choices",
    "list_datasets",
    "list_defaults",
    "list_mergers",
    "list_splitters",
    "templates",
]
_PLACES = {
    "applications": ("Executable", "Script"),
    "backends": ("JEDI", "Local"),
    "datasets": ("Dataset",),
    "files": ("File",),
    "mergers": ("CustomMerger", "RootMerger", "TextMerger"),
    "plugins": (
        "list_applications",
        "list_backends",
        "list_choices",
        "list_datasets",
        "list_defaults",
        "list_mergers",
        "list_splitters",
    ),
    "report": ("JobError",),
    "session": ("Job", "JobTemplate", "folders", "jobs", "templates"),
    "splitters": (
        "ArgSplitter",
        "EventSplitter",
        "FileSplitter",
        "GenericSplitter",
        "SizeSplitter",
    ),
}
"""Names of Ganga's interface by module. They are loaded at their first use."""


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            found = getattr(import_module(f"jedi_client.gpi.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'jedi_client' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *__all__, "errors"]


def connect(server: str | None = None, profile: str | None = None) -> Client:
    """A client of `server`, else of JEDI_URL, of a profile, or of the unix socket of JEDI_HOME."""
    from jedi_client.operations import Client
    from jedi_client.profiles import chosen

    return Client(chosen(server, profile))


if "IPython" in sys.modules:
    import_module("jedi_client.completion").repair()
