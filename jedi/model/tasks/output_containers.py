"""Outputs that are containers by default.
Source: docs/reference/inputs.md#output-datasets."""

from __future__ import annotations

from typing import Any


def with_containers(given: dict[str, Any]) -> dict[str, Any]:
    """A submitted task with the default of its containers. Analysis has an output dataset for each
    site, except on a machine of one's own, where one is enough. Outputs whose names end with `/`
    are containers everywhere."""
    marked, per_site = _marked(given), given.get("instantiateTmplSite")
    if per_site is not None:
        return given if per_site or not marked else {**given, "instantiateTmpl": True}
    abroad = given.get("vo", "local") != "local"
    analysis = abroad and given.get("prodSourceLabel", "user") == "user"
    wanted = analysis or (marked and not given.get("instantiateTmpl"))
    return {**given, "instantiateTmplSite": True} if wanted else given


def _marked(given: dict[str, Any]) -> bool:
    """Return True if the dataset of an output or log has a name with `/` at its end."""
    items = given.get("jobParameters")
    given_items = [*(items if isinstance(items, list) else ()), given.get("log")]
    outputs = [
        one for one in given_items if isinstance(one, dict) and one.get("param_type") != "input"
    ]
    return any(str(one.get("dataset")).endswith("/") for one in outputs)
