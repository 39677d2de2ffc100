"""Tokens of an identity provider (OIDC): from signed claims to a user with a role and a scope."""

from __future__ import annotations

import base64
import json
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError
from joserfc.jwk import ECKey, RSAKey
from sqlalchemy import Connection

from jedi.core.errors import BadInput, Forbidden, Problem
from jedi.core.knobs.service import OidcKnobs
from jedi.service.operations.table import SCOPES, KnownCaller, Scope
from jedi.taskbuffer.users import audit, identities, users

ROLES = ("user", "production", "operator")
"""Each may do more than those before it."""

ALGORITHMS = ("RS256", "ES256")
SKEW_S = 60
"""Seconds that the provider's clock and ours may differ."""

TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,99}")

SigningKey = RSAKey | ECKey


@dataclass(frozen=True, slots=True)
class Person:
    """A person as the provider describes him; role None: the provider has no say in it."""

    issuer: str
    subject: str
    user_name: str
    role: str | None
    scope: Scope


def bad_token(sentence: str) -> Forbidden:
    """The refusal of a token."""
    return Forbidden(f"{sentence} Log in again: jedi-task login URL.", code="bad_token")


def is_on(knobs: OidcKnobs) -> bool:
    """Return True if the service takes tokens of a provider."""
    return bool(knobs.issuer and knobs.audience)


@dataclass(frozen=True, slots=True)
class LoginFacts:
    """All that a client needs to log in by the provider; issuer None: the service has none."""

    issuer: str | None
    client_id: str | None
    audience: str | None
    scopes: str


def login_facts(knobs: OidcKnobs) -> LoginFacts:
    """The way to log in, for everybody to know."""
    if not (is_on(knobs) and knobs.client_id):
        return LoginFacts(None, None, None, "")
    return LoginFacts(knobs.issuer, knobs.client_id, knobs.audience, knobs.scopes)


def is_private(url: str) -> bool:
    """Return True if nobody on the way can change an answer of this URL: https, or this host."""
    try:
        parts = urlsplit(url)
        local = parts.hostname in ("127.0.0.1", "::1", "localhost")
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and local)
        )
    except ValueError:
        return False


def roles_of(written: str) -> dict[str, str]:
    """The roles of groups, from `group=role …`. BadInput."""
    pairs = [(one, *one.rpartition("=")[::2]) for one in written.split()]
    problems = [
        Problem(
            "oidc.roles",
            one,
            f"is group=role, the role one of {', '.join(ROLES)}",
            "Write it as /jedi/experts=operator",
        )
        for one, group, role in pairs
        if not group or role not in ROLES
    ]
    if problems:
        raise BadInput(problems)
    return {group: role for _, group, role in pairs}


def must_be_sound(name: str, value: Any) -> None:
    """BadInput: a knob of OIDC that can't work."""
    if name == "oidc.roles":
        roles_of(value)
    if name == "oidc.issuer" and value and not is_private(value):
        rule = "is no https:// URL (http:// is for this host alone)"
        raise BadInput([Problem(name, value, rule, "Write https://login.example.org")])
    if name == "oidc.user_prefix" and value and not _NAME.fullmatch(value):
        rule = "has characters that names of users do not have"
        raise BadInput([Problem(name, value, rule, "Use letters, digits, `.`, `_`, `-` and `@`")])


def header_of(token: str) -> dict[str, Any]:
    """The header of a token, nothing of it verified yet. Forbidden."""
    try:
        first = token.partition(".")[0]
        found = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, RecursionError):
        raise bad_token("The token is damaged.") from None
    if not isinstance(found, dict) or found.get("alg") not in ALGORITHMS:
        raise bad_token(f"The token is not signed with {' or '.join(ALGORITHMS)}.")
    kind = found.get("typ")
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in TYPES):
        raise bad_token("The token is of another kind than an access token.")
    return found


