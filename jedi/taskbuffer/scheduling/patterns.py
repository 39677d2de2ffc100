"""Patterns as people write them, for LIKE."""

from __future__ import annotations


def like(pattern: str) -> str:
    """A pattern of LIKE for one in which `*` alone is special."""
    plain = pattern.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return plain.replace("*", "%")
