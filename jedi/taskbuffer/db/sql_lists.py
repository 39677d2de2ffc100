"""Sets of statuses and of types as SQL lists, under the names that `core/states.py` gives them.

A statement says `type IN ({MASTER_TYPES})`.
"""

from __future__ import annotations

from collections.abc import Iterable

from jedi.core import states


def listed(words: Iterable[str]) -> str:
    """The words as SQL literals: 'input', 'output'."""
    return ", ".join(f"'{word}'" for word in words)


def among(column: str, words: Iterable[str], *, negate: bool = False) -> str:
    """The column is one of the words, or none of them, with one literal for all: what each
    statement parses anew (CHECKs, conditions of triggers) takes a third less time in this form."""
    return f"{column} {'<> ALL' if negate else '= ANY'} ('{{{','.join(words)}}}'::text[])"


CONSUMER_KINDS = listed(states.CONSUMER_KINDS)
FED_FILE_TYPES = listed(kind for kind in states.FED_TYPES if kind != "random_seed")
FED_TYPES = listed(states.FED_TYPES)
FILE_TYPES = listed(states.FILE_TYPES)
INPUT_FILE_TYPES = listed(kind for kind in states.INPUT_TYPES if kind != "random_seed")
INPUT_TYPES = listed(states.INPUT_TYPES)
JOB_AT_SITE = listed(states.JOB_AT_SITE)
JOB_FINAL = listed(sorted(states.JOB.final))
JOB_LIVE = listed(states.JOB_LIVE)
JOB_MAKING_TYPES = listed(states.JOB_MAKING_TYPES)
JOB_QUEUED = listed(states.JOB_QUEUED)
JOB_TO_START = listed(states.JOB_TO_START)
MASTER_TYPES = listed(states.MASTER_TYPES)
OUTPUT_TYPES = listed(states.OUTPUT_TYPES)
PRE_MERGE_TYPES = listed(states.PRE_MERGE_TYPES)
PRODUCT_TYPES = listed(states.PRODUCT_TYPES)
TASK_HOLDS = listed(states.TASK_HOLDS)
TASK_FINAL = listed(sorted(states.TASK.final))
TEMPLATE_TYPES = listed(states.TEMPLATE_TYPES)
