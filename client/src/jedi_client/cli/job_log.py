"""`jedi-job log -f`: the output of a job, as its pilot sends it."""

from __future__ import annotations

import sys
import time
from functools import partial

import typer

from jedi_client.cli.common import console, service
from jedi_client.cli.task_follow import absence
from jedi_client.errors import NotFound
from jedi_client.statuses import JOB_LIVE
from jedi_client.terminal import harmless

POLL_S = 1.0


def follow_log(job: int) -> None:
    """Print new output until the job has ended, stdout to stdout and stderr to stderr. It waits for
    a service that is away."""
    out = err = shown = ""
    absent = absence()
    with service() as jedi:
        while True:
            [one] = absent.outlast(partial(jedi.job_look, panda_ids=[job]))
            live = one.status in JOB_LIVE
            if one.status != shown:
                shown = one.status
                console(stderr=True).print(f"job {job} is {shown}")
            try:
                printed = absent.outlast(partial(jedi.job_log, job))
            except NotFound:
                if not live:
                    raise
            else:
                typer.echo(harmless(news(out, printed.stdout)), nl=False)
                typer.echo(harmless(news(err, printed.stderr)), nl=False, err=True)
                sys.stdout.flush()
                out, err = printed.stdout, printed.stderr
            if not live:
                return
            time.sleep(POLL_S)


def news(before: str, now: str) -> str:
    """The text that is new in `now`. Both texts are ends of one log, or all of it."""
    if not before:
        return now
    if (at := now.rfind(before)) >= 0:
        return now[at + len(before) :]
    for length in range(min(len(before), len(now)), 0, -1):
        if before.endswith(now[:length]):
            return now[length:]
    return now
