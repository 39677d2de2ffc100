"""From a plan to jobs: everything that is written about them, column by column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.core.errors import JediError
from jedi.jobgenerator.inputs import InputNames, StreamUse, Where, must_differ, readings
from jedi.jobgenerator.job_params import Template, TextColumn, unresolved
from jedi.jobgenerator.lineage import Lineage, of_herd, trace
from jedi.jobgenerator.naming import (
    MARK,
    middle_name,
    must_be_name,
    must_not_be_read,
    name_files,
    padded,
)
from jedi.jobgenerator.plan import Cut
from jedi.model.arrays import Ints
from jedi.model.datasets.chunk import Files
from jedi.model.jobs.demand import Demand, InputSize
from jedi.model.jobs.generation import (
    CommandTemplate,
    EventUse,
    HerdUnit,
    InputUse,
    NewJobs,
    NewOutput,
    NewSeeds,
    Predecessor,
    SharedInput,
    TaskOrder,
)
from jedi.model.scheduling.priority import job_priorities
from jedi.model.sites.snapshot import Snapshot
from jedi.model.splitting.split_rules import TIED_IDS
from jedi.model.tasks.placeholders import MIDDLE, SYSTEM, UNIT, Form, list_file, placeholders

_MOST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Material:
    """The material of a task's jobs. `where` goes with `cuts`; `seeds` came back from earlier jobs,
    lowest first; `ids` and `file_ids` are fresh, see `ids_needed`. `herd`: the unit of each job of
    a herd."""

    task: TaskOrder
    sites: Snapshot
    cuts: Sequence[Cut]
    where: Sequence[Where]
    seeds: Files
    earlier: Mapping[int, Predecessor]
    last_unit: int
    ids: Sequence[int]
    file_ids: Sequence[int]
    memory_factor: float
    herd: Sequence[HerdUnit] = ()


def ids_needed(task: TaskOrder, jobs: int, seeds: Files) -> tuple[int, int]:
    """The number of ids of jobs, and of files: outputs and, after them, new seeds."""
    fresh = max(0, jobs - len(seeds)) if task.seeds else 0
    return jobs, jobs * len(task.outputs) + fresh


def make_jobs(m: Material) -> NewJobs:
    """All jobs of a plan. JediError: a placeholder has nothing behind it, or two files of a job
    have one name."""
    site = np.concatenate([cut.sites for cut in m.cuts])
    reads, endpoints = readings(m.cuts, m.where, m.sites)
    paths = _paths(m.task.paths, reads)
    must_differ(reads, {one.dataset_id: one.name for one in m.task.inputs}, paths)
    lineage = trace(m.cuts, m.ids, m.earlier, m.last_unit, m.task.columns["kind"])
    if m.herd:
        lineage = of_herd(lineage, m.ids, m.herd)
    attempts = (_reduce(np.maximum, m.cuts, "attempts") + 1).tolist()
    again = m.seeds.lfns[: len(m.ids)] if m.task.seeds else []
    seeds = _new_seeds(m, len(again))
    values = _Values(m, reads, lineage, attempts)
    values.seeds = [*map(int, again), *(seeds.numbers if seeds else ())]
    inputs = InputNames(reads)
    outputs = [_output(m, number, site, values, inputs) for number in range(len(m.task.outputs))]
    values.names = {one.output.stream: one.lfns for one in outputs}
    values.serials = outputs[0].serials if outputs else ()
    command = CommandTemplate(m.task.trans_path, m.task.params_template)
    commands = _render(command, values.column, len(site))
    beside = _render(m.task.beside, values.beside, len(site)) if m.task.beside else []
    ids = np.asarray(m.ids, np.int64)
    local = [not n for n in _total(reads, lambda r: ~r.local, len(site)).tolist()]
    return NewJobs(
        panda_ids=m.ids,
        origins=lineage.origins,
        units=lineage.units,
        attempts=attempts,
        sites=[m.sites.sites[i] for i in site.tolist()],
        priorities=job_priorities(
            m.task.columns["priority"], len(ids), m.task.jobs_before, m.task.jobs_per_step
        ),
        statuses=["activated" if here else "assigned" for here in local],
        **resources(m.task.demand, m.cuts, reads, m.sites, m.memory_factor),
        n_inputs=np.concatenate([cut.stops - cut.starts for cut in m.cuts]).tolist(),
        n_events=[n or None for n in _reduce(np.add, m.cuts, "events").tolist()],
        commands=commands,
        beside=beside,
        texts=values.texts,
        inputs=_uses(reads, ids, m.seeds, len(again)),
        paths=paths,
        events=[_events(r, ids) for r in reads if r.master and m.task.rules.records_events],
        endpoints=endpoints,
        outputs=outputs,
        boundaries=_boundaries(m),
        shared=[
            SharedInput(r.files, r.rows, ids[r.jobs], r.places) for r in reads if not r.tracked
        ],
        seeds=seeds,
        retries=lineage.retries,
        sets=None,
        kinds=None,
    )


def _render(command: CommandTemplate, column: Callable[[str], TextColumn], jobs: int) -> list[str]:
    """A command for each job."""
    found = Template(command.template).render(column, jobs)
    return [f"{command.trans_path} {one}" for one in found] if command.trans_path else found


def _boundaries(m: Material) -> list[int | None]:
    """The boundary id of each job that gives its own to its outputs."""
    tied = m.task.rules.group_boundary_id in TIED_IDS
    parts = [cut.chunk.master.boundaries[cut.starts] for cut in m.cuts]
    return [int(n) if tied and n else None for n in np.concatenate(parts)]


def _reduce(function: np.ufunc, cuts: Sequence[Cut], column: str) -> Ints:
    """A column of the master files, reduced over the files of each job."""
    parts = [
        function.reduceat(getattr(cut.chunk.master, column)[: cut.stops[-1]], cut.starts)
        for cut in cuts
    ]
    return np.concatenate(parts)


def _total(reads: Sequence[StreamUse], column: Any, jobs: int) -> Any:
    """For each job, a column of its readings added up."""
    totals = np.zeros(jobs)
    for read in reads:
        totals += np.bincount(read.jobs, weights=column(read), minlength=jobs)
    return totals


def resources(
    demand: Demand, cuts: Sequence[Cut], reads: Sequence[StreamUse], sites: Snapshot, factor: float
) -> dict[str, list[int]]:
    """Cores, memory, time and disk of each job at its site, rounded up, at most the largest of a
    column; `factor` is the part of the memory that is insisted on."""
    site = np.concatenate([cut.sites for cut in cuts])
    load = InputSize(
        bytes=_total(reads, lambda r: r.files.sizes[r.rows], len(site)),
        events=_reduce(np.add, cuts, "counted_events").astype(float),
    )
    cores = demand.cores_at(sites.cores[site])
    walltime = demand.walltime_s(load, cores, sites.core_power[site])
    if walltime is None:
        walltime = np.full(len(site), demand.max_walltime_s or 0.0)
    asked = {
        "cores": cores,
        "memory_mb": demand.memory_mb(cores, factor),
        "walltime_s": walltime,
        "disk_mb": demand.disk_mb(load),
    }
    return {
        name: np.minimum(np.ceil(column), _MOST).astype(np.int64).tolist()
        for name, column in asked.items()
    }


def _new_seeds(m: Material, again: int) -> NewSeeds | None:
    """Seeds for the jobs that get none of an earlier one: numbers not used before."""
    fresh = len(m.ids) - again
    if not m.task.seeds or not fresh:
        return None
    numbers = range(m.task.seeds.n_files + 1, m.task.seeds.n_files + 1 + fresh)
    return NewSeeds(m.task.seeds.dataset_id, m.file_ids[-fresh:], numbers, m.ids[again:])


def _output(m: Material, number: int, site: Ints, values: _Values, inputs: InputNames) -> NewOutput:
    """The files of one template: a name for each job, none of an input of its own, and where it
    goes. The payload makes no log."""
    output, jobs = m.task.outputs[number], len(m.ids)
    column = {"${SN}": MARK, "${SN/P}": MARK}
    stems = Template(output.template).render(
        lambda word: column.get(word) or values.column(word), jobs
    )
    if output.role == "log":
        serials, lfns = name_files(output, stems)
    else:
        must_not_be_read(output.source_name, inputs.all)
        serials, lfns = name_files(output, stems, inputs.of)
    if m.herd:
        for name in lfns:
            must_be_name(name)
    here = zip(m.sites.sites, m.sites.endpoint, strict=True)
    home = [output.destination or output.spaces.get(site, at) for site, at in here]
    by_site = [output.at_sites.get(name, output.dataset) for name in m.sites.sites]
    return NewOutput(
        output=output,
        serials=serials,
        datasets=[by_site[i] for i in site.tolist()],
        file_ids=m.file_ids[number * jobs : (number + 1) * jobs],
        lfns=lfns,
        endpoints=[home[i] for i in site.tolist()],
    )


def _uses(reads: Sequence[StreamUse], ids: Ints, seeds: Files, again: int) -> list[InputUse]:
    """Every file whose use is kept track of; seeds are read nowhere."""
    tracked = [r for r in reads if r.tracked]
    kinds = [[r for r in tracked if r.master], [r for r in tracked if not r.master]]
    uses = [_use([(r.files, r.rows, ids[r.jobs], r.places) for r in kind]) for kind in kinds]
    rows = np.arange(again)
    uses.append(_use([(seeds, rows, ids[:again], np.zeros(again, np.int16))]))
    return [use for use in uses if len(use.file_ids)]


def _paths(paths: Mapping[str, str], reads: Sequence[StreamUse]) -> dict[str, str]:
    """The paths of the input files that the task gives; builds read other files."""
    used = (r.files.lfns[row] for r in reads if paths and r.master for row in r.rows.tolist())
    return {lfn: paths[lfn] for lfn in used if lfn in paths}


def _events(reading: StreamUse, ids: Ints) -> EventUse:
    """The ranges of events that jobs process of a master."""
    files, rows = reading.files, reading.rows
    starts = files.start_events[rows]
    return EventUse(
        file_ids=files.file_ids[rows],
        dataset_ids=files.dataset_ids[rows],
        panda_ids=ids[reading.jobs],
        attempts=files.attempts[rows] + 1,
        starts=starts,
        ends=starts + files.events[rows] - 1,
        offsets=files.first_events[rows] - 1 - starts,
    )


def _use(parts: Sequence[tuple[Files, Ints, Ints, NDArray[np.int16]]]) -> InputUse:
    """Files, positions in them, jobs and places."""
    nothing = np.empty(0, np.int64)
    datasets = np.concatenate([nothing, *(f.dataset_ids[rows] for f, rows, _, _ in parts)])
    found, counts = np.unique(datasets, return_counts=True)
    return InputUse(
        used=dict(zip(found.tolist(), counts.tolist(), strict=True)),
        file_ids=np.concatenate([nothing, *(f.file_ids[rows] for f, rows, _, _ in parts)]),
        panda_ids=np.concatenate([nothing, *(jobs for _, _, jobs, _ in parts)]),
        places=np.concatenate([nothing.astype(np.int16), *(places for *_, places in parts)]),
    )


class _Values:
    """The column behind each placeholder, made when it is asked for."""

    def __init__(
        self,
        material: Material,
        reads: Sequence[StreamUse],
        lineage: Lineage,
        attempts: Sequence[int],
    ) -> None:
        self._m = material
        self._reads = reads
        self._lineage = lineage
        self._attempts = attempts
        self.seeds: list[int] = []
        self.names: dict[str, Sequence[str]] = {}
        self.serials: Sequence[int] = ()
        self.texts: dict[str, Sequence[str]] = {}

    def column(self, word: str) -> TextColumn:
        """For Template.render."""
        match word:
            case "$JEDITASKID":
                return str(self._m.task.jedi_task_id)
            case "$PANDAID":
                return list(map(str, self._m.ids))
            case "$ORIGINPANDAID":
                return list(map(str, self._lineage.origins))
            case "$JOBSETID":  # all that are made at once
                return str(self._m.ids[0])
            case "$JEDIFILEID":
                return list(map(str, self._first("file_ids")))
        found = next(placeholders(word))
        if found.name == UNIT:
            return self._of_units(found.form, word)
        if found.name not in SYSTEM:
            return self._names(found.name, found.form, word)
        if found.text == MIDDLE:
            return self._middle_names()
        form = Form.parse(found.form)
        show = padded if form.kind == "P" else str
        try:
            return [show(form.sum(n) if form.sum else n) for n in self._numbers(found.name)]
        except ZeroDivisionError:
            raise JediError(f"{word} divides by zero.", code="unresolved_placeholder") from None

    def beside(self, word: str) -> TextColumn:
        """The same for the further jobs of each job, whose own number is not known yet."""
        if word == "$PANDAID":
            return word
        return self.column("$PANDAID" if word == "$JOBSETID" else word)

    def _numbers(self, name: str) -> Sequence[int]:
        """Placeholders that JEDI fills by itself (model.tasks.placeholders.SYSTEM)."""
        m = self._m
        match name:
            case "SEQNUMBER":  # a retry keeps its number, as it keeps its unit of work
                return self._lineage.units
            case "SN":
                return self.serials
            case "RNDMSEED":
                shift = m.task.seeds.attributes.offset if m.task.seeds else 0
                shift += m.task.rules.random_seed or 0
                return [seed + shift for seed in self.seeds]
            case "SKIPEVENTS":
                return self._first("start_events")
            case "FIRSTEVENT":
                return self._first("first_events")
            case "MAXEVENTS":
                return [n or -1 for n in _reduce(np.add, m.cuts, "events").tolist()]
        return self._attempts  # ATTEMPTNR

    def _of_units(self, option: str, word: str) -> list[str]:
        """An option of each job's unit; a list with blanks."""
        try:
            values = [one.options[option] for one in self._m.herd]
        except KeyError:
            raise unresolved(word) from None
        return [one if isinstance(one, str) else " ".join(map(str, one)) for one in values]

    def _middle_names(self) -> list[str]:
        """Fields of the name of each job's master dataset, or of its first file."""
        rules = self._m.task.rules
        names = {one.dataset_id: one.name for one in self._m.task.inputs}
        found = []
        for cut in self._m.cuts:
            master = cut.chunk.master
            for start in cut.starts.tolist():
                dataset = names[int(master.dataset_ids[start])]
                source = master.lfns[start] if rules.use_file_as_source_lfn else dataset
                found.append(middle_name(source, rules.add_nth_field_to_lfn or ()))
        return found

    def _first(self, column: str) -> list[int]:
        """A column of the first master file of each job."""
        parts = [getattr(cut.chunk.master, column)[cut.starts] for cut in self._m.cuts]
        return list(map(int, np.concatenate(parts)))

    def _names(self, name: str, form: str, word: str) -> TextColumn:
        """The files of a stream; JediError if no stream has this name."""
        if ":" in name:
            return self._merged(name)
        if not form and name in self.names:
            return self.names[name]
        in_file = form == "F"
        names = [
            text
            for r in self._reads
            if r.stream == name
            for text in r.names("S" if in_file else form)
        ]
        if len(names) != len(self._m.ids):
            raise unresolved(word)
        if in_file:
            self.texts[list_file(name)] = [text.replace(" ", "\n") + "\n" for text in names]
            return list_file(name)
        return names

    def _merged(self, pair: str) -> list[str]:
        """`TRN_OUTPUT0:OUTPUT0`: merged streams and the result, `in1,in2:out`; without a number for
        every stream of the kind."""
        source, target = pair.split(":")
        streams = [r.stream for r in self._reads if re.fullmatch(rf"{source}\d*", r.stream)]
        columns = [
            [
                f"{ins}:{out}"
                for ins, out in zip(
                    self._names(stream, "L", pair),
                    self.names[target + stream.removeprefix(source)],
                    strict=True,
                )
            ]
            for stream in dict.fromkeys(streams)
        ]
        return list(map(" ".join, zip(*columns, strict=True)))
