"""Contradictions in tasks that merge their outputs."""

from __future__ import annotations

from collections.abc import Iterator

from jedi.core import names
from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.model.tasks.params import OutputItem, TaskParams
from jedi.model.tasks.placeholders import (
    STREAM_FORMS,
    SYSTEM,
    Form,
    longest_name,
    marked,
    placeholders,
    split_output,
    unfilled,
)

_OWN_KEYS = {
    "mergeSpec": "merge_spec",
    "log_merge": "log_merge",
    "umNameAtEnd": "um_name_at_end",
    "mergeRamCount": "merge_ram_count",
    "mergeCoreCount": "merge_core_count",
    "nFilesPerMergeJob": "n_files_per_merge_job",
    "nEventsPerMergeJob": "n_events_per_merge_job",
    "nGBPerMergeJob": "n_gb_per_merge_job",
    "nMaxFilesPerMergeJob": "n_max_files_per_merge_job",
}


def merge_contradictions(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of keys, items and placeholders of merge jobs."""
    if not params.merge_output:
        for key, name in _OWN_KEYS.items():
            if (value := getattr(params, name)) is not None:
                yield Problem(
                    key, value, "needs a task that merges its outputs", "Add mergeOutput: true"
                )
        for item in params.items(OutputItem):
            if item.merge_only:
                path, rule = "jobParameters", "mergeOnly needs a task that merges its outputs"
                yield Problem(path, item.value, rule, "Add mergeOutput: true")
        return
    for item in params.items(OutputItem):
        if item.allow_no_output and not item.merge_only:
            rule = "merging needs this output from every job"
            yield Problem("jobParameters", item.value, rule, "Leave allowNoOutput out")
    if not [item for item in params.items(OutputItem) if not item.merge_only]:
        yield Problem("mergeOutput", True, "the task has no output to merge", "Add an output item")
    spec = params.merge_spec
    if spec is None or not (spec.trans_path or spec.job_parameters.strip()):
        remedy = "Give mergeSpec with transPath and jobParameters"
        yield Problem("mergeOutput", True, "the task has no command for merge jobs", remedy)
        return
    yield from unfilled("mergeSpec.transPath", spec.trans_path, SYSTEM)
    yield from _placeholder_rules(params, spec.job_parameters)
    yield from _name_rules(params)


def _placeholder_rules(params: TaskParams, template: str) -> Iterator[Problem]:
    known: dict[str, tuple[str, ...]] = {name: SYSTEM[name] for name in ("SN", "ATTEMPTNR")}
    kinds = ["OUTPUT", "LOG"] if params.log_merge else ["OUTPUT"]
    known |= dict.fromkeys([f"TRN_{kind}:{kind}" for kind in kinds], ("",))
    merged = [f"OUTPUT{n}" for n, one in enumerate(params.items(OutputItem)) if not one.merge_only]
    for stream in [*merged, *(["LOG0"] if params.log_merge else [])]:
        known |= {f"TRN_{stream}": STREAM_FORMS, f"TRN_{stream}:{stream}": ("",)}
    known |= {f"OUTPUT{n}": ("",) for n, _ in enumerate(params.items(OutputItem))}
    known |= {"LOG0": ("",)} if params.log_merge else {}
    path = "mergeSpec.jobParameters"
    for placeholder in placeholders(template):
        try:
            wrong = (
                placeholder.name not in known
                or Form.parse(placeholder.form).kind not in known[placeholder.name]
            )
        except ValueError as error:
            yield Problem(path, placeholder.text, str(error), "Correct the form after the slash")
            continue
        if wrong:
            yield Problem(
                path,
                placeholder.text,
                "merge jobs have no value for the placeholder",
                suggest(placeholder.name, known, f"Use one of {', '.join(known)}"),
            )
    if params.log_merge and "${TRN_LOG" not in template:
        rule, remedy = "log_merge is set, but this command reads no logs", "Use ${TRN_LOG:LOG}"
        yield Problem(path, template, rule, remedy)


def _name_rules(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of names of unmerged files, which are longer than the names of the outputs."""
    for item in params.items(OutputItem):
        try:
            scope, _, name = longest_name(item.dataset).partition(":")
            names.dataset(f"{scope}:{marked(name, at_end=True)}.log")
            names.lfn(longest_name(marked(split_output(item.value)[1], at_end=True)))
        except ValueError as error:
            yield Problem("jobParameters", item.dataset, str(error), "Choose a shorter name")
