"""Contradictions in tasks with a splitter, whose units are the jobs.

Source: docs/reference/herds.md#refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from jedi.core.errors import Problem
from jedi.model.tasks.params import TaskParams

_SIZES = "the splitter says how large the jobs are"
_LATE = "a herd is divided once, when all its input is known"
_EXCLUDED = {
    "n_files_per_job": _SIZES,
    "n_gb_per_job": _SIZES,
    "n_events_per_job": _SIZES,
    "n_max_files_per_job": _SIZES,
    "tgt_num_events_per_job": _SIZES,
    "tgt_max_output_for_ng": _SIZES,
    "group_boundary_id": "the units of a herd are its boundary ids",
    "respect_lb": _SIZES,
    "use_file_as_source_lfn": "jobs of a herd are named by their units",
    "n_events_per_worker": "jobs of a herd have their events from the beginning",
    "use_job_cloning": "a unit of a herd is one job",
    "fine_grained_proc": "jobs of a herd have their events from the beginning",
    "period": _LATE,
    "workflow_holdup": _LATE,
    "allow_empty_input": "a herd without units is a mistake",
    "prepro_spec": _LATE,
    "lost_files": "files of a herd are made again by its own jobs: use jedi-task retry",
    "pfn_list": "the splitter needs a dataset, or no input",
}
"""Keys that a herd can't have (Python names), and the rule."""


def herd_contradictions(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of keys that a task with a splitter can't have."""
    if params.splitter is None:
        return
    for name, rule in _EXCLUDED.items():
        if value := getattr(params, name):
            key = TaskParams.model_fields[name].alias or name
            yield Problem(key, key if name == "prepro_spec" else value, rule, "Leave it out")
    for key, number in (("nFiles", params.n_files), ("nEvents", params.n_events)):
        if params.no_input and number is not None:
            yield Problem(key, number, _SIZES, "Leave it out")
