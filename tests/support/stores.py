"""Stores of registries of each kind, for tests of the rules that all keep."""

from __future__ import annotations

from collections.abc import Callable

from jedi_client.gpi.interfaces import Store

Opens = Callable[..., Store]
"""Opens a session of the test's registry; `read_only`: one without the right to write."""
