"""Rates of calls and of wrong tokens: token buckets, in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request

from jedi.api.connections import UNIX
from jedi.core import clock
from jedi.core.addresses import forwarded_for, network_of, networks_of
from jedi.core.errors import Forbidden, JediError
from jedi.core.knobs import Knobs
from jedi.taskbuffer.users.users import token_hash

NAMES_MOST = 10_000
"""Callers, or addresses, that have a bucket at a time."""

GOOD_MOST = 100_000
"""Good tokens that the service remembers."""

WRONG = ("bad_token", "bad_link", "bad_state", "access_denied")
"""Codes of refusals that count: of a token, a link of `jedi open`, an answer of a provider."""

Found = TypeVar("Found")


class TooManyCalls(JediError):
    """A caller asks more often than he may: later."""

    code = "too_many_calls"


class Buckets:
    """A token bucket for each name. A bucket in debt fills first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left: dict[str, tuple[float, float]] = {}
        """Tokens left, and the time of that figure."""

    def wait_s(self, name: str, per_s: float, burst: float) -> float:
        """Seconds until the bucket holds a whole token; 0: it does."""
        left = self._now_left(name, per_s, burst)
        return 0.0 if left >= 1 else round((1 - left) / per_s, 3)

    def take(self, name: str, per_s: float, burst: float) -> None:
        """Take a token out of the bucket, which may get into debt."""
        left, now = self._now_left(name, per_s, burst), self._now()
        if len(self._left) >= NAMES_MOST:
            self._left = {
                name: one
                for name, one in self._left.items()
                if one[0] + (now - one[1]) * per_s < burst
            }
        self._left[name] = (left - 1, now)

    def _now_left(self, name: str, per_s: float, burst: float) -> float:
        now = self._now()
        before, at = self._left.get(name, (burst, now))
        return min(burst, before + (now - at) * per_s)


class Rates:
    """The calls that each caller has left."""

    def __init__(self, now: Callable[[], float] = clock.monotonic) -> None:
        self._calls = Buckets(now)

    def take(self, caller: str, knobs: Knobs) -> None:
        """Count a call. TooManyCalls: the caller has none left; its facts say when he has."""
        per_s, burst = knobs.api.calls_per_s, float(knobs.api.calls_burst)
        if per_s <= 0:
            return
        if wait_s := self._calls.wait_s(caller, per_s, burst):
            raise TooManyCalls(
                f"{caller} makes more than {per_s:g} calls per second. Try again in {wait_s:g} s.",
                calls_per_s=per_s,
                retry_after_s=wait_s,
            )
        self._calls.take(caller, per_s, burst)


def caller_address(request: Request, proxies: str) -> str | None:
    """The address that `proxies` (knob api.proxies) forward; None: the peer is the caller."""
    if request.client is None or not proxies:
        return None
    header = ",".join(request.headers.getlist("x-forwarded-for"))
    return forwarded_for(request.client.host, header, networks_of(proxies))


class WrongTokens:
    """The wrong tokens, links and logins that each address may still send. Beyond them the service
    looks no unknown one up. A token that was good here before is never refused unseen: strangers
    lock nobody out who shares their address, such as that of a proxy."""

    def __init__(
        self, knobs: Callable[[], Knobs], now: Callable[[], float] = clock.monotonic
    ) -> None:
        self._knobs = knobs
        self._tries = Buckets(now)
        self._good: dict[str, None] = {}

    async def identify(
        self, request: Request, token: str, identify: Callable[[], Awaitable[Found]]
    ) -> Found:
        """The holder of a token, link or login, as `identify` finds it. Forbidden; TooManyCalls:
        the request's address has sent too many wrong ones."""
        api = self._knobs().api
        peer = request.client.host if request.client else ""
        address = network_of(caller_address(request, api.proxies) or peer)
        if peer == UNIX or api.wrong_tokens_per_s <= 0:
            return await identify()
        rate, known = (api.wrong_tokens_per_s, float(api.wrong_tokens_burst)), token_hash(token)
        wait_s = self._tries.wait_s(address, *rate)
        if wait_s and known not in self._good:
            raise TooManyCalls(
                f"{address} sends too many wrong tokens or links. Correct the token, or take a new "
                f"link, and try again in {wait_s:g} s.",
                code="too_many_wrong_tokens",
                retry_after_s=wait_s,
            )
        try:
            found = await identify()
        except Forbidden as error:
            if error.code in WRONG:
                self._good.pop(known, None)
                self._tries.take(address, *rate)
            raise
        if len(self._good) >= GOOD_MOST:
            self._good.clear()
        self._good[known] = None
        return found
