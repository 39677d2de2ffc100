"""A merger of counters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jedi_client.gpi.mergers import OutputMerger
from jedi_client.gpi.report import MergeFailed


class SumMerger(OutputMerger):
    """JSON files with numbers by name: the result has their sums."""

    def merge(self, files: Sequence[Path], to: Path) -> None:
        """Add up the numbers. MergeFailed: a file is no such JSON."""
        total: Counter[str] = Counter()
        for file in files:
            try:
                total.update(json.loads(file.read_text()))
            except (TypeError, ValueError) as error:
                raise MergeFailed(f"{file} has no numbers by name: {error}") from error
        to.write_text(json.dumps(total))
