"""The queue file: work queues as operators write them, columns of jedi_work_queue."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from jedi.core.errors import BadInput, Problem
from jedi.spec.listfile import Entry, read_list

_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Word = Annotated[str, Field(min_length=1, max_length=64)]


class Queue(Entry):
    """A work queue; what an entry leaves out has the value given here."""

    queue_id: _Number
    queue_name: _Word
    queue_type: _Word = Field(description="the prodSourceLabel it serves")
    vo: _Word
    queue_share: _Number | None = Field(None, description="its share; null = not throttled")
    queue_order: _Number | None = Field(None, description="tried before queues of higher order")
    criteria: str | None = Field(None, description="SQL condition on the task")
    variables: str | None = Field(None, description="values of the condition's variables")
    partitionid: Annotated[int, Field(ge=-1)] | None = Field(
        None, description="queue_id of its partition; -1 = it is a partition"
    )
    stretchable: Literal[0, 1] = Field(0, description="1 = may use shares of idle queues")
    status: Literal["active", "inactive"] = "active"

    def columns(self) -> dict[str, Any]:
        """All columns of jedi_work_queue."""
        return self.model_dump()


def read_queues(text: str) -> list[Queue]:
    """The queues of a file; BadInput holds every mistake of single entries."""
    return read_list(text, Queue, "queue_id")


def check_queues(queues: list[Queue]) -> None:
    """BadInput with everything that does not go together among all queues there will be."""
    problems = [*_unsupported(queues), *_repeated(queues), *_homeless(queues)]
    if problems:
        raise BadInput(problems)


def _unsupported(queues: list[Queue]) -> list[Problem]:
    return [
        Problem(f"{q.queue_name}.{key}", value, "not supported yet", "Leave it out")
        for q in queues
        for key, value in (("criteria", q.criteria), ("variables", q.variables))
        if value
    ]


def _repeated(queues: list[Queue]) -> list[Problem]:
    problems = []
    for key in ("queue_name", "queue_order"):
        owners: dict[Any, Queue] = {}
        for queue in queues:
            value = getattr(queue, key)
            first = owners.setdefault(value, queue)
            if value is not None and first is not queue:
                rule = f"queue {first.queue_id} ({first.queue_name}) has this {key} too"
                path = f"{queue.queue_name}.{key}"
                problems.append(Problem(path, value, rule, "Each queue has its own"))
    return problems


def _homeless(queues: list[Queue]) -> list[Problem]:
    partitions = {q.queue_id for q in queues if q.partitionid == -1}
    return [
        Problem(f"{q.queue_name}.partitionid", q.partitionid, "there is no such partition",
                "Give the queue_id of a queue with partitionid -1")
        for q in queues
        if q.partitionid not in (None, -1, *partitions)
    ]  # fmt: skip
