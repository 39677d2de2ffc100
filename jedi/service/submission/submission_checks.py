"""Checks of task parameters against the database, at submission and when parameters change."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from typing import TypeVar

from sqlalchemy import Connection

from jedi.core.errors import JediError, Problem
from jedi.core.knobs import Knobs
from jedi.core.suggest import suggest
from jedi.ddm.interface import DDM
from jedi.model.scheduling.priority import DEFAULT, OF_USERS
from jedi.model.tasks.params import InputItem, OutputItem, TaskParams
from jedi.service.submission.submission_shell import shell_problems
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.users import users

_CHOICES = frozenset(("site", "includedSite", "excludedSite"))
"""Keys that choose sites: a change of one may contradict another."""

_DatasetItem = TypeVar("_DatasetItem", InputItem, OutputItem)


def recheck(tx: Connection, who: str, params: TaskParams, keys: Collection[str]) -> list[Problem]:
    """Return the mistakes of changed parameters that depend on the database."""
    found = [
        *person(params, who, users.role(tx, who)),
        *unknown_places(tx, params),
        *limits(params, knobs.load(tx)),
        *shell_problems(params),
    ]
    moved = _CHOICES if _CHOICES & {*keys} else frozenset()
    return [problem for problem in found if problem.path in moved.union(keys)]


def person(params: TaskParams, who: str, role: str) -> Iterator[Problem]:
    """Yield problems of keys that ordinary users may not set. Source:
    docs/reference/task-parameters.md#keys-of-ordinary-users."""
    if role in ("production", "operator"):
        return
    if params.user_name not in (None, who):
        rule = "only production users and operators submit for others"
        yield Problem("userName", params.user_name, rule, f"Leave it out: you are {who}")
    if params.gshare is not None:
        rule = "only production users and operators choose a share"
        yield Problem("gshare", params.gshare, rule, "Leave it out: the work queue sets the share")
    if params.work_queue_name is not None:
        rule = "only production users and operators choose a work queue"
        remedy = "Leave it out: its criteria choose it"
        yield Problem("workQueueName", params.work_queue_name, rule, remedy)
    production = "only production users and operators submit production tasks"
    if params.task_type not in (None, "anal"):
        yield Problem("taskType", params.task_type, production, "Leave it out")
    if params.prod_source_label == "managed":
        yield Problem("prodSourceLabel", "managed", production, "Leave it out")
    least, most = OF_USERS
    for key, value in (
        ("taskPriority", params.task_priority),
        ("currentPriority", params.current_priority),
    ):
        if value is not None and not least <= value <= most:
            rule = f"a user's tasks have priorities from {least} to {most}"
            yield Problem(key, value, rule, f"Leave it out for {DEFAULT}")


def unknown_places(tx: Connection, params: TaskParams) -> Iterator[Problem]:
    """Yield problems of sites and endpoints that do not exist, and of keys that leave no site."""
    wanted = [("site", one) for one in (params.site or "").split(",")]
    wanted += [(key, getattr(params, key) or "") for key in ("nucleus", "cloud", "destination")]
    wanted += [
        (path, item.destination or "") for path, item in paths(params, OutputItem, "destination")
    ]
    if not (any(name for _, name in wanted) or params.included_site or params.excluded_site):
        return
    rows = sites.ALL_SITES.rows(tx)
    names, endpoints = {row["site"] for row in rows}, sites.ALL_ENDPOINTS.rows(tx)
    known = {
        "site": names,
        "nucleus": names,
        "cloud": {row["cloud"] for row in rows},
        "destination": {row["ddm_endpoint"] for row in endpoints},
    }
    for path, name in wanted:
        kind = path.rpartition(".")[2]
        if name and name not in known[kind]:
            listed = "endpoint" if kind == "destination" else "site"
            remedy = suggest(name, known[kind], f"Look at the output of: jedi {listed} list")
            yield Problem(path, name, f"no such {kind}", remedy)
    yield from _no_site_left(params, names)


def _no_site_left(params: TaskParams, known: Collection[str]) -> Iterator[Problem]:
    """Yield a problem if includedSite and excludedSite leave no known site, or none of those that
    key site names. Names and patterns match as in the brokers' filters."""
    included, excluded = params.included_site, params.excluded_site
    asked = {*(params.site or "").split(",")} & {*known} if params.site else {*known}
    fits = asked
    if included and "AUTO" not in included.split(","):
        matching = _matching(included, known)
        fits = asked & matching
        if not matching:
            remedy = suggest(included, known, "Look at the output of: jedi site list")
            yield Problem("includedSite", included, "matches no site", remedy)
        elif asked and not fits:
            rule = "includedSite names other sites"
            yield Problem("site", params.site, rule, "Leave one of the two out")
    if excluded and fits and not fits - _matching(excluded, fits):
        if params.site:
            rule, remedy = "all are excluded", "Name another one, or shorten excludedSite"
            yield Problem("site", params.site, rule, remedy)
        else:
            rule = "excludes every site that the task may use"
            yield Problem("excludedSite", excluded, rule, "Shorten it")


def _matching(patterns: str, known: Collection[str]) -> set[str]:
    """The sites that a list of names and patterns matches."""
    listed = patterns.split(",")
    return {site for site in known if any(fnmatchcase(site, one) for one in listed)}


def limits(params: TaskParams, settings: Knobs) -> Iterator[Problem]:
    most = int(settings.jobgen.hard_max_files_per_job)
    if params.n_files_per_job is not None and params.n_files_per_job > most:
        rule = f"no job gets more than {most} files (knob jobgen.hard_max_files_per_job)"
        yield Problem("nFilesPerJob", params.n_files_per_job, rule, "Lower it")


def uncounted_events(ddm: DDM, params: TaskParams, settings: Knobs) -> Iterator[Problem]:
    """Yield the first file of the event service's input whose events nobody has counted: ranges
    are cut before jobs run. Source: docs/reference/event-service.md#refused."""
    cut = params.n_events_per_worker and not params.use_job_cloning
    counted = params.n_events_per_input_file and not params.use_real_num_events
    if not cut or counted or settings.ddm.event_count_command or params.no_input or params.pfn_list:
        return
    for path, item in paths(params, InputItem)[:1]:
        for name in item.datasets:
            try:
                files = ddm.list_files(name)
            except JediError:
                continue  # another task makes it, or another check reports it
            for file in files:
                if file.nevents is None and file.lfn in (item.files or [file.lfn]):
                    rule = f"the number of events in {file.lfn} of {name} is unknown"
                    remedy = "Give nEventsPerInputFile, or the numbers in .dataset.yaml"
                    yield Problem(path, name, rule, remedy)
                    return


def paths(
    params: TaskParams, kind: type[_DatasetItem], key: str = "dataset"
) -> list[tuple[str, _DatasetItem]]:
    return [
        (f"jobParameters[{i}].{key}", item)
        for i, item in enumerate(params.job_parameters)
        if isinstance(item, kind)
    ]