def claims_of(
    token: str, key: SigningKey, issuer: str, audience: str, now_s: int
) -> dict[str, Any]:
    """The claims of a token of this issuer for this audience that is valid now. Forbidden."""
    try:
        claims: dict[str, Any] = jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims
    except (JoseError, ValueError, RecursionError):
        raise bad_token("The token's signature is wrong.") from None
    rules = jwt.JWTClaimsRegistry(
        now=now_s,
        leeway=SKEW_S,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": audience},
        exp={"essential": True},
        sub={"essential": True},
    )
    try:
        rules.validate(claims)
    except ExpiredTokenError:
        raise bad_token("The token has expired.") from None
    except InvalidClaimError as error:
        raise bad_token(_WRONG.get(error.claim or "", "The token has a wrong claim.")) from None
    except (JoseError, ValueError, TypeError, OverflowError):
        raise bad_token("The token lacks issuer, audience, subject or expiry.") from None
    return claims


_WRONG = {
    "iss": "The token is another issuer's.",
    "aud": "The token is for another audience.",
    "nbf": "The token is not valid yet.",
    "iat": "The token was issued in the future.",
}


def person_of(claims: Mapping[str, Any], knobs: OidcKnobs) -> Person:
    """The person whom claims describe. Forbidden: the name could not be a user's."""
    subject = str(claims["sub"])
    named = claims.get(knobs.user_claim)
    if knobs.user_claim == "email" and claims.get("email_verified") is not True:
        raise Forbidden("The provider has not verified your address.", code="bad_user_name")
    name = knobs.user_prefix + (named if isinstance(named, str) else subject)
    if not _NAME.fullmatch(name):
        raise Forbidden(
            f"The provider's name for you ({name[:100]!a}) can't be a user's name: letters, "
            "digits, `.`, `_`, `-` and `@`, at most 100. An operator may set oidc.user_claim.",
            code="bad_user_name",
        )
    return Person(knobs.issuer, subject, name, _role(claims, knobs), _scope(claims))


def _role(claims: Mapping[str, Any], knobs: OidcKnobs) -> str | None:
    """The highest role of the person's groups; None: no group has a role."""
    roles = roles_of(knobs.roles)
    if not roles:
        return None
    groups = claims.get(knobs.groups_claim)
    named = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    held = {roles[one] for one in named if isinstance(one, str) and one in roles}
    return max(held, key=ROLES.index, default=ROLES[0])


def _scope(claims: Mapping[str, Any]) -> Scope:
    """The most that the token's scopes `jedi.…` allow; without one, all."""
    given = claims.get("scope", "")
    words = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
    ours = [
        one.removeprefix("jedi.")
        for one in words
        if isinstance(one, str) and one.startswith("jedi.")
    ]
    if not ours:
        return "all"
    return max((one for one in SCOPES if one in ours), key=SCOPES.index, default="read")


def is_admitted(tx: Connection, person: Person) -> bool:
    """Return True if nothing is to be written for this request of a person. Forbidden."""
    known = identities.find(tx, person.user_name)
    if known.subject is None:
        return False
    if (known.issuer, known.subject) != (person.issuer, person.subject):
        raise _taken(person, "is that of another person of the identity provider")
    return person.role in (None, known.role)


def admit(tx: Connection, person: Person, shared_accounts: bool) -> None:
    """Remember a person at the first request; set the role that the groups give. Forbidden: the
    name is a local user's, or another person's."""
    known = identities.find(tx, person.user_name)
    if known.subject is None:
        if known.role != "user":
            raise _taken(person, f"is that of a local user of role {known.role}")
        if not shared_accounts and _is_account(person.user_name):
            raise _taken(person, "is that of a local account")
        identities.LINK.run(tx, user=person.user_name, issuer=person.issuer, subject=person.subject)
    if not is_admitted(tx, person) and person.role:
        users.PUT_USER.run(tx, user=person.user_name, role=person.role, gridpref=None, cap=None)
        change = json.dumps({"user": person.user_name, "role": person.role, "before": known.role})
        audit.NOTE.run(
            tx,
            user=person.user_name,
            way="oidc",
            operation="user.set",
            subject=f"user {person.user_name}",
            arguments=change,
            address=None,
            request_id=None,
        )


def caller_of(person: Person) -> KnownCaller:
    """The caller that a person is."""
    return KnownCaller(person.user_name, "oidc", person.scope)


def _taken(person: Person, why: str) -> Forbidden:
    return Forbidden(
        f"The name {person.user_name} {why}. Ask an operator (knobs oidc.user_prefix and "
        "oidc.shared_accounts).",
        code="name_taken",
        user=person.user_name,
    )


def _is_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
