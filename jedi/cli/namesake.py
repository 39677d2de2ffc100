"""Check for the completion library `jedi` of the Python package index, which can't share an
environment."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from jedi.core.errors import Refused


def refuse_namesake() -> None:
    """Raise Refused if the completion library `jedi` is installed in this environment."""
    try:
        found = distribution("jedi")
    except PackageNotFoundError:
        return
    raise Refused(
        f"This environment also holds jedi {found.version}, the completion library: its files and "
        "ours lie in one directory. Install jedi-server into an environment of its own (python -m "
        "venv), or: pip uninstall jedi jedi-server && pip install jedi-server.",
        code="namesake",
        version=found.version,
    )
