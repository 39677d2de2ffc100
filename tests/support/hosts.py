"""Network namespaces as hosts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
PYTHON = os.path.realpath(sys.executable)


def run(*command: str | Path) -> str:
    return subprocess.run(
        list(map(str, command)), check=True, capture_output=True, text=True
    ).stdout


def able() -> bool:
    """Whether this machine lets us make hosts, and another account run our Python."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "setpriv", "openssl"))):
        return False
    name = f"jedi-try-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    run("ip", "netns", "delete", name)
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", PYTHON, "-V"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
