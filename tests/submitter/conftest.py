"""Fixtures of the submitter."""

from support.submitter import field  # noqa: F401 - a fixture
