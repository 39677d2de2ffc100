"""Completion of names in IPython, whose library for it may be hidden by another package `jedi`.

Source: docs/reference/ganga.md#notebooks.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def repair() -> None:
    """Let IPython complete without its library `jedi` if another package of that name hides it: a
    checkout of the server, or its installation."""
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    spec = find_spec("jedi")
    if spec and spec.origin:
        library = Path(spec.origin).with_name("api") / "classes.py"
        if not library.exists():
            shell.Completer.use_jedi = False
