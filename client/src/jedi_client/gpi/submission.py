"""Submissions: all checks, one call of the splitter, the programs, and one request to the backend.

Source: docs/reference/ganga.md#submission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from jedi_client.errors import BadInput, JediError, Problem, Unreachable
from jedi_client.gpi.any_job import AnyJob
from jedi_client.gpi.checks import problems_of
from jedi_client.gpi.connections import key_of
from jedi_client.gpi.contents import Contents
from jedi_client.gpi.files import SHARED, output_path, shared_name
from jedi_client.gpi.interfaces import (
    Accepted,
    Backend,
    InputCutter,
    Override,
    Program,
    Record,
    Rule,
    SandboxFile,
    Status,
    Submission,
    UnitPlan,
    UnitRecord,
    UnitState,
)
from jedi_client.gpi.overrides import overridden
from jedi_client.gpi.report import JobError, NotWritable, Report

T = TypeVar("T")


class NotSubmittable(JobError, BadInput):
    """A job has mistakes: it stays new and as it was."""

    code = "not_submittable"


class OutcomeOpen(JobError):
    """The answer to a submission is lost: the job is unknown until its backend is asked."""

    code = "outcome_open"


@dataclass(frozen=True, slots=True)
class Preview:
    """The subjobs that a submission would make; None: the backend will know. Or its mistakes."""

    inputs: int
    subjobs: int | None
    rule: Rule | None
    problems: Sequence[Problem]

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(["Not ready:", *(f"  {one}" for one in self.problems)])
        rule = self.rule and ", ".join(
            [
                self.rule.strategy,
                *(f"{name} = {value}" for name, value in self.rule.options.items()),
            ]
        )
        made = f"{self.subjobs} subjobs" if self.subjobs is not None else f"subjobs by {rule}"
        return f"{self.inputs} inputs -> {made}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that can be submitted: its programs, units and inputs."""

    program: Program
    units: Sequence[UnitPlan]
    rule: Rule | None
    inputs: Sequence[str]
    sandbox: Sequence[SandboxFile] = ()


def preview(job: AnyJob) -> Preview:
    """The subjobs that a submission would make, and its mistakes. The backend forecasts its own, if
    it can be reached."""
    try:
        made = plan(job)
    except BadInput as error:
        return Preview(0, None, None, error.problems)
    if made.rule is None:
        return Preview(len(made.inputs), len(made.units), None, ())
    backend = _of(job, "backend", lambda: job.backend.connect(job))
    if not isinstance(backend, InputCutter):
        return Preview(len(made.inputs), None, made.rule, ())
    try:
        files, number = backend.forecast(_submission(job, job.record, made, True))
    except BadInput as error:
        return Preview(0, None, made.rule, error.problems)
    except Unreachable:
        return Preview(len(made.inputs), None, made.rule, ())
    return Preview(files, number, made.rule, ())


def submit(job: AnyJob, *, keep_going: bool) -> Report:
    """Submit a job once. NotSubmittable: nothing happened. JobError for a refusal, after the other
    subjobs were accepted; OutcomeOpen if the answer is lost."""
    registry = job._registry
    session = registry.session
    try:
        job.before_change("submit")
        made = _with_shared(job, plan(job))
        settings = job.backend
        backend = _of(job, "backend", lambda: settings.connect(job))
        with session.workspace.claim(job.id) as mine:
            if not mine:
                raise NotWritable(f"Another session submits job {job.id} just now.")
            record = session.store.begin(job.id, job._version, key_of(settings))
            registry.learn(record)
            report = _send(job, backend, _submission(job, record, made, keep_going))
    except (NotSubmittable, NotWritable) as error:
        if not keep_going:
            raise
        return Report("submit", (), {None: error.sentence})
    finally:
        session.monitor.dispatch()
    session.monitor.expire(job.id)
    return report.checked(keep_going=keep_going)


def plan(job: AnyJob) -> Plan:
    """The programs and units of a job. NotSubmittable with all mistakes."""
    problems = _of(job, "job", lambda: problems_of(job))
    if problems:
        raise NotSubmittable(problems)
    split = division(job)
    program = _of(job, "application", lambda: job.application.program(job))
    inputs = _of(job, "inputdata", lambda: _inputs(job))
    sandbox = [file.sandbox() for file in job.inputsandbox]
    if isinstance(split, Rule):
        return Plan(program, (), split, inputs, sandbox)
    if split is None:
        return Plan(program, (UnitPlan(0, program),), None, inputs, sandbox)
    base = job.description()
    units = _of(job, "application", lambda: [_unit(base, k, one) for k, one in enumerate(split)])
    return Plan(program, units, None, inputs, sandbox)


def division(job: AnyJob) -> Sequence[Override] | Rule | None:
    """The overrides of all subjobs, or the rule; None: the job has no splitter. NotSubmittable."""
    splitter = job.splitter or getattr(job.backend, "splitter", None)
    if splitter is None:
        return None
    found = _of(job, "splitter", lambda: splitter.split(job))
    if not isinstance(found, Rule) and not (found := list(found)):
        rule, remedy = "makes no subjob", "Give it more values or inputs"
        raise NotSubmittable([Problem("splitter", type(splitter).__name__, rule, remedy)])
    return found


def settle(job: AnyJob) -> None:
    """Ask the backend for the result of a submission whose answer was lost, or whose session died.
    Unreachable: later again."""
    session, record = job._registry.session, job.record
    with session.workspace.claim(job.id) as mine:
        if not mine:
            return
        [record] = session.store.load("job", [job.id])
        if record.status not in ("submitting", "unknown") or record.backend is None:
            job._registry.learn(record)
            return
        asked = _submission(job, record, _asked_before(job), True)
        backend = session.monitor.connections.to(record.backend)
        accepted = backend.settle(asked)
        if accepted is None:
            lost = "The submission did not reach the backend."
            registry_record = session.store.give_up(job.id, "new", lost, record.submissions)
            job._registry.learn(registry_record)
        else:
            _accept(job, backend, asked, record, accepted)


