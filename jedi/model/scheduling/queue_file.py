"""The queue file: work queues as operators write them, columns of jedi_work_queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from jedi.core.errors import BadInput, Problem
from jedi.model.list_file import Entry, read_list
from jedi.model.scheduling.criterion import BadCriterion

CAP = r"^(NQUEUELIMIT|NQUEUECAP|NRUNNINGCAP)(_\w+)?$"
PARTITION = -1
"""`partitionid` of a queue that is a partition and stands in none itself."""

_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Word = Annotated[str, Field(min_length=1, max_length=64)]
_Text = Annotated[str, Field(max_length=256)]
_Caps = dict[Annotated[str, Field(pattern=CAP)], Annotated[int, Field(ge=1, le=2**31 - 1)]]


class QueueEntry(Entry):
    """A work queue; a missing key has the value given here."""

    queue_id: _Number
    queue_name: _Word
    queue_type: _Word = Field(description="the prodSourceLabel it serves")
    vo: _Word
    queue_share: _Number | None = Field(None, description="its share; null = not throttled")
    queue_order: _Number | None = Field(None, description="tried before queues of higher order")
    criteria: _Text | None = Field(None, description="SQL condition on the task")
    variables: _Text | None = Field(None, description="values of the condition's variables")
    partitionid: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = Field(
        None, description="queue_id of its partition; -1 = it is a partition"
    )
    stretchable: Literal[0, 1] = Field(0, description="1 = may use shares of idle queues")
    status: Literal["active", "inactive"] = "active"
    caps: _Caps | None = Field(
        None,
        description="NQUEUELIMIT, NQUEUECAP, NRUNNINGCAP: jobs; with _MCORE or the like: of"
        " that resource type",
    )

    def columns(self) -> dict[str, Any]:
        """All columns of jedi_work_queue."""
        return self.model_dump()


def read_queues(text: str) -> list[QueueEntry]:
    """The queues of a file; BadInput holds every mistake of single entries."""
    return read_list(text, QueueEntry, "queue_id")


def check_queues(queues: list[QueueEntry], columns: Mapping[str, str]) -> None:
    """BadInput with everything that does not go together among all future queues, and with every
    invalid criterion; `columns` of jedi_tasks, as for `compile_criterion`."""
    problems = [*_criteria(queues, columns), *_repeated(queues), *_wrong_partitions(queues)]
    if problems:
        raise BadInput(problems)


def _criteria(queues: list[QueueEntry], columns: Mapping[str, str]) -> Iterator[Problem]:
    from jedi.model.scheduling.criteria import compile_criterion

    partitions = {q.partitionid for q in queues}
    for q in queues:
        if (q.criteria or q.variables) and (q.partitionid == PARTITION or q.queue_id in partitions):
            rule = "a partition has none: its sub-queues have"
            yield Problem(f"{q.queue_name}.criteria", q.criteria, rule, "Leave them out")
            continue
        try:
            compile_criterion(q.criteria, q.variables, columns, "v")
        except BadCriterion as bad:
            key = "variables" if bad.variables else "criteria"
            yield Problem(f"{q.queue_name}.{key}", getattr(q, key), bad.rule, bad.remedy)


def _repeated(queues: list[QueueEntry]) -> list[Problem]:
    problems = []
    for key in ("queue_name", "queue_order"):
        owners: dict[Any, QueueEntry] = {}
        for queue in queues:
            value = getattr(queue, key)
            first = owners.setdefault(value, queue)
            if value is not None and first is not queue:
                rule = f"queue {first.queue_id} ({first.queue_name}) has this {key}, too"
                path = f"{queue.queue_name}.{key}"
                problems.append(Problem(path, value, rule, "Each queue has its own"))
    return problems


def _wrong_partitions(queues: list[QueueEntry]) -> Iterator[Problem]:
    """Every chain of partitions ends at one that stands in none."""
    partition = {q.queue_id: q.partitionid for q in queues}
    for q in queues:
        above, seen = q.partitionid, {q.queue_id}
        while above is not None and above not in (PARTITION, *seen):
            seen.add(above)
            above = partition.get(above)
        path, root = f"{q.queue_name}.partitionid", q.partitionid
        if above in seen:
            yield Problem(path, root, "a queue can't be its own part", "Break the loop")
        elif above is None and root is not None:
            yield Problem(
                path, root, "no such partition", "Give the queue_id of a queue with partitionid -1"
            )
