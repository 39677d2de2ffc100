"""Suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(word: str, known: Iterable[str], otherwise: str) -> str:
    """`Did you mean …?` with the nearest known word, else the other remedy."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else otherwise