def _asked_before(job: AnyJob) -> Plan:
    """The plan of an earlier submission, as far as its result needs it. Without units if the job
    can't be divided any more, since its input is gone: the backend knows them."""
    nothing = Program("")
    try:
        split = division(job)
    except NotSubmittable:
        return Plan(nothing, (), None, ())
    if isinstance(split, Rule):
        return Plan(nothing, (), split, ())
    units = enumerate(split or (Override({}),))
    return Plan(nothing, [UnitPlan(k, nothing, None, one.values) for k, one in units], None, ())


def _with_shared(job: AnyJob, made: Plan) -> Plan:
    """The plan with the contents of shared files, which their first use copies."""
    shared = {
        file.target
        for file in job.inputsandbox
        if (file.shared and file.local) or file.name.startswith(SHARED)
    }
    if not shared:
        return made
    contents = Contents(job._registry.session.workspace.root / "contents")

    def kept(one: SandboxFile) -> SandboxFile:
        digest = contents.share(Path(one.source), shared_name(one.source))
        return replace(one, source=str(contents.path(digest)), digest=digest)

    files = _of(
        job,
        "inputsandbox",
        lambda: [kept(one) if one.name in shared else one for one in made.sandbox],
    )
    return replace(made, sandbox=files)


def _unit(base: Any, k: int, override: Override) -> UnitPlan:
    """A unit with the program and the inputs of its own."""
    view = overridden(base, override.values)
    own = any(name.startswith("inputdata") for name in override.values)
    inputs = _inputs(view) if own else None
    return UnitPlan(k, view.application.program(view), inputs, override.values)


def _inputs(job: Any) -> Sequence[str]:
    return () if job.inputdata is None else tuple(job.inputdata.files_of(job))


def _of(job: AnyJob, part: str, ask: Callable[[], T]) -> T:
    """The answer of a part, which may be a plug-in. NotSubmittable for each of its errors."""
    try:
        return ask()
    except BadInput as error:
        raise NotSubmittable(error.problems) from error
    except Exception as error:
        rule = f"failed: {type(error).__name__}: {error}"
        remedy = "Correct the job, or report this to the plug-in's author"
        raise NotSubmittable([Problem(part, None, rule, remedy)]) from error


def _submission(job: AnyJob, record: Record, made: Plan, keep_going: bool) -> Submission:
    session = job._registry.session
    return Submission(
        key=f"{session.store.guid}/{job.id}/{record.submissions}",
        name=record.name,
        document=job.document(),
        program=made.program,
        sandbox=made.sandbox,
        inputs=made.inputs,
        outputs=[*dict.fromkeys(map(output_path, (*job.outputsandbox, *job.outputdata)))],
        units=made.units,
        rule=made.rule,
        keep_going=keep_going,
        workspace=session.workspace.of(job.id),
    )


def _send(job: AnyJob, backend: Backend, asked: Submission) -> Report:
    """Send a submission that has begun. The job ends as submitted, new or unknown."""
    registry, record = job._registry, job.record
    store = registry.session.store
    try:
        accepted = backend.submit(asked)
    except JediError as error:
        lost = isinstance(error, Unreachable)
        status: Any = "unknown" if lost else "new"
        registry.learn(store.give_up(job.id, status, error.sentence, record.submissions))
        if not lost:
            return Report("submit", (), {None: error.sentence})
        cause = error.sentence.rstrip(".")
        sentence = (
            f"The answer to the submission of job {job.id} is lost ({cause}). It is "
            "unknown until the backend answers; j.wait() waits for that."
        )
        if asked.keep_going:
            return Report("submit", (), {None: sentence})
        raise OutcomeOpen(sentence, id=job.id) from error
    except BaseException as error:
        why = f"{type(error).__name__}: {error}"
        registry.learn(store.give_up(job.id, "unknown", why, record.submissions))
        raise
    return _accept(job, backend, asked, record, accepted)


def _accept(
    job: AnyJob, backend: Backend, asked: Submission, record: Record, accepted: Accepted
) -> Report:
    """Keep the result of a submission. Source: docs/reference/ganga.md#submission."""
    registry = job._registry
    store = registry.session.store
    why = {
        **dict.fromkeys(accepted.untried, "Not tried, since another was refused."),
        **accepted.refused,
    }
    split = bool(asked.rule) or job.split
    done = [one.k for one in asked.units if one.k not in why]
    report = Report(
        "submit", done if split and not asked.rule else (None,), {k: why[k] for k in sorted(why)}
    )
    if asked.units and not done:
        first = next(iter(accepted.refused.values()), "No subjob was accepted.")
        registry.learn(store.give_up(job.id, "new", first, record.submissions))
        return Report("submit", (), report.failed if split else {None: first})
    left: Status = "failed" if backend.bulk else "new"
    units = _records(asked.units, why, left)
    registry.learn(store.accept(job.id, accepted, "submitted", units, record.submissions))
    return report


def _records(
    units: Sequence[UnitPlan], why: Mapping[int, str], left: Status
) -> Sequence[UnitRecord]:
    """The subjobs as they begin: submitted, or refused with the reason."""
    return [
        UnitRecord(
            UnitState(one.k, left, reason=why[one.k])
            if one.k in why
            else UnitState(one.k, "submitted"),
            one.override,
        )
        for one in units
    ]
