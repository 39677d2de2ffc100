"""Destinations of outputs: datasets and their endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jedi.model.jobs.generation import NewJobs, OutputDataset, TaskOrder

ANY_SITE = ""


def with_datasets(
    task: TaskOrder, sites: Sequence[str], found: Mapping[int, Mapping[str, OutputDataset]]
) -> TaskOrder:
    """The order with the datasets, `found` by container and site, that jobs at these sites fill."""

    def at(datasets: Mapping[str, OutputDataset]) -> dict[str, OutputDataset]:
        return {site: datasets.get(site) or datasets[ANY_SITE] for site in sites}

    outputs = [
        replace(one, at_sites=at(found.get(one.dataset.dataset_id, {ANY_SITE: one.dataset})))
        for one in task.outputs
    ]
    return replace(task, outputs=tuple(outputs))


def output_endpoints(jobs: NewJobs) -> dict[OutputDataset, list[str]]:
    """The datasets that jobs fill, and the endpoints where they do."""
    found: dict[OutputDataset, set[str]] = {}
    for output in jobs.outputs:
        for dataset, endpoint in zip(output.datasets, output.endpoints, strict=True):
            found.setdefault(dataset, set()).add(endpoint)
    return {dataset: sorted(endpoints) for dataset, endpoints in found.items()}
