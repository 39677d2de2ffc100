"""The client of JEDI: everything that the service may be asked for, over its unix socket or HTTP.

from jedi_client import connect

with connect() as jedi:
    print(jedi.task_list(status=["running"]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jedi_client.operations import Client

__version__ = "0.1.0"
__all__ = ["connect"]


def connect(server: str | None = None, profile: str | None = None) -> Client:
    """A client of `server`, else of JEDI_URL, of a profile, or of the unix socket of JEDI_HOME."""
    from jedi_client.operations import Client
    from jedi_client.profiles import chosen

    return Client(chosen(server, profile))
