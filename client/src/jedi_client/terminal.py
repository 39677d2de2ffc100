"""Text of strangers on a terminal: payloads' output, names, errors."""

from __future__ import annotations

import re

_RETURNS = re.compile(r"\r+\n?")
# Controls but tab and newline; what changes the direction of writing; half a surrogate pair.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_PICTURES = 0x2400


def harmless(text: str) -> str:
    """The text with controls as signs that do nothing (ESC: \u241b): a terminal obeys some, up to
    typing for its user. A carriage return begins a line, so that nothing is written over."""
    return _CONTROL.sub(_sign, _RETURNS.sub("\n", text))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(_PICTURES + code) if code < 0x20 else "\ufffd"
