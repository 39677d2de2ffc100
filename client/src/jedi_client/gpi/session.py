"""A session: a registry's store with its jobs, templates, folders and monitor, opened at first use.

Source: docs/reference/ganga.md#registries.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from jedi_client.gpi.folders import FolderTree
from jedi_client.gpi.interfaces import Store
from jedi_client.gpi.job import Job, JobTemplate
from jedi_client.gpi.refresh import Monitor
from jedi_client.gpi.registry import Registry
from jedi_client.gpi.workspace import Workspace, home

__all__ = ["SESSION", "Job", "JobTemplate", "Session", "folders", "jobs", "templates"]


class _LateStore:
    """The store of a session, opened by the first use of it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session.store, name)


class Session:
    """The jobs of one registry, as one process sees them. Without arguments, it is the registry of
    JEDI_CLIENT_REGISTRY, such as https://jedi.example.org#thesis, else that of this machine."""

    def __init__(self, store: Store | None = None, root: Path | None = None) -> None:
        self._given = store
        self._root = root
        self._lock = threading.RLock()
        self._store: Store | None = None
        self._workspace: Workspace | None = None
        self.jobs: Registry[Job] = Registry(self, "job", Job)
        self.templates: Registry[JobTemplate] = Registry(self, "template", JobTemplate)
        self.monitor = Monitor(self)
        late: Any = _LateStore(self)
        self.folders: FolderTree[Job] = FolderTree(late, self.jobs)

    @property
    def store(self) -> Store:
        with self._lock:
            if self._store is None:
                self._store = self._given or self._opened()
            return self._store

    @property
    def workspace(self) -> Workspace:
        with self._lock:
            if self._workspace is None:
                own = not self.store.url.startswith("file:")
                place = f"registries/{self.store.guid}" if own else "jobs"
                self._workspace = Workspace(self._root or home(), place)
            return self._workspace

    def close(self) -> None:
        """End the session: its next use opens the registry anew."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = self._workspace = None
            self.jobs.forget()
            self.templates.forget()
            self.monitor.forget()
            self.folders.path = "/"

    def _opened(self) -> Store:
        from jedi_client.gpi.store.opening import open_store

        first = os.environ.get("JEDI_CLIENT_RUNNING_FIRST", "") not in ("", "0")
        where = os.environ.get("JEDI_CLIENT_REGISTRY") or self._root or home()
        return open_store(where, running_first=first)


SESSION = Session()
"""The session with the registry of this machine."""

Job._home, JobTemplate._home = SESSION.jobs, SESSION.templates
jobs, templates, folders = SESSION.jobs, SESSION.templates, SESSION.folders
