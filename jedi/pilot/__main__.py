"""Starts the pilot or its payload monitor: `python -I <this folder>` or `python -m jedi.pilot`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if not __package__:  # run as a folder: what lies in it becomes the package `pilot`
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    importlib.import_module("pilot")
    del sys.path[0]
    __package__ = "pilot"
elif __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the current directory, of `python -m jedi.pilot`

if __name__ == "__main__":
    module = "payload_monitor" if sys.argv[1:] == ["payload-monitor"] else "main"
    sys.exit(importlib.import_module(f".{module}", __package__).main())
