"""Operations on the bytes of one file: checksum, verified copy, event count."""

from __future__ import annotations

import fcntl
import os
import subprocess
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path

from jedi.core.errors import Refused

_BLOCK = 1 << 20  # bytes; zlib lets other threads run while it works on a block


def adler32(path: Path) -> str:
    """The adler32 of a file, 8 lower-case hex digits."""
    value = 1
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            value = zlib.adler32(block, value)
    return f"{value:08x}"


def copy_verified(source: Path, target: Path, parts: Path, expected: str | None) -> str:
    """Copy by way of a file in `parts` (on the target's file system) and rename; the adler32.

    Content whose adler32 is not the expected one is Refused and leaves nothing behind. A part is
    locked while its writer lives, so that `sweep` recognises leftovers of a crash.
    """
    value = 1
    part = parts / f"part-{uuid.uuid4().hex}"
    try:
        with source.open("rb") as reader, part.open("xb") as writer:
            fcntl.flock(writer, fcntl.LOCK_EX)
            mode, above = os.fstat(writer.fileno()).st_mode, target.parent.stat().st_mode
            os.fchmod(writer.fileno(), mode & (above | 0o600) & 0o777)
            while block := reader.read(_BLOCK):
                value = zlib.adler32(block, value)
                writer.write(block)
            writer.flush()
            os.fsync(writer.fileno())
            found = f"{value:08x}"
            if expected not in (None, found):
                raise Refused(
                    f"{source} has adler32 {found}, not {expected} as recorded.",
                    code="checksum_differs",
                    path=str(source),
                    found=found,
                    expected=expected,
                )
            part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return found


def sweep(parts: Path) -> None:
    """Remove leftovers of dead processes' copies."""
    for part in parts.glob("part-*"):
        try:
            with part.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
        except OSError:
            continue  # its writer lives or has just finished, or it is another user's


def count_events(argv: Sequence[str], path: Path, *, timeout_s: float) -> int:
    """The whole number that the counting command prints about a file."""
    try:
        done = subprocess.run(
            [*argv, str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        return int(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise Refused(
            f"The event count of {path} failed: {error}. "
            f"The command must print one whole number and exit with 0 within {timeout_s:g} s.",
            code="event_count_failed",
            command=list(argv),
            path=str(path),
            stderr=getattr(error, "stderr", None),
        ) from error
