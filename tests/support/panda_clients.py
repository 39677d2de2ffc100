"""panda-client of several versions, each in an environment of its own, unmodified."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

MODULES = {"prun": "PrunScript", "pbook": "PBookScript"}


def installed(cache: Path, version: str) -> Path | None:
    """The environment of a version, below a directory that lasts; None: the registry lacks it."""
    place = cache / f"panda-client-{version}"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=False, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install"]
        words = [*pip, "--quiet", "--disable-pip-version-check", f"panda-client=={version}"]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            return None
        (place / "complete").touch()
    return place


@dataclass(frozen=True)
class PandaClient:
    """prun and pbook of a version, with the token of a user, in a directory with his files."""

    version: str
    place: Path
    server: str
    token: str
    directory: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `prun` or `pbook` as their scripts do."""
        url = f"{self.server}/server/panda"
        [packages] = self.place.glob("lib/python*/site-packages")
        environment = {
            "HOME": str(self.directory.parent),
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            **dict.fromkeys(("PANDA_URL", "PANDA_URL_SSL", "PANDACACHE_URL"), url),
            **{"PANDA_BEHIND_REAL_LB": "1", "PANDA_AUTH": "oidc", "PANDA_AUTH_VO": "local"},
            **{"PANDA_AUTH_ID_TOKEN": self.token, "PANDA_CONFIG_ROOT": str(self.directory.parent)},
            **{"PANDA_SYS": str(self.place), "PANDA_PYTHONPATH": str(packages)},
            **{"VIRTUAL_ENV": str(self.place), "COLUMNS": "250"},
        }
        code = f"from pandaclient.{MODULES[program]} import main; main()"
        return subprocess.run(
            [self.place / "bin/python", "-W", "ignore", "-c", code, *arguments],
            cwd=self.directory,
            env=environment,
            text=True,
            check=False,
            timeout=200,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def submit(self, exec_string: str, out_ds: str, *options: str) -> int:
        """The id of the task that prun submits."""
        done = self.run("prun", "--exec", exec_string, "--outDS", out_ds, *options)
        found = re.search(r"jediTaskID=(\d+)", done.stdout)
        assert found and done.returncode == 0, done.stdout
        return int(found[1])

    def pbook(self, *arguments: str) -> str:
        return self.run("pbook", *arguments).stdout

    def option(self, assignment: str) -> str:
        """An option of pbook: older versions take them without dashes."""
        return assignment if self.version < "2.2" else f"--{assignment}"

    def post(self, call: str, **given: Any) -> tuple[int, dict[str, Any]]:
        """The HTTP status and the envelope of a call without a client."""
        headers = {"Authorization": f"Bearer {self.token}", "Origin": "local"}
        answer = httpx2.post(f"{self.server}/api/v1/{call}", json=given, headers=headers)
        return answer.status_code, json.loads(answer.text)
