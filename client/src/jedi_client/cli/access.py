"""`jedi-task login`, `logout`, `whoami`, `token`: access to services, kept as profiles."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from jedi_client import profiles
from jedi_client.cli.common import DryRun, Json, application, service, show, table
from jedi_client.errors import BadInput, NotFound, Problem
from jedi_client.profiles import DEFAULT, Profile
from jedi_client.terminal import harmless

token_app = application("Tokens of yours, for scripts and other machines.")


class TokenScope(StrEnum):
    """Uses of a token; each includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    ALL = "all"


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="https://HOST or http://HOST:PORT.")],
    name: Annotated[str, typer.Option("--name", help="The profile's name.")] = DEFAULT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            allow_dash=True,
            help="The token's file; - is standard input. Default: log in at the "
            "service's identity provider; if it has none, you are asked.",
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option("--ca", exists=True, dir_okay=False, help="Certificates to trust (PEM)."),
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option("--pin", metavar="SHA256", help="The only certificate to trust."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Keep a service and your token for it as a profile. The service is asked who you are.

    With an identity provider, the command shows a page and a code: confirm it in any browser.
    Make the token where you are known: `jedi-task token create --name laptop`.
    Example: `jedi-task login https://jedi.example.org --token-file token`
    """
    from jedi_client.operations import Client

    place = url.rstrip("/")
    bare = Profile(place, None, str(ca.absolute()) if ca else None, pin)
    facts = {} if token_file else _ways(bare)
    if facts.get("issuer"):
        from jedi_client.device import log_in

        profile = log_in(facts, bare, name, _show_code)
    else:
        profile = replace(bare, token=_token(token_file))
    with Client(profile) as jedi:
        me = jedi.me_show()
    profiles.save({**profiles.load(), name: profile})
    sentence = f"You are {me.user_name} ({me.role}) at {place}: profile {name}."
    show(me, as_json, lambda: typer.echo(sentence))


def _ways(profile: Profile) -> dict[str, Any]:
    """The service's identity provider; services of older releases name none."""
    from jedi_client.operations import Client

    with Client(profile) as jedi:
        try:
            found: dict[str, Any] = jedi.call("GET", "/v1/login", {}, {}, Any)
        except NotFound:
            return {}
    return found


def _show_code(page: str, code: str) -> None:
    typer.echo(f"Open {harmless(page)} and confirm the code {harmless(code)}.", err=True)


def _token(file: Path | None) -> str:
    if file is None:
        asked: str = typer.prompt("Token", hide_input=True)
        return asked.strip()
    return (typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text()).strip()


def logout(
    name: Annotated[str, typer.Argument(metavar="[PROFILE]", help="The profile.")] = DEFAULT,
    as_json: Json = False,
) -> None:
    """Forget a profile with its token, and end a login at the identity provider. A token of
    `token create` stays valid until it is revoked.

    Example: `jedi-task logout`
    """
    from jedi_client.device import forget

    known = profiles.load()
    if name not in known:
        rule = f"there is no such profile in {profiles.profiles_file()}"
        raise BadInput([Problem("profile", name, rule, f"There are {', '.join(known) or 'none'}")])
    revoked, why = forget(name)
    if why:
        typer.echo(f"Warning: {why}", err=True)
    ended = " Its login at the identity provider has ended." if revoked else ""
    show(
        {"profile": name, "revoked": revoked},
        as_json,
        lambda: typer.echo(f"Profile {name} is forgotten.{ended}"),
    )


def whoami(as_json: Json = False) -> None:
    """Show your identity and role at the service, and the service's place.

    Example: `jedi-task whoami`
    """
    with service() as jedi:
        me = jedi.me_show()
        where = jedi.profile.url
    found = {
        "user_name": me.user_name,
        "role": me.role,
        "way": me.way,
        "scope": me.scope,
        "service": where,
    }
    show(found, as_json, lambda: table(["what", "value"], found.items()))


TokenUser = Annotated[
    str | None,
    typer.Option("--user", help="Of this user or service account (operators)."),
]


@token_app.command("create")
def create(
    name: Annotated[str, typer.Option("--name", help="Your name for it.")],
    days: Annotated[float, typer.Option("--days", help="Days until it expires.")] = 90.0,
    scope: Annotated[
        TokenScope, typer.Option("--scope", help="read; submit, too; or all you may do.")
    ] = TokenScope.ALL,
    panda: Annotated[
        bool, typer.Option("--panda", help="In the form for PanDA's clients.")
    ] = False,
    user: TokenUser = None,
    as_json: Json = False,
) -> None:
    """Make a token. It is shown once and can't be read again.

    Example: `jedi-task token create --name laptop --days 30 > token`
    """
    with service() as jedi:
        made = jedi.token_create(name=name, days=days, scope=scope.value, user=user)
    show(made, as_json, lambda: typer.echo(made.jwt if panda else made.token))


@token_app.command("list")
def list_tokens(
    user: TokenUser = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Of all users (operators).")
    ] = False,
    as_json: Json = False,
) -> None:
    """List valid tokens: yours or, for operators, other users'.

    Example: `jedi-task token list`
    """
    with service() as jedi:
        found = jedi.token_list(user=user, everybody=everybody)
    rows = [
        [
            one.token_id,
            one.user_name,
            one.name,
            one.scope,
            one.creation_time,
            one.expires_at,
            one.used_at,
        ]
        for one in found
    ]
    headers = ["id", "user", "name", "scope", "since", "until", "last use"]
    show(found, as_json, lambda: table(headers, rows, spare=("since",), short=("name",)))


@token_app.command("revoke")
def revoke(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of `token list`.")],
    user: TokenUser = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Revoke tokens: they stop to work at once.

    Example: `jedi-task token revoke 1f2e3d4c5b6a`
    """
    with service() as jedi:
        for one in ids:
            jedi.token_revoke(one, user=user, dry_run=dry_run)
    show(
        {"revoked": ids},
        as_json,
        lambda: typer.echo(f"Revoked: {', '.join(ids)}."),
        dry_run=dry_run,
    )
