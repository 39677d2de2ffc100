"""The caller's address behind proxies."""

from __future__ import annotations

import pytest
from support.calls import call

from jedi.agent.base import World
from jedi.core.addresses import forwarded_for, network_of, networks_of
from jedi.core.errors import BadInput
from jedi.core.settings import caller
from jedi.service.system import knobs
from jedi.taskbuffer.users.users import PUT_USER

PROXIES = networks_of("10.0.0.1 10.1.0.0/16 2001:db8::1")


@pytest.mark.parametrize(
    ("peer", "header", "address"),
    [
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.7", "198.51.100.7"),  # the caller forged 1.1.1.1
        ("10.0.0.1", "198.51.100.7, 10.1.2.3", "198.51.100.7"),  # two proxies of ours
        ("10.0.0.1", "10.1.2.3", "10.1.2.3"),  # a proxy itself asks
        ("10.0.0.1", "unknown, 198.51.100.7, 10.1.2.3", "198.51.100.7"),
        ("10.0.0.1", "unknown, 10.1.2.3", "10.1.2.3"),
        ("2001:db8::1", "2001:db8:1::9", "2001:db8:1::9"),
        ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "", None),
        ("10.0.0.1", "unix", None),
        ("198.51.100.9", "198.51.100.7", None),  # no proxy of ours
        ("unix", "198.51.100.7", None),
    ],
)
def test_only_proxies_of_ours_name_a_caller(peer: str, header: str, address: str | None) -> None:
    assert forwarded_for(peer, header, PROXIES) == address


def test_an_ipv6_network_is_one_caller() -> None:
    """A host chooses the last 64 bits of its address; else it would have a limit for each."""
    assert network_of("2001:db8:1::9") == network_of("2001:db8:1::a") == "2001:db8:1::/64"
    assert network_of("198.51.100.7") == "198.51.100.7"


def test_words_that_are_no_address_are_refused_and_count_as_unset(world: World) -> None:
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
        with pytest.raises(BadInput, match="front is neither an address nor a network"):
            knobs.put(call(tx, caller()), "api.proxies", "10.0.0.1 front")
        knobs.put(call(tx, caller()), "api.proxies", "10.0.0.1 10.1.0.0/16")
    assert networks_of("front 10.0.0.1") == networks_of("10.0.0.1")
