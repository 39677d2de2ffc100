"""Folders of jobs in registries."""

from __future__ import annotations

from collections.abc import Sequence

from jedi_client.gpi.store import refusals

from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.registries.arguments import (
    MOST,
    FolderPath,
    Guid,
    LeaseText,
    RecordIds,
    RegistryRows,
)
from jedi.service.registries.leases import Writer, changing, writer_of
from jedi.service.registries.reading import ordered
from jedi.taskbuffer.registries import drafts, folders
from jedi.taskbuffer.registries.folders import JobFolder


@operation("folder.list", "GET", "/v1/registries/{guid}/folders", OWNER)
def list_folders(
    call: Call, guid: Guid, after: FolderPath | None = None, limit: RegistryRows = MOST
) -> list[JobFolder]:
    """List the folders of a registry with their jobs. `after`: the last path of the page before."""
    return folders.OF_REGISTRY.rows(call.tx, guid=guid, after=after or "", limit=limit)


@operation(
    "folder.put", "POST", "/v1/registries/{guid}/folders", OWNER, scope="submit", dry_run=True
)
def put_in(
    call: Call, guid: Guid, lease: LeaseText, path: FolderPath, ids: RecordIds | None = None
) -> None:
    """Make a folder with its missing parents, and put jobs into it.

    NotFound.
    """
    jobs = ids or []
    with changing(writer_of(call, guid, lease)) as change:
        ordered(drafts.SOME.rows(call.tx, guid=guid, kind="job", ids=jobs), "job", jobs)
        folders.MAKE.run(call.tx, guid=guid, paths=_parents(path))
        folders.PUT.run(call.tx, guid=guid, paths=[path] * len(jobs), ids=jobs, change=change)


@operation(
    "folder.take_out",
    "POST",
    "/v1/registries/{guid}/folders/take_out",
    OWNER,
    scope="submit",
    dry_run=True,
)
def take_out(call: Call, guid: Guid, lease: LeaseText, path: FolderPath, ids: RecordIds) -> None:
    """Take jobs out of a folder.

    NotFound.
    """
    writer = writer_of(call, guid, lease)
    with changing(writer):
        if path not in {
            one.path
            for one in folders.OF_REGISTRY.rows(writer.tx, guid=writer.guid, after="", limit=None)
        }:
            raise refusals.no_folder(path)
        folders.TAKE_OUT.run(writer.tx, guid=writer.guid, path=path, ids=ids)


@operation(
    "folder.remove", "DELETE", "/v1/registries/{guid}/folders", OWNER, scope="submit", dry_run=True
)
def remove_folder(call: Call, guid: Guid, lease: LeaseText, path: FolderPath) -> None:
    """Remove a folder with those in it; its jobs stay.

    NotFound.
    """
    writer = writer_of(call, guid, lease)
    with changing(writer):
        if not folders.remove(writer.tx, writer.guid, path):
            raise refusals.no_folder(path)


def link(writer: Writer, links: Sequence[tuple[str, int]], change: int) -> None:
    """Put jobs into folders, which are made with their missing parents."""
    paths = dict.fromkeys(part for path, _ in links for part in _parents(path))
    folders.MAKE.run(writer.tx, guid=writer.guid, paths=[*paths])
    folders.PUT.run(
        writer.tx,
        guid=writer.guid,
        paths=[path for path, _ in links],
        ids=[id for _, id in links],
        change=change,
    )


def _parents(path: str) -> list[str]:
    """A folder after those above it."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:n]) for n in range(1, len(parts) + 1)]
