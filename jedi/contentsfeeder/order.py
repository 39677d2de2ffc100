"""The datasets to feed, from the rows of a task and its datasets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jedi.contentsfeeder.feed import FeedTask, InputDataset, PseudoFile, needs_nucleus
from jedi.contentsfeeder.select import Selection
from jedi.spec.datasets import physical
from jedi.spec.datasets.dataset import Attributes
from jedi.spec.splitting.split_rules import SplitRules


def feed_task(
    row: Any,
    params: Mapping[str, Any],
    inputs: Sequence[Any],
    produced: Collection[tuple[str, int]],
    max_attempt: int,
    only: Mapping[str, Collection[str]] | None,
) -> FeedTask:
    """A task to feed, from its row of jedi_tasks and parameters. `inputs` are rows of input
    datasets, also of other tasks, with what they were fed (`files`) and whether they are `due`;
    `produced`: datasets that living tasks make, with these; `only`: by dataset, the files that
    lost ones were made of."""
    ours = [one for one in inputs if one.jeditaskid == row.jeditaskid]
    masters = [one for one in ours if one.masterid is None]
    parent = row.parent_tid if params.get("noWaitParent") else None
    rules, per_job = SplitRules.model_validate(row.rules or {}), params.get("nFilesPerJob") or 1
    return FeedTask(
        jedi_task_id=row.jeditaskid,
        lock_seq=row.lock_seq,
        needs_nucleus=needs_nucleus(
            row.prodsourcelabel, asked=bool(row.nucleus), placed=bool(row.site or row.cloud)
        ),
        datasets=tuple(_dataset(one, params, produced, parent, only) for one in ours if one.due),
        max_attempt=1 if rules.disable_auto_retry else params.get("maxAttempt", max_attempt),
        max_failure=params.get("maxFailure"),
        n_files=params.get("nFiles"),
        files_fed=sum(one.files for one in masters),
        files_released=sum(one.nfilestobeused for one in masters),
        n_events=params.get("nEvents"),
        events_fed=sum(one.nevents or 0 for one in masters),
        n_pseudo_files=1 if rules.by_events else params.get("nFiles") or per_job,
        rules=rules,
        bunch=rules.events_per_job or per_job,
        least_events=params.get("skipShortInput", 0) and params.get("nEventsPerInputFile", 0),
        whole_jobs=params.get("skipShortOutput", 0) and (rules.files_per_job or 0),
        skipped=tuple(params.get("skipFilesUsedBy", ())),
        parent=None if row.parent_tid == row.jeditaskid else row.parent_tid,
        status=row.oldstatus if row.status == "pending" else row.status,
        periodical=row.period is not None,
    )


def lost_of(params: Mapping[str, Any]) -> tuple[str, Sequence[str]] | None:
    """The files that a task makes again, and their dataset."""
    lfns = params.get("lostFiles")
    return (params["lostFilesDataset"], lfns) if lfns else None


def _dataset(
    row: Any,
    params: Mapping[str, Any],
    produced: Collection[tuple[str, int]],
    parent: int | None,
    only: Mapping[str, Collection[str]] | None,
) -> InputDataset:
    """A dataset to feed; what only the `parent` makes need not be waited for."""
    makers = {maker for name, maker in produced if name == row.datasetname}
    named = params.get("pfnList", ()) if row.type == "pseudo_input" else ()
    return InputDataset(
        dataset_id=row.datasetid,
        name=row.datasetname,
        type=row.type,
        is_master=row.masterid is None,
        produced=bool(makers),
        eager=makers == {parent},
        followed=row.status == "running",
        n_files=row.nfiles,
        n_events=row.nevents or 0,
        selection=_selection(row, params, only),
        master_id=row.masterid,
        told=[PseudoFile(one.lfn, nevents=one.nevents) for one in physical.files(named)],
    )


def _selection(
    dataset: Any, params: Mapping[str, Any], only: Mapping[str, Collection[str]] | None
) -> Selection:
    """What the item that names a dataset, or its container, says of its files; or those `only`
    that lost files were made of."""
    if dataset.type != "input":
        return Selection()
    names = {dataset.datasetname, dataset.containername}
    items = [i for i in params["jobParameters"] if i.get("param_type") == "input"]
    item: dict[str, Any] = next((i for i in items if names & {*i["dataset"].split(",")}), {})
    found = Selection.of(item, Attributes.parse(dataset.attributes), dataset.datasetid)
    if only is None:
        return found
    return replace(found, files=frozenset(only.get(dataset.datasetname, ())))
