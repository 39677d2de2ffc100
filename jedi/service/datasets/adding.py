"""Operations on datasets: their names and states, and files that people add."""

from __future__ import annotations

from typing import Annotated

from pydantic import Base64Bytes, BaseModel, Field

from jedi.service.datasets import uploads
from jedi.service.operations.arguments import FILE_MAX, NameText, Sha256
from jedi.service.operations.table import DATASET_OWNER, Call, operation

Lfn = Annotated[str, Field(min_length=1, max_length=uploads.NAME_MAX)]
FileBytes = Annotated[int, Field(ge=0, le=2**62)]
Adler32 = Annotated[str, Field(pattern="^[0-9a-f]{8}$")]


class OfferedFile(BaseModel, extra="forbid"):
    """A file that is to come into a dataset: size in bytes, checksums in hex digits."""

    lfn: Lfn
    size: FileBytes
    adler32: Adler32
    sha256: Sha256

    def value(self) -> uploads.NewFile:
        """The same as plain values."""
        return uploads.NewFile(self.lfn, self.size, self.adler32, self.sha256)


class SentFile(OfferedFile):
    """A small file that comes into a dataset, with its content in base64."""

    content: Annotated[Base64Bytes, Field(max_length=FILE_MAX)]


SentFiles = Annotated[list[SentFile], Field(min_length=1, max_length=uploads.GROUP_MAX)]
OfferedFiles = Annotated[list[OfferedFile], Field(min_length=1, max_length=uploads.FILES_MAX)]


@operation(
    "dataset.offer",
    "POST",
    "/v1/datasets/{name}/offer",
    DATASET_OWNER,
    scope="submit",
    body_max=FILE_MAX,
    question=True,
    stores=True,
)
def offer(
    call: Call, name: NameText, files: OfferedFiles, endpoint: NameText | None = None
) -> list[uploads.Upload]:
    """Show which files a dataset lacks, and the byte from which the upload of each goes on.
    `endpoint`: the storage for them; default: the only one."""
    to = uploads.destination(call.tx, call.ddm, call.who, name, endpoint)
    return uploads.offer(call.ddm, call.knobs, to, [one.value() for one in files])


@operation(
    "dataset.put_piece",
    "PUT",
    "/v1/datasets/{name}/uploads/{lfn}",
    DATASET_OWNER,
    scope="submit",
    raw=True,
    body_max=uploads.PIECE_MAX,
    question=True,
    stores=True,
)
def put_piece(
    call: Call,
    name: NameText,
    lfn: Lfn,
    size: FileBytes,
    adler32: Adler32,
    sha256: Sha256,
    data: bytes,
    offset: FileBytes = 0,
    endpoint: NameText | None = None,
) -> uploads.Upload:
    """Upload a piece of a file, of 8 MiB at most, from byte `offset` on. The last one completes the
    file and verifies it. Nobody sees it before dataset.add."""
    to = uploads.destination(call.tx, call.ddm, call.who, name, endpoint)
    file = uploads.NewFile(lfn, size, adler32, sha256)
    ddm, knobs = call.ddm, call.knobs
    call.tx.close()  # neither a transaction nor a connection waits for the storage
    return uploads.put_piece(ddm, knobs, to, file, offset, data)


@operation(
    "dataset.put_files",
    "POST",
    "/v1/datasets/{name}/uploads",
    DATASET_OWNER,
    scope="submit",
    body_max=FILE_MAX,
    question=True,
    stores=True,
)
def put_files(
    call: Call, name: NameText, files: SentFiles, endpoint: NameText | None = None
) -> list[uploads.Upload]:
    """Upload small files whole, and verify them. Nobody sees them before dataset.add."""
    to = uploads.destination(call.tx, call.ddm, call.who, name, endpoint)
    ddm, knobs = call.ddm, call.knobs
    call.tx.close()  # neither a transaction nor a connection waits for the storage
    values, contents = [one.value() for one in files], [one.content for one in files]
    return uploads.put_files(ddm, knobs, to, values, contents)


@operation(
    "dataset.add",
    "POST",
    "/v1/datasets/{name}/files",
    DATASET_OWNER,
    scope="submit",
    body_max=FILE_MAX,
    dry_run=True,
    stores=True,
)
def add(
    call: Call, name: NameText, files: OfferedFiles, endpoint: NameText | None = None
) -> list[uploads.AddedFile]:
    """Add uploaded files to a dataset, all or none, and make it if there is none. An open dataset
    stays open, any other is closed."""
    call.subject = f"dataset {name}"
    to = uploads.destination(call.tx, call.ddm, call.who, name, endpoint)
    return uploads.add(
        call.tx, call.ddm, call.knobs, to, [one.value() for one in files], dry_run=call.dry_run
    )
