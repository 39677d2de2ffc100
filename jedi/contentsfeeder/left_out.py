"""Files and other entries of a dataset that no job gets, each with the reason.

Source: docs/reference/inputs.md#left-out.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from jedi.contentsfeeder.feed import FeedTask, Listing
from jedi.core import names

_NONE: Mapping[str, str] = MappingProxyType({})


def left_out(
    task: FeedTask, listing: Listing, taken: Collection[str] = (), barred: Mapping[str, str] = _NONE
) -> dict[str, str]:
    """The reason for each entry of a listing that is not `taken`, one of the files with rows to
    work on; `barred` are files that the task does not want because of other tasks."""
    dataset, attributes = listing.dataset, listing.dataset.selection.attributes
    if dataset.type != "input":
        return {}
    selected = {f.lfn for f in listing.wanted}
    long_enough = {f.lfn for f in task.long_enough([*listing.files])}
    codes = {shown(name): code for name, code in (listing.left_out or {}).items()}
    for lfn in (f.lfn for f in listing.files if f.lfn not in taken):
        if lfn not in selected:
            codes[lfn] = "not_selected"
        elif lfn in barred:
            codes[lfn] = barred[lfn]
        elif lfn in listing.empty:
            codes[lfn] = "no_events"
        elif dataset.is_master and lfn not in long_enough:
            codes[lfn] = "too_few_events"
        else:
            codes[lfn] = "without_master" if attributes.index_consistent else "beyond_limit"
    return {lfn: code for lfn, code in codes.items() if lfn not in taken}


def counted(reasons: Iterable[str]) -> str:
    """The number of entries that are left out, by reason: `3 (no_events 2, link_broken 1)`."""
    counts = Counter(reasons)
    return f"{counts.total()} ({', '.join(f'{code} {n}' for code, n in counts.most_common())})"


def shown(name: str) -> str:
    """The name of an entry as text that fits a row, whatever its bytes are."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(text) <= names.LFN_MAX:
        return text
    return f"{text[: names.LFN_MAX - 9]}~{zlib.crc32(text.encode()):08x}"
