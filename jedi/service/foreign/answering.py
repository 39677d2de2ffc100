"""The process in which plug-ins of other people answer a question of the service (`asking`): one
pickled question on stdin, one answer on stdout. Prints of the plug-in go to stderr.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from jedi.host import processes
from jedi.service.foreign import asking
from jedi.service.operations.all_operations import TABLE
from jedi.service.operations.table import Call
from jedi.taskbuffer.db.engine import connect


def main() -> None:
    """Answer the question."""
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        question = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the service
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        processes.end_with(os.getppid())
        asking.answer_here()
        answers.write(_answer(*question))


def _answer(url: str, home: Any, caller: Any, operation: str, given: dict[str, Any]) -> bytes:
    engine = connect(url, "jedi api plug-in", pool_size=1)
    try:
        with engine.connect() as connection:
            tx = connection.execution_options(postgresql_readonly=True)
            found = TABLE[operation](Call(tx, caller, home), **given)
        return pickle.dumps((True, found), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - other people's code
        return asking.packed(error)


if __name__ == "__main__":
    main()
