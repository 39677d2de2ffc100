"""Registries by name: a file of this machine, or one on a service.

Source: docs/reference/ganga.md#stores.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urlsplit
from urllib.request import url2pathname

if TYPE_CHECKING:
    from jedi_client.gpi.interfaces import Store
    from jedi_client.operations import Client

FILE = "registry.db"
_SERVICES = ("http", "https", "unix")


def open_store(
    where: str | os.PathLike[str], *, read_only: bool = False, running_first: bool = False
) -> Store:
    """The store of a registry, which opens at its first use: a folder, a `file:` URL or a SQLite
    file of this machine; or the URL of a service, with the user's name for the registry behind a
    `#` (else `default`)."""
    scheme = urlsplit(where).scheme if isinstance(where, str) else ""
    if isinstance(where, str) and scheme in _SERVICES:
        from jedi_client.gpi.store.remote import RemoteStore

        server, name = urldefrag(where)
        return RemoteStore(
            lambda: _client(server),
            name=name or "default",
            read_only=read_only,
            running_first=running_first,
        )
    from jedi_client.gpi.store.sqlite_store import SqliteStore

    path = Path(url2pathname(urlsplit(str(where)).path) if scheme == "file" else where)
    file = path if path.suffix == ".db" else path / FILE
    return SqliteStore(file.expanduser(), read_only=read_only, running_first=running_first)


def _client(server: str) -> Client:
    """A connection of its own, with the token of the user's profile for this server."""
    from jedi_client.operations import Client
    from jedi_client.profiles import chosen

    return Client(chosen(server))
