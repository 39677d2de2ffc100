"""The start of jedi-run."""

import sys
from pathlib import Path
from typing import List

from . import __doc__ as manual
from .arguments import Order
from .base import ARGUMENTS, EXIT_CODES, NODE, Failure, say
from .execution import build, run
from .merging import merge


def work(arguments: List[str], job: Path) -> int:
    """Do a job in its directory. Returns its exit code."""
    order = Order(arguments)
    if order.mistakes:
        raise Failure(ARGUMENTS, *order.mistakes)
    return {"run": run, "build": build, "merge": merge}[order.kind](order, job)


def main() -> None:
    """Do the job of the command line and leave."""
    arguments = sys.argv[1:]
    if arguments in (["-h"], ["--help"]):
        print(manual)
        for number, meaning in sorted(EXIT_CODES.items()):
            print(f"    {number}  {meaning}")
        sys.exit(0)
    try:
        code = work(arguments, Path.cwd())
    except Failure as failure:
        for sentence in failure.sentences:
            say(sentence, sys.stderr)
        code = failure.code
    except OSError as error:
        say(f"{error}; free space on the worker node, or use another one.", sys.stderr)
        code = NODE
    sys.exit(code)
