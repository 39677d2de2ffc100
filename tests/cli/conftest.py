"""Fixtures of the command lines."""

from support.cli_task import run  # noqa: F401 - a fixture
