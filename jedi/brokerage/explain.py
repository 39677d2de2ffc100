"""The reason for no site: a verdict in a sentence."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.verdict import FilterResults


def why_nowhere(verdict: FilterResults) -> str:
    """`3 sites: 2 little_memory (slots of 2000 MB, the jobs need 4000 MB), 1 no_pilots (...)`.

    The most frequent reason first, its words taken from the site that comes closest; a site counts
    under each of its reasons.
    """
    if not verdict.sites:
        return "there is no site to choose from"
    refused = ~verdict.kept
    rows = sorted(np.flatnonzero(refused.any(axis=1)), key=lambda row: -refused[row].sum())
    parts = []
    for row in rows:
        one = verdict.filters[row]
        here = np.flatnonzero(refused[row])
        best = here[np.argmin(np.abs(verdict.limits[row] - verdict.observed[row])[here])]
        sentence = one.sentence(verdict.observed[row, best], verdict.limits[row, best])
        parts.append(f"{refused[row].sum()} {one.code} ({sentence})")
    count = len(verdict.sites)
    return f"{count} site{'s' if count > 1 else ''}: {', '.join(parts)}"


def counts(verdict: FilterResults) -> dict[str, int]:
    """The number of sites that each filter refuses, by code."""
    refused = (~verdict.kept).sum(axis=1)
    return {f.code: int(n) for f, n in zip(verdict.filters, refused, strict=True) if n}
