"""Runs in an environment with ipykernel and nbclient, which has no server of JEDI.

`python kernel.py run NOTEBOOK DIRECTORY` prints the notebook after its run; `python kernel.py
complete DIRECTORY CODE…` prints the completions of each code in a session of the client, and
`python kernel.py follow DIRECTORY` the pages of a job from `show` to the last update.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import nbclient  # type: ignore[import-not-found,unused-ignore]
import nbformat  # type: ignore[import-not-found,unused-ignore]
from jupyter_client.manager import (  # type: ignore[import-not-found,unused-ignore]
    start_new_kernel,
)

START = """import threading
before = set(threading.enumerate())
from jedi_client import Executable, Job, jobs
j = Job(application=Executable("true"))"""
END = 'print("new threads:", len(set(threading.enumerate()) - before))'


def run(notebook: str, directory: str) -> str:
    """Run a notebook, and count the threads that it leaves."""
    book = nbformat.read(notebook, as_version=4)
    first, last = (nbformat.v4.new_code_cell(code) for code in (START, END))
    book.cells = [first, *book.cells, last]
    resources = {"metadata": {"path": directory}}
    nbclient.NotebookClient(book, timeout=120, resources=resources).execute()
    return str(nbformat.writes(book))


@contextmanager
def session(directory: str, start: str = START) -> Iterator[Any]:
    """A client of a kernel with a job `j`."""
    manager, client = start_new_kernel(kernel_name="python3", cwd=directory)
    try:
        client.execute_interactive(start, timeout=60, output_hook=lambda _: None)
        yield client
    finally:
        manager.shutdown_kernel(now=True)


def complete(directory: str, *codes: str) -> str:
    """Completions of codes by a kernel in a directory: of the first with the client imported
    alone, of the others with a job `j`."""
    found = {}
    with session(directory, "import jedi_client") as client:
        for code in codes:
            client.complete(code)
            found[code] = client.get_shell_msg(timeout=60)["content"]["matches"]
            if len(found) == 1:
                client.execute_interactive(START, timeout=60, output_hook=lambda _: None)
    return json.dumps(found)


def follow(directory: str) -> str:
    """The pages of a job in one cell's output, while the kernel is idle, and what follows."""
    pages: list[str] = []
    with session(directory) as client:
        client.execute("j.submit(); j.show()")
        while not pages or "Job 0 is completed" not in pages[-1]:
            message = client.get_iopub_msg(timeout=60)
            if message["msg_type"] in ("display_data", "update_display_data"):
                pages.append(message["content"]["data"]["text/html"])
        client.execute(END + "")
        while (message := client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
            pass
        pages.append(message["content"]["text"])
    return json.dumps(pages)


VERBS: Mapping[str, Callable[..., str]] = {"run": run, "complete": complete, "follow": follow}

if __name__ == "__main__":
    _, verb, *rest = sys.argv
    print(VERBS[verb](*rest))
