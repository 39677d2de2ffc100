"""Addresses: of callers behind proxies, and of the loopback interface."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from jedi.core.errors import BadInput, Problem

Network = IPv4Network | IPv6Network
CALLER_BITS = 64
"""Bits of an IPv6 address that name a caller: a network gives its host the rest to choose from."""


def must_be_networks(name: str, value: str) -> None:
    """BadInput: a word of the knob `name` is neither an address nor a network."""
    wrong = [word for word in value.split() if not networks_of(word)]
    if wrong:
        rule = f"{wrong[0]} is neither an address nor a network"
        raise BadInput([Problem(name, value, rule, "Write 127.0.0.1 10.0.0.0/8, say")])


def loopback(name: str, value: str) -> tuple[str, int]:
    """The address and the port of the knob `name`, on the loopback interface. BadInput."""
    host, _, port = value.rpartition(":")
    ip = _address("127.0.0.1" if host == "localhost" else host)
    if not (
        isinstance(ip, IPv4Address)
        and ip.is_loopback
        and port.isascii()
        and port.isdecimal()
        and int(port) < 65_536
    ):
        rule = "is no address and port of the loopback interface"
        raise BadInput([Problem(name, value, rule, "Write 127.0.0.1:8765")])
    return str(ip), int(port)


@lru_cache(maxsize=16)
def networks_of(words: str) -> tuple[Network, ...]:
    """The networks that words separated by blanks name. Invalid words count as unset."""
    networks = []
    for word in words.split():
        with suppress(ValueError):
            networks.append(ip_network(word, strict=False))
    return tuple(networks)


def forwarded_for(peer: str, header: str, proxies: tuple[Network, ...]) -> str | None:
    """The address for which `proxies` forward a request: the last one of X-Forwarded-For that is
    none of theirs. None: the peer is another host, or names no address. Callers may begin the
    header as they like; each proxy adds the address that it sees."""
    caller, seen = None, _address(peer)
    words = header.split(",")
    while seen and any(seen in network for network in proxies) and words:
        seen = _address(words.pop().strip())
        caller = str(seen) if seen else caller
    return caller


def network_of(address: str) -> str:
    """The network that counts as one caller: an IPv4 address, or the first half of an IPv6 one."""
    ip = _address(address)
    if isinstance(ip, IPv6Address):
        return str(ip_network((int(ip), CALLER_BITS), strict=False))
    return address


def _address(word: str) -> IPv4Address | IPv6Address | None:
    try:
        ip = ip_address(word)
    except ValueError:
        return None
    return (ip.ipv4_mapped if isinstance(ip, IPv6Address) else None) or ip
