"""Exit codes, errors and names: all other parts use them."""

import os
import re
import sys
from typing import IO, Optional

ARGUMENTS, NO_ARCHIVE, BAD_ARCHIVE, NO_INPUT, NO_OUTPUT, NO_MERGE, NODE = range(81, 88)
EXIT_CODES = {
    ARGUMENTS: "wrong or unsupported arguments",
    NO_ARCHIVE: "the archive can't be fetched",
    BAD_ARCHIVE: "the archive is damaged, too large or leads out of the job's directory",
    NO_INPUT: "an input file is missing",
    NO_OUTPUT: "the command returned 0 without an output file",
    NO_MERGE: "the files can't be merged",
    NODE: "the worker node failed: its disk is full, a file can't be written, ...",
}
MAX_BYTES = int(os.environ.get("JEDI_RUN_MAX_BYTES", str(4 << 30)))
MAX_FILES = int(os.environ.get("JEDI_RUN_MAX_FILES", "100000"))
WORK = "jedi_work"
FILE_NAME = re.compile(r"[^\s/'\"`$;&|<>()\\*?\x00]+")
"""Names that mean nothing to a shell: they become part of the user's command."""


class Failure(Exception):
    """An error of our own: its exit code, and one sentence for each mistake."""

    def __init__(self, code: int, *sentences: str) -> None:
        super().__init__(code, *sentences)
        self.code = code
        self.sentences = sentences


def say(text: str, stream: Optional[IO[str]] = None) -> None:
    """Print a line at once, in any locale."""
    shown = f"jedi-run: {text}\n".encode("ascii", "backslashreplace").decode("ascii")
    print(shown, end="", file=stream or sys.stdout, flush=True)


def native(text: str) -> str:
    """A text as the names of files are in this locale: UTF-8, also where the locale is C."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def plain_name(name: str) -> bool:
    """True for the name of a file that a shell takes as it is."""
    return bool(FILE_NAME.fullmatch(name)) and name not in (".", "..") and name[0] != "-"


def inside(path: str) -> bool:
    """True for a relative path that does not lead out."""
    return bool(path) and not path.startswith("/") and ".." not in path.split("/")
