"""Ranges of events as pilots and the database name them."""

from __future__ import annotations

from typing import NamedTuple

_MOST = 2**63 - 1


class RangeId(NamedTuple):
    """The key of a range: task, owner (its job set until a consumer gets it), file, number of its
    first event, attempts left. Written `task-panda-file-process-attempt`.

    Source: docs/reference/event-service.md#range-ids.
    """

    jedi_task_id: int
    panda_id: int
    file_id: int
    process_id: int
    attempt_nr: int

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> RangeId:
        """The key in a text; ValueError if it is none."""
        parts = text.split("-")
        plain = [part for part in parts if part.isascii() and part.isdigit() and len(part) < 20]
        numbers = [*map(int, plain)]
        if len(parts) != len(cls._fields) or len(plain) != len(parts) or max(numbers) > _MOST:
            raise ValueError(
                f"{text[:100]!r} is no id of a range: it has five numbers, "
                "task-job-file-process-attempt"
            )
        return cls(*numbers)
