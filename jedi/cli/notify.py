"""`jedi user notify`: notifications about tasks and jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from jedi_client.cli.common import Json, service, show

if TYPE_CHECKING:
    from jedi_client.models import NotificationSettings


class NotificationTopic(StrEnum):
    """Subjects of notifications."""

    TASKS = "tasks"
    JOBS = "jobs"


def notify(
    user: Annotated[str | None, typer.Argument(help="You, unless you are an operator.")] = None,
    mail: Annotated[
        str | None,
        typer.Option("--mail", metavar="ADDRESS", help="'' for none.", show_default="unchanged"),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            "--webhook",
            metavar="URL",
            help="JEDI posts messages there, signed with a secret that it shows once; '' for none.",
            show_default="unchanged",
        ),
    ] = None,
    about: Annotated[
        NotificationTopic | None,
        typer.Option(
            "--about",
            help="tasks: ends of tasks; jobs: also ends and holds of jobs.",
            show_default="unchanged",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Get a notice when your tasks end, by mail or by a webhook; or show the present settings.

    Example: `jedi user notify --webhook https://example.org/jedi --about jobs`
    """
    topic: Literal["tasks", "jobs"] | None = about.value if about else None
    with service() as jedi:
        whose = user or jedi.me_show().user_name
        if (mail, webhook, topic) == (None, None, None):
            settings = jedi.user_notices(whose)
        else:
            settings = jedi.user_notify(whose, mail=mail, webhook=webhook, about=topic)
    show(settings, as_json, lambda: _show(settings))


def _show(settings: NotificationSettings) -> None:
    ways = [
        way
        for way in (
            settings.mail and f"by mail to {settings.mail}",
            settings.webhook and f"at {settings.webhook}",
        )
        if way
    ]
    if ways:
        also = " and jobs" if settings.about == "jobs" else ""
        typer.echo(f"{settings.user} gets notices of tasks{also} {' and '.join(ways)}.")
    else:
        typer.echo(f"{settings.user} gets no notices.")
    if settings.secret:
        typer.echo(f"The secret that signs messages: {settings.secret}")
