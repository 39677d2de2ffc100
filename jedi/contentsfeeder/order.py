"""The datasets to feed, from the rows of a task and its datasets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jedi.contentsfeeder.feed import FeedTask, InputDataset, PseudoFile, needs_nucleus
from jedi.contentsfeeder.select import Selection
from jedi.model.datasets import physical
from jedi.model.datasets.dataset import Attributes
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.rows import ClaimedTask, FedDataset


def feed_task(
    row: ClaimedTask,
    params: Mapping[str, Any],
    inputs: Sequence[FedDataset],
    produced: Collection[tuple[str, int]],
    max_attempt: int,
    only: Mapping[str, Collection[str]] | None,
) -> FeedTask:
    """A task to feed, from its row of jedi_tasks and parameters. `inputs` are rows of input
    datasets, also of other tasks, with the `files` that they were fed and whether they are `due`;
    `produced`: datasets that living tasks make, with these; `only`: by dataset, the files that lost
    ones were made of."""
    ours = [one for one in inputs if one.jedi_task_id == row.jedi_task_id]
    masters = [one for one in ours if one.master_id is None and one.status != "removed"]
    parent = row.parent_tid if params.get("noWaitParent") else None
    rules, per_job = SplitRules.model_validate(row.rules or {}), params.get("nFilesPerJob") or 1
    return FeedTask(
        jedi_task_id=row.jedi_task_id,
        lock_seq=row.lock_seq,
        needs_nucleus=needs_nucleus(
            row.prod_source_label, asked=bool(row.nucleus), placed=bool(row.site or row.cloud)
        ),
        datasets=tuple(_dataset(one, params, produced, parent, only) for one in ours if one.due),
        max_attempt=1 if rules.disable_auto_retry else params.get("maxAttempt", max_attempt),
        max_failure=params.get("maxFailure"),
        n_files=params.get("nFiles"),
        files_fed=sum(one.files for one in masters),
        files_released=sum(one.n_files_to_be_used for one in masters),
        n_events=params.get("nEvents"),
        events_fed=sum(one.n_events or 0 for one in masters),
        n_pseudo_files=1 if rules.by_events else params.get("nFiles") or per_job,
        rules=rules,
        bunch=rules.events_per_job or per_job,
        least_events=params.get("skipShortInput", 0) and params.get("nEventsPerInputFile", 0),
        whole_jobs=params.get("skipShortOutput", 0) and (rules.files_per_job or 0),
        skipped=tuple(params.get("skipFilesUsedBy", ())),
        parent=None if row.parent_tid == row.jedi_task_id else row.parent_tid,
        status=(row.old_status if row.status == "pending" else None) or row.status,
        periodical=row.period is not None,
    )


def lost_of(params: Mapping[str, Any]) -> tuple[str, Sequence[str]] | None:
    """The files that a task makes again, and their dataset."""
    lfns = params.get("lostFiles")
    return (params["lostFilesDataset"], lfns) if lfns else None


def _dataset(
    row: FedDataset,
    params: Mapping[str, Any],
    produced: Collection[tuple[str, int]],
    parent: int | None,
    only: Mapping[str, Collection[str]] | None,
) -> InputDataset:
    """A dataset to feed; it need not wait for files that only the `parent` makes."""
    makers = {maker for name, maker in produced if name == row.dataset_name}
    named = params.get("pfnList", ()) if row.type == "pseudo_input" else ()
    return InputDataset(
        dataset_id=row.dataset_id,
        name=row.dataset_name,
        type=row.type,
        is_master=row.master_id is None,
        produced=bool(makers),
        eager=makers == {parent},
        followed=row.status == "running",
        n_files=row.n_files,
        n_left_out=row.n_left_out,
        n_events=row.n_events or 0,
        selection=_selection(row, params, only),
        master_id=row.master_id,
        fed_upto=row.fed_upto,
        last_group=(row.last_lumiblock, row.last_boundary),
        last_events=row.last_events or 0,
        pseudo_files=[PseudoFile(one.lfn, nevents=one.nevents) for one in physical.files(named)],
    )


def _selection(
    dataset: FedDataset, params: Mapping[str, Any], only: Mapping[str, Collection[str]] | None
) -> Selection:
    """The files that the item of a dataset, or of its container, selects; or `only` the ones from
    which lost files were made."""
    if dataset.type != "input":
        return Selection()
    names = {dataset.dataset_name, dataset.container_name or dataset.dataset_name}
    items = [i for i in params["jobParameters"] if i.get("param_type") == "input"]
    item: dict[str, Any] = next((i for i in items if names & {*i["dataset"].split(",")}), {})
    attributes = Attributes.parse(dataset.attributes)
    selection = Selection.of(item, attributes, dataset.dataset_id, names)
    if only is None:
        return selection
    return replace(selection, files=frozenset(only.get(dataset.dataset_name, ())))
