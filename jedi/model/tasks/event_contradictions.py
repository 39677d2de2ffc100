"""Contradictions in tasks whose events are handed out while jobs run.

Source: docs/reference/event-service.md#refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jedi.core.errors import Problem
from jedi.model.datasets import physical
from jedi.model.tasks.params import EVENT_CODES, InputItem, OutputItem, TaskParams
from jedi.model.tasks.placeholders import STREAM_FORMS, SYSTEM, Form, placeholders, stream_of
from jedi.model.tasks.preprocessing import is_reported

_SWITCHES = {"nEventsPerWorker": 1, "useJobCloning": 2, "fineGrainedProc": 3}


def event_contradictions(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of keys of the event service, job cloning and fine-grained processing."""
    code = params.event_service
    if code is None:
        yield from _without_mode(params)
        return
    key = next(key for key, mode in _SWITCHES.items() if mode == code)
    value = _given(params)[key]
    if code == EVENT_CODES["cloning"] and params.n_events_per_worker:
        rule = "copies of a job process the same events, so these are not cut"
        yield Problem("nEventsPerWorker", params.n_events_per_worker, rule, "Leave one of them out")
    if params.merge_output:
        rule = (
            "its outputs are merged already, out of pieces"
            if code == EVENT_CODES["es"]
            else ("the outputs of consumers are not merged")
        )
        yield Problem(key, value, f"mergeOutput is set, but {rule}", "Leave mergeOutput out")
    if (
        params.build_spec
        and params.n_sites_per_job != 1
        and (params.n_sites_per_job or code == EVENT_CODES["cloning"])
    ):
        rule = "consumers at other sites would lack the software that buildSpec makes"
        yield Problem("nSitesPerJob", params.n_sites_per_job, rule, "Set nSitesPerJob: 1")
    yield from _ordinary(params)
    if code != EVENT_CODES["cloning"]:
        yield from _pieces(params, key, value)
    if params.n_events_per_worker and code != EVENT_CODES["cloning"]:
        yield from _unknown_events(params)


def _ordinary(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of tasks some of whose jobs are ordinary ones."""
    if not params.switch_es_to_normal:
        return
    key, remedy = "switchEStoNormal", "Leave one of them out"
    if params.fine_grained_proc:
        yield Problem(key, True, "fine-grained jobs keep track of their events", remedy)
    if params.n_jumbo_jobs:
        yield Problem(key, True, "jumbo jobs (nJumboJobs) have ranges of all jobs", remedy)
    if any(getattr(item, "es_only", None) for item in params.job_parameters):
        rule = "ordinary jobs would get the arguments of consumers (es_only)"
        yield Problem(key, True, rule, remedy)


def _given(params: TaskParams) -> Mapping[str, Any]:
    return {
        "nEventsPerWorker": params.n_events_per_worker,
        "useJobCloning": params.use_job_cloning,
        "fineGrainedProc": params.fine_grained_proc,
    }


def _without_mode(params: TaskParams) -> Iterator[Problem]:
    if params.n_jumbo_jobs:
        rule = "jumbo jobs process ranges of the event service"
        yield Problem("nJumboJobs", params.n_jumbo_jobs, rule, "Give nEventsPerWorker")
    if params.esmerge_spec and not (params.es_convertible or params.es_fraction):
        rule = "only tasks of the event service have pieces to merge"
        yield Problem("esmergeSpec", {}, rule, "Give nEventsPerWorker, or use mergeSpec")
    if params.es_fraction:
        yield from _pieces(params, "esFraction", params.es_fraction)
        yield from _unknown_events(params)


def _pieces(params: TaskParams, key: str, value: Any) -> Iterator[Problem]:
    """Yield problems of the job that merges pieces."""
    if not params.items(OutputItem):
        rule = "pieces of events are merged into outputs, and the task has none (noOutput)"
        yield Problem(key, value, rule, "Add an output item")
    for item in params.items(OutputItem):
        if item.allow_no_output:
            rule = "an output that may be missing (allowNoOutput) can't be merged out of pieces"
            yield Problem("jobParameters", item.value, rule, "Leave allowNoOutput out")
    spec = params.esmerge_spec
    if spec is None or not (spec.trans_path or spec.job_parameters.strip()):
        remedy = "Give esmergeSpec with transPath and jobParameters"
        yield Problem(key, value, "the task has no command that merges pieces", remedy)
        return
    known: dict[str, tuple[str, ...]] = {**SYSTEM}
    first = [physical.STREAM] if params.pfn_list else []
    items = enumerate(params.items(InputItem), len(first))
    known |= dict.fromkeys(
        [*first, *(stream_of(item.value, at) for at, item in items)], STREAM_FORMS
    )
    known |= {f"OUTPUT{n}": ("",) for n, _ in enumerate(params.items(OutputItem))}
    for path, text in (("transPath", spec.trans_path), ("jobParameters", spec.job_parameters)):
        for placeholder in placeholders(text or ""):
            try:
                fits = Form.parse(placeholder.form).kind in known.get(placeholder.name, ())
            except ValueError as error:
                yield Problem(
                    f"esmergeSpec.{path}", placeholder.text, str(error), "Correct the form"
                )
                continue
            if not fits:
                rule = "this job has no value for the placeholder"
                remedy = f"Use one of {', '.join(known)}"
                yield Problem(f"esmergeSpec.{path}", placeholder.text, rule, remedy)


def _unknown_events(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of inputs whose events cannot be counted before jobs run."""
    size = params.n_events_per_worker or 1
    if params.no_input:
        if not (params.n_events and params.n_events_per_job):
            rule = "the events of a task without input are those of nEvents and nEventsPerJob"
            yield Problem("nEventsPerWorker", size, rule, "Give nEvents and nEventsPerJob")
        return
    if params.n_events_per_input_file:
        return
    if params.pfn_list:
        uncounted = [f.path for f in physical.files(params.pfn_list) if f.nevents is None]
        if uncounted:
            rule = f"nEventsPerInputFile is unknown, and so are the events of {uncounted[0]}"
            remedy = f"Write {uncounted[0]}^500 if it has 500 events, or give nEventsPerInputFile"
            yield Problem("nEventsPerWorker", size, rule, remedy)
        return
    if params.prepro_spec and any(
        is_reported(item.dataset) for item in params.items(InputItem)[:1]
    ):
        rule = "the pre-processing job names the input, so nEventsPerInputFile is unknown"
        yield Problem("preproSpec", {}, rule, "Give nEventsPerInputFile")
