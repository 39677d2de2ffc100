"""Delivery of notifications to users; see taskbuffer/users/outbox.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from jedi.agent.base import World
from jedi.core import clock, webhookkey
from jedi.core.errors import NotFound
from jedi.core.knobs import Knobs
from jedi.host.home import Home
from jedi.taskbuffer.users import outbox
from jedi.taskbuffer.users.outbox import OutgoingMessage
from jedi.watchdog import delivery
from jedi.watchdog.delivery import Notification, Undelivered
from jedi.watchdog.dog import Counts, Dog

RECEIVERS = 8
"""Told at the same time."""
AT_ONCE = 200
PATIENCE = 3
"""A receiver gets so many times the time-out of one message in a turn: others wait for the next."""
_NOT_TRIED = "The receiver did not take an earlier message, or was slow."


def run(world: World) -> Counts:
    """At least once: who dies after a delivery leaves the message to be delivered again. All
    messages to a receiver that is away wait with the first of them."""
    knobs, counts = world.knobs, Counts()
    key = cache(lambda: webhookkey.key_of(Home(world.settings.home).webhook_key))
    channels = ["webhook", "mail"] if knobs.notify.smtp_host else ["webhook"]
    waits = float(knobs.notify.retry_s), float(knobs.notify.longest_retry_s)
    while True:
        with world.engine.begin() as tx:
            found = outbox.claim(tx, channels, *waits, AT_ONCE)
        if not found:
            return counts
        receivers = defaultdict(list)
        for row in found:
            receivers[row.channel, row.channel == "mail" or row.user_name].append(row)
        with ThreadPoolExecutor(RECEIVERS) as pool:
            delivered = pool.map(lambda rows: list(_tell(knobs, key, rows)), receivers.values())
            results = [result for some in delivered for result in some]
        with world.engine.begin() as tx:
            outbox.note(tx, results)
        failed = sum(error is not None for _, error in results)
        counts += Counts(delivered=len(results) - failed, undelivered=failed)


def _tell(
    knobs: Knobs, key: Callable[[], bytes], rows: Sequence[OutgoingMessage]
) -> Iterator[tuple[int, str | None]]:
    """Deliver messages to one receiver; for each None, or why it could not be delivered."""
    away, until = False, clock.monotonic() + PATIENCE * float(knobs.notify.timeout_s)
    with delivery.open_channel(rows[0].channel, knobs) as deliver:
        for row in rows:
            if away or clock.monotonic() > until:
                yield row.message_id, _NOT_TRIED
                continue
            try:
                deliver(_message(row, key))
            except NotFound as error:
                yield row.message_id, error.sentence
            except Undelivered as error:
                away = error.away
                yield row.message_id, str(error)[:500]
            else:
                yield row.message_id, None


def _message(row: OutgoingMessage, key: Callable[[], bytes]) -> Notification:
    salt = row.salt if row.channel == "webhook" else None
    secret = webhookkey.secret(key(), row.user_name, salt) if salt else None
    return Notification(row.topic, row.address, secret, row.urgent, row.payload)


DOG = Dog(
    "notifier",
    "watchdog.notifier_period_s",
    "users get their notifications",
    run,
    outbox.ANY_OPEN.value,
)
