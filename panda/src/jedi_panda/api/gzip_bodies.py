"""Bodies that PanDA's programs pack with gzip, with or without a header that says so."""

from __future__ import annotations

import zlib

from jedi.core.errors import BadInput, Problem

_GZIP = b"\x1f\x8b"


def unpacked(body: bytes, most: int) -> bytes:
    """A body as it was before gzip packed it; any other body as it is. BadInput: it is damaged, or
    has more than `most` bytes."""
    if not body.startswith(_GZIP):
        return body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(body, most)
    except zlib.error as error:
        raise _bad(body, f"is no gzip ({error})") from None
    if unpacker.unconsumed_tail:
        raise _bad(body, f"has more than {most} bytes, unpacked")
    if not unpacker.eof:
        raise _bad(body, "is gzip without its end")
    return data


def _bad(body: bytes, rule: str) -> BadInput:
    return BadInput([Problem("body", f"{len(body)} bytes", rule, "Send an object in JSON")])
