"""How messages leave the house: posted to a webhook, or mailed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import smtplib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from functools import partial
from typing import Any

import httpx

from jedi.core import clock
from jedi.core.knobs import Knobs


@dataclass(frozen=True, slots=True)
class Message:
    """What one receiver is told. `topic` is the same whenever it is delivered: receivers drop what
    they have had."""

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


Deliver = Callable[[Message], None]


@contextmanager
def courier(channel: str, knobs: Knobs) -> Iterator[Deliver]:
    """What delivers messages, one after the other, or raises Undelivered."""
    timeout_s = float(knobs["notify.timeout_s"])
    if channel == "mail":
        relay = str(knobs["notify.smtp_host"]), int(knobs["notify.smtp_port"])
        yield partial(_mail, relay, str(knobs["notify.mail_from"]), timeout_s)
        return
    # Without the environment's proxies and passwords: the URL is a user's.
    with httpx.Client(timeout=timeout_s, trust_env=False, follow_redirects=False) as client:
        yield partial(_post, client)


def _post(client: httpx.Client, message: Message) -> None:
    """Post a message, signed as Standard Webhooks (standardwebhooks.com, version 1) wants it."""
    told = {"id": message.topic, "urgent": message.urgent, **message.facts}
    body = json.dumps(told).encode()
    sent = str(int(clock.now().timestamp()))
    headers = {
        "content-type": "application/json",
        "webhook-id": message.topic,
        "webhook-timestamp": sent,
        "webhook-signature": sign(message.secret or "", message.topic, sent, body),
    }
    try:
        # what it answers beyond the status is not read
        with client.stream("POST", message.address, content=body, headers=headers) as answer:
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise Undelivered(f"{type(error).__name__}: {error}", away=True) from error
    if not 200 <= status < 300:  # a redirect is not followed
        raise Undelivered(f"The receiver answered {status}.", away=status >= 500 or status == 429)


def sign(secret: str, topic: str, sent: str, body: bytes) -> str:
    """`v1,` and the base64 of the HMAC-SHA256 of id, time and body; secret: whsec_<base64>."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.digest(key, f"{topic}.{sent}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed).decode()}"


def _mail(relay: tuple[str, int], sender: str, timeout_s: float, message: Message) -> None:
    try:
        with smtplib.SMTP(*relay, timeout=timeout_s) as server:
            server.send_message(letter(sender, message))
    except smtplib.SMTPRecipientsRefused as error:
        raise Undelivered(str(error), away=False) from error
    except smtplib.SMTPResponseException as error:
        raise Undelivered(str(error), away=error.smtp_code < 500) from error
    except ValueError as error:  # of this letter
        raise Undelivered(str(error), away=False) from error
    except (smtplib.SMTPException, OSError) as error:
        raise Undelivered(f"{type(error).__name__}: {error}", away=True) from error


def letter(sender: str, message: Message) -> EmailMessage:
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
    mail.set_content("".join(f"{key}: {value}\n" for key, value in facts.items() if value))
    return mail
