"""Plug-ins: classes of applications, backends, splitters, mergers and datasets."""

from __future__ import annotations


def load_named(name: str) -> None:
    """Load the class of a type of documents, if a distribution declares it."""
