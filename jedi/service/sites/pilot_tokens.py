"""Tokens of pilots that the submitter does not send."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from jedi_client.times import written
from pydantic import Field

from jedi.core import clock
from jedi.core.errors import NotFound
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import OPERATOR, Call, operation
from jedi.service.sites.listing import columns_of
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.sites.sites import AttributeChange
from jedi.taskbuffer.users import users

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class PilotToken:
    """A token that authenticates pilots of a site, with its expiry."""

    site: str
    token: str
    expires_at: datetime


@operation("site.create_token", "POST", "/v1/sites/{site}/tokens", OPERATOR, secret=True)
def create_token(
    call: Call, site: NameText, days: Annotated[float, Field(ge=0, le=36_500)] = 30.0
) -> PilotToken:
    """Make a token for pilots that another system starts at a site.

    JEDI can't show it again. NotFound: no such site.
    """
    call.subject = f"site {site}"
    columns_of(call.tx, site)
    until = clock.now() + timedelta(days=days)
    made = AttributeChange(site, "token", None, f"until {written(until)}")
    sites.note_changes(call.tx, [made], call.who, None)
    token = users.put_token(call.tx, "pilot", site=site, lifetime_s=days * _DAY_S)
    return PilotToken(site, token, until)


@operation("site.revoke_token", "POST", "/v1/sites/{site}/tokens/revoke", OPERATOR, dry_run=True)
def revoke_token(call: Call, site: NameText, token: NameText) -> None:
    """Revoke a token of a site's pilots.

    NotFound: there is no such site, or token of it.
    """
    call.subject = f"site {site}"
    columns_of(call.tx, site)
    if users.check_token(call.tx, token) != users.Identity("pilot", site, None):
        raise NotFound(f"{site} has no such valid token.", code="no_such_token", site=site)
    users.REVOKE_TOKEN.run(call.tx, hash=users.token_hash(token))
    gone = AttributeChange(site, "token", "valid", "taken back")
    sites.note_changes(call.tx, [gone], call.who, None)
