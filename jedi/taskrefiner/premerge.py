"""Twins of a task's outputs, which are merged and which people don't see.

The jobs of the task fill the twins, merge jobs read them and fill the outputs. Source:
docs/reference/merging.md#internal-merging; the mark in the names is PanDA's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from jedi.model.datasets.dataset import NewDataset, OutputTemplate
from jedi.model.tasks.params import OutputItem, TaskParams
from jedi.model.tasks.placeholders import fill_task_id, marked, split_output


def add_twins(
    datasets: Sequence[NewDataset],
    templates: Sequence[OutputTemplate],
    first: int,
    jedi_task_id: int,
    params: TaskParams,
) -> tuple[list[NewDataset], tuple[OutputTemplate, ...]]:
    """Outputs and log with their twins, a dataset for each template, and where the logs of merge
    jobs go. `first` is the position of the first of the datasets in the task's list."""
    all_datasets, finals, twins = list(datasets), [], []
    merge_only = {f"OUTPUT{n}" for n, one in enumerate(params.items(OutputItem)) if one.merge_only}
    at_end = bool(params.um_name_at_end)
    for template in templates:
        if template.stream_name in merge_only:
            finals.append(template)
            continue
        dataset = datasets[template.dataset - first]
        scope, _, name = dataset.name.partition(":")
        if template.stream_name != dataset.stream_name:  # two outputs share a dataset
            name += f".{template.stream_name}"
        kind: Literal["trn_output", "trn_log"] = (
            "trn_log" if dataset.type == "log" else "trn_output"
        )
        twins.append(
            replace(
                template,
                dataset=first + len(all_datasets),
                file_name_template=marked(template.file_name_template, at_end=at_end),
            )
        )
        twin = f"{scope}:{marked(name, at_end=at_end)}"
        stream = f"TRN_{template.stream_name}"
        all_datasets.append(NewDataset(twin, kind, stream, provenance=0))
        finals.append(replace(template, source_name=None))
    if params.log_merge is not None:
        name = fill_task_id(params.log_merge.dataset, jedi_task_id)
        finals = [replace(one, out_type="output") for one in finals]
        finals.append(
            OutputTemplate(
                _position(all_datasets, name, first),
                fill_task_id(split_output(params.log_merge.value)[1], jedi_task_id),
                "LOG_MERGE0",
                "log",
            )
        )
    return all_datasets, (*finals, *twins)


def _position(datasets: list[NewDataset], name: str, first: int) -> int:
    """The position of the dataset with this name, which is added unless it is there."""
    known: Collection[str] = [one.name for one in datasets]
    if name not in known:
        datasets.append(NewDataset(name, "log", "LOG_MERGE0", provenance=0))
    return first + [one.name for one in datasets].index(name)
