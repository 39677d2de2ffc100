"""docs/core.md: its blocks run in psql, one after the other, and end as the page says."""

from __future__ import annotations

import re
import subprocess

from sqlalchemy import make_url

from jedi.standalone import binaries
from tools.docs import ROOT


def test_the_page_runs_in_psql(database_url: str) -> None:
    page = (ROOT / "docs/core.md").read_text()
    script = "".join(re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    url = make_url(database_url).set(drivername="postgresql")
    done = subprocess.run(
        [
            *(str(binaries.client("psql", binaries.OLDEST)), "-XAtq", "-v", "ON_ERROR_STOP=1"),
            *("-d", url.render_as_string(hide_password=False)),
        ],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    claimed, task, moved, *_, last = done.stdout.splitlines()  # the late fence finds no task
    assert claimed == f"{task}|ready|1"
    assert moved == f"{task}|ready|running"
    assert last == "running|finished|finished|1"
