"""Delivery of messages: to a webhook, or by mail."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from jedi.core import clock
from jedi.core.knobs import Knobs


@dataclass(frozen=True, slots=True)
class Notification:
    """A message to one receiver. `topic` is the same at each delivery, so that receivers can drop
    duplicates."""

    topic: str
    address: str
    secret: str | None
    urgent: bool
    facts: Mapping[str, Any]


class Undelivered(Exception):
    """A message was not taken; `away`: nor would others be."""

    def __init__(self, sentence: str, *, away: bool) -> None:
        super().__init__(sentence)
        self.away = away


Deliver = Callable[[Notification], None]


@contextmanager
def open_channel(channel: str, knobs: Knobs) -> Iterator[Deliver]:
    """Open a channel that delivers messages one after the other, or raises Undelivered."""
    if channel == "mail":
        yield partial(_mail, knobs)
        return
    timeout_s = float(knobs.notify.timeout_s)
    with asyncio.Runner() as runner:
        # Without the environment's proxies and passwords: the URL is a user's.
        client = httpx2.AsyncClient(timeout=None, trust_env=False, follow_redirects=False)
        try:
            yield lambda message: runner.run(_post(client, timeout_s, message))
        finally:
            runner.run(client.aclose())


async def _post(client: httpx2.AsyncClient, timeout_s: float, message: Notification) -> None:
    """Post a message, signed as Standard Webhooks (standardwebhooks.com, version 1) wants it.

    The time is that of all together: who answers byte by byte has no more of it.
    """
    content = {"id": message.topic, "urgent": message.urgent, **message.facts}
    body = json.dumps(content).encode()
    sent = str(int(clock.now().timestamp()))
    headers = {
        "content-type": "application/json",
        "webhook-id": message.topic,
        "webhook-timestamp": sent,
        "webhook-signature": sign(message.secret or "", message.topic, sent, body),
    }
    post = client.stream("POST", message.address, content=body, headers=headers)
    try:
        # what it answers beyond the status is not read
        async with asyncio.timeout(timeout_s), post as answer:
            status = answer.status_code
    except TimeoutError as error:
        sentence = f"The receiver did not answer within {timeout_s:g} s."
        raise Undelivered(sentence, away=True) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise Undelivered(f"{type(error).__name__}: {error}", away=True) from error
    if not 200 <= status < 300:  # a redirect is not followed
        raise Undelivered(f"The receiver answered {status}.", away=status >= 500 or status == 429)


def sign(secret: str, topic: str, sent: str, body: bytes) -> str:
    """`v1,` and the base64 of the HMAC-SHA256 of id, time and body; secret: whsec_<base64>."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.digest(key, f"{topic}.{sent}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed).decode()}"


def _mail(knobs: Knobs, message: Notification) -> None:
    try:
        mail = email_of(str(knobs.notify.mail_from), message)
        with _relay(knobs) as server:
            server.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        raise Undelivered(str(error), away=False) from error
    except smtplib.SMTPAuthenticationError as error:
        raise Undelivered(str(error), away=True) from error
    except smtplib.SMTPResponseException as error:
        raise Undelivered(str(error), away=error.smtp_code < 500) from error
    except (smtplib.SMTPException, OSError) as error:  # a bad certificate is a ValueError, too
        raise Undelivered(f"{type(error).__name__}: {error}", away=True) from error
    except ValueError as error:  # of this message
        raise Undelivered(str(error), away=False) from error


@contextmanager
def _relay(knobs: Knobs) -> Iterator[smtplib.SMTP]:
    """The relay, ready to take mail. The password is read anew each time, and kept nowhere."""
    host, port = str(knobs.notify.smtp_host), int(knobs.notify.smtp_port)
    timeout_s, tls = float(knobs.notify.timeout_s), knobs.notify.smtp_tls
    user = str(knobs.notify.smtp_user)
    if user and tls == "none":
        raise Undelivered("No password is sent without TLS: set notify.smtp_tls.", away=True)
    context = ssl.create_default_context()
    server = (
        smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=context)
        if tls == "tls"
        else smtplib.SMTP(host, port, timeout=timeout_s)
    )
    with server:
        if tls == "starttls":
            server.starttls(context=context)
        if user:
            server.login(user, Path(knobs.notify.smtp_password_file).read_text().rstrip("\n"))
        yield server


def email_of(sender: str, message: Notification) -> EmailMessage:
    """A message as mail."""
    facts = message.facts
    job = f"job {facts['panda_id']} of " if facts["about"] == "job" else ""
    state = facts.get("pgi_state") or facts["status"]
    subject = f"JEDI: {job}task {facts['jedi_task_id']} ({facts['task_name']}) is {state}"
    mail = EmailMessage()
    mail["From"], mail["To"] = sender, message.address
    mail["Subject"] = " ".join(f"{'URGENT ' if message.urgent else ''}{subject}".split())
    mail["Message-ID"] = f"<{message.topic}@{sender.rpartition('@')[2]}>"
    mail["Date"] = clock.now()
    mail["Auto-Submitted"] = "auto-generated"
    if message.urgent:
        mail["Importance"] = "high"
    mail.set_content("".join(f"{key}: {_line(value)}\n" for key, value in facts.items() if value))
    return mail


def _line(value: Any) -> Any:
    """A fact as text; files to bring stand one on a line."""
    if not isinstance(value, list):
        return value
    files = (f"{one['dataset']}/{one['lfn']} to {one['endpoint']}" for one in value)
    return "".join(f"\n  {one}" for one in files)
