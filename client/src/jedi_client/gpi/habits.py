"""Names that Ganga's jobs have and these have not. See docs/ganga.md."""

from __future__ import annotations

_TIMES = "See j.created, j.submitted, j.ended and j.attempts"
_BY_FORCE = "Kill it, resubmit it, or remove it by force=True"
_AT_SUBMISSION = "Each submission takes the present files; j.preview() checks the job"
HABITS = {
    "inputfiles": "Write j.inputsandbox = [...]",
    "outputfiles": "Write j.outputsandbox = [...]",
    "postprocessors": "Write j.merge(TextMerger([...]))",
    "outputdir": "j.outputs() lists the output; j.output(name) gives a path",
    "inputdir": "j.inputsandbox has the input files",
    "info": _TIMES,
    "time": _TIMES,
    "force_status": _BY_FORCE,
    "fail": _BY_FORCE,
    "prepare": _AT_SUBMISSION,
    "unprepare": _AT_SUBMISSION,
    "export": "Write jobs.select(j.id, j.id).export(path)",
}
"""Remedies by name."""
