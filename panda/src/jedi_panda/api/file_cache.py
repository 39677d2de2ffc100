"""The file cache of PanDA's clients: uploads as forms, and files for payloads."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Annotated

from anyio import to_thread
from pydantic import Field
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import File, create_form_parser
from starlette.requests import Request
from starlette.responses import Response

from jedi.api.application import Application
from jedi.api.bodies import Bodies
from jedi.api.operations import OperationDoor
from jedi.core.errors import BadInput, Forbidden, Problem
from jedi.service.submission.submission_requests import SANDBOX_MAX
from jedi.taskbuffer.db.engine import at_once
from jedi_panda.api.calls import ROOT, Asking, CallArguments, answered, panda_call, stranger
from jedi_panda.api.envelope import PandaReply
from jedi_panda.service import cache

UPLOADS_MAX = 2 * SANDBOX_MAX
"""Bytes of all uploads in hand."""

FORM_ROOM = 64 * 2**10
"""Bytes of a form beside the file in it."""


class KnownFileArguments(CallArguments):
    """Size in bytes of an upload, and the CRC-32 at its end."""

    file_size: Annotated[int, Field(ge=0)]
    checksum: Annotated[int, Field(ge=0, lt=2**32)]


@panda_call("POST", "file_server/validate_cache_file", KnownFileArguments)
def validate_cache_file(ask: Asking, given: KnownFileArguments) -> PandaReply:
    """Find an earlier upload of the same content: its host and its name."""
    name = ask("cache.find", size=given.file_size, checksum=given.checksum)
    if name is None:
        return PandaReply(message="This is a new file.")
    return PandaReply(name, f"FOUND:{ask.request.url.hostname}:{name}")


def add_file_cache(app: Application, door: OperationDoor) -> None:
    """Add the routes whose bodies are no JSON."""
    bodies = Bodies(UPLOADS_MAX)

    @app.route("POST", ROOT + "file_server/upload_cache_file", "panda upload_cache_file")
    async def upload_cache_file(request: Request) -> Response:
        try:
            ask = Asking(door, await door.let_in(request), request)
        except Forbidden as error:
            return stranger(request, error)
        most = door.knobs().sandbox.max_mb * 2**20 + FORM_ROOM
        async with bodies.taken(request, min(most, SANDBOX_MAX)) as body:
            return await answered(ask, lambda: _keep(ask, body))

    @app.route("GET", "/cache/{file_name}", "panda cache")
    async def content(request: Request) -> Response:
        def get() -> bytes:
            with at_once(door.here.world.engine) as tx:
                return cache.content(tx, request.path_params["file_name"])

        return Response(await to_thread.run_sync(get), media_type="application/octet-stream")


def _keep(ask: Asking, body: bytearray) -> PandaReply:
    name, data = _file_of(ask.request, body)
    kept = ask("cache.put", file_name=name, data=data)
    return PandaReply(kept, f"{kept} is kept.")


def _file_of(request: Request, body: bytearray) -> tuple[str, bytes]:
    """The file in a form: its name without directories, and its content. BadInput."""
    files: list[File] = []
    headers = {"Content-Type": request.headers.get("content-type", "").encode("latin-1")}
    limits = {"MAX_MEMORY_FILE_SIZE": len(body) + 1, "MAX_BODY_SIZE": len(body)}
    try:
        form = create_form_parser(headers, None, files.append, limits)
        form.write(bytes(body))
        form.finalize()
    except (FormParserError, ValueError, KeyError) as error:
        raise _no_form(f"is no form that can be read: {error}") from None
    body.clear()
    if len(files) != 1:
        raise _no_form(f"has {len(files)} files")
    name = (files[0].file_name or b"").decode("utf-8", "replace")
    stream = files[0].file_object
    stream.seek(0)
    return PurePosixPath(name).name, stream.read()


def _no_form(rule: str) -> BadInput:
    return BadInput([Problem("body", None, rule, "Send one file in the field `file`")])


class RecoveryArguments(CallArguments):
    """A task whose lost outputs are to be made again."""

    task_id: Annotated[int, Field(ge=1)]
    dry_run: bool = False


@panda_call("POST", "file_server/upload_file_recovery_request", RecoveryArguments)
def recover(ask: Asking, given: RecoveryArguments) -> PandaReply:
    """Make lost outputs of a task again."""
    found = ask("task.recover", jedi_task_ids=[given.task_id], dry_run=given.dry_run)
    return PandaReply(json.dumps(found), "It is asked for.")
