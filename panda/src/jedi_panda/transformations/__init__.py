"""Programs that worker nodes fetch and run around payloads.

Each is a file, or a package that becomes one executable file, for Python 3.6 or newer. None imports
anything but its standard library.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path


@cache
def script(name: str = "jedi-run") -> bytes:
    """A program in one file. A package becomes an executable zip file, the same bytes each time.
    FileNotFoundError: there is no such program."""
    name = name.replace("-", "_")
    place = Path(__file__).parent / name
    if not place.is_dir():
        return place.with_suffix(".py").read_bytes()
    archive = io.BytesIO(b"#!/usr/bin/env python3\n")
    archive.seek(0, io.SEEK_END)
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as package:
        start = f"from {name}.main import main\n\nmain()\n"
        package.writestr(zipfile.ZipInfo("__main__.py"), start)
        for file in sorted(place.glob("*.py")):
            package.writestr(zipfile.ZipInfo(f"{name}/{file.name}"), file.read_bytes())
    return archive.getvalue()
