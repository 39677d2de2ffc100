"""Names that become paths: one door through which no path trick passes.

Every function returns the accepted name or raises ValueError with the rule that was broken.
"""

from __future__ import annotations

import hashlib
import re

LFN_MAX = 256
SCOPE_MAX = 30
DATASET_MAX = 255

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+\-=@%,~]*")


def _part(text: str, what: str, longest: int) -> str:
    if not text or len(text) > longest:
        raise ValueError(f"{what} has 1 to {longest} characters")
    if ".." in text or not _PART.fullmatch(text):
        raise ValueError(
            f"{what} starts with a letter, digit or '_' and holds only letters, digits and "
            "._+-=@%,~ (no '/', no '..')"
        )
    return text


def lfn(text: str) -> str:
    """A logical file name: one path component, at most 256 characters."""
    return _part(text, "a file name", LFN_MAX)


def is_lfn(text: str) -> bool:
    """Return True if `lfn` accepts the name."""
    return len(text) <= LFN_MAX and ".." not in text and bool(_PART.fullmatch(text))


def scope(text: str) -> str:
    """The scope of a dataset: one path component, at most 30 characters."""
    return _part(text, "a scope", SCOPE_MAX)


def user_scope(user: str) -> str:
    """The scope of a user's own datasets, `user.NAME`: no other user has it, and no experiment."""
    return scope(f"user.{user}")


def task_scope(user: str) -> str:
    """The scope of datasets that JEDI names for a task: the user's own. A name that fits no scope
    gives its checksum."""
    try:
        return user_scope(user)
    except ValueError:
        return f"user._{hashlib.sha256(user.encode()).hexdigest()[:20]}"


def scoped(text: str) -> str:
    """A dataset's name with its scope: if it has none, `user.NAME` or `group.NAME`, else the first
    field. Source: docs/reference/identifiers-and-names.md#dataset-names."""
    fields = text.split(".")
    width = 2 if fields[0] in ("user", "group") else 1
    return text if ":" in text else f"{'.'.join(fields[:width])}:{text}"


def dataset(text: str) -> tuple[str, str]:
    """Split a dataset's name into scope and name, its two path components. A trailing '/' (a
    container) is dropped."""
    head, _, tail = scoped(text.removesuffix("/")).partition(":")
    if len(text) > DATASET_MAX:
        raise ValueError(f"a dataset name has at most {DATASET_MAX} characters")
    return scope(head), _part(tail, "a dataset name", DATASET_MAX)


def site(text: str) -> str:
    """A site or endpoint name: one path component, at most 60 characters."""
    return _part(text, "a site name", 60)


def cloud(text: str) -> str | None:
    """A cloud's name; WORLD is no place, so it is the same as none."""
    return None if site(text) == "WORLD" else text
