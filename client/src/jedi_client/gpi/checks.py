"""All mistakes of a job at once, before anything leaves the session.

Source: docs/reference/ganga.md#checks.
"""

from __future__ import annotations

from typing import Any

from jedi_client.errors import Problem
from jedi_client.gpi.files import is_local, output_mistake, plain_name, sandbox_problems


def problems_of(job: Any) -> list[Problem]:
    """All reasons why a job can't be submitted; nothing changes."""
    found = [*job.application.check(job), *_pair(job), *job.backend.check(job)]
    for part in (job.inputdata, job.splitter, job.merger):
        if part is not None:
            found += part.check(job)
    found += _outputs(job)
    return [*found, *sandbox_problems(job.inputsandbox, "inputsandbox")]


def _outputs(job: Any) -> list[Problem]:
    """The backend can keep all outputs. They have different names without their folders: they come
    back into one folder."""
    problems: list[Problem] = []
    first: dict[str, str] = {}
    for part in ("outputsandbox", "outputdata"):
        for i, name in enumerate(getattr(job, part, ())):
            mistake = output_mistake(name) or job.backend.output_mistake(name)
            if part == "outputdata" and not is_local(name) and not job.backend.has_catalogue:
                mistake = "is for JEDI's catalogue, which this backend does not have", "Take JEDI"
            if not mistake and (other := first.setdefault(plain_name(name), name)) != name:
                mistake = f"comes back under the same name as {other}", "Rename one of them"
            if mistake:
                problems.append(Problem(f"{part}[{i}]", name, *mistake))
    return problems


def _pair(job: Any) -> list[Problem]:
    """The application runs on this backend."""
    allowed, backend = job.application.backends, type(job.backend).__name__
    if allowed is None or backend in allowed:
        return []
    rule = f"can't run a {type(job.application).__name__}"
    return [Problem("backend", backend, rule, f"Take one of {', '.join(allowed)}")]
