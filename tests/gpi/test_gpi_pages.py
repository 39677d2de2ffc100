"""The sessions of docs/client.md run as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
BLOCK = re.compile(r"^```python(?: file=(\S+)| (jedi))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("home")
def test_the_page_runs_word_by_word(tmp_path: Path) -> None:
    """Expected, by the page's own comments: the first job is completed and printed its seed; ten
    subjobs of 1,000 throws are merged to 10,000; one that ran again has two attempts."""
    blocks = BLOCK.findall(PAGE.read_text())
    for file, _, text in blocks:
        if file:
            (tmp_path / file).write_text(text)
    session = "".join(text for file, jedi, text in blocks if not (file or jedi))
    done = subprocess.run(
        [sys.executable, "-c", session], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = done.stdout.splitlines()
    assert said[:2] == ["completed", "seed 1"]
    assert "0 inputs -> 10 subjobs" in said
    [merged] = [
        json.loads(line)
        for line in said
        if line.startswith("[") and "Job" not in line and len(line) > 2 and "S" not in line
    ]
    assert (len(merged), sum(merged)) == (6, 10_000)
    assert "seed 3" in said and "2" in said
