"""Which hosts and keys are allowed for engines added over HTTP.

A client that adds an engine makes the gateway connect to a host and send it a key. So the operator
lists the allowed ones on the command line. Loopback, private and link-local addresses (cloud
machines serve credentials there) are refused unless listed. The check is of the address at each
connection, because a name may resolve differently later.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from tutti.tasks.serving.gateway.endpoint import EndpointConfig
from tutti.tasks.serving.wire.client import Permits

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.ip_network("64:ff9b::/96")
GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
"""All that was ever given out. Python's `is_global` also takes fec0::/10 (site-local), ::/96
(::127.0.0.1) and 64:ff9b:1::/48 (a network's own NAT64)."""
NOT_PUBLIC = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32"))
)
"""Metadata of Oracle's machines, relays of 6to4, Azure's host: global by Python's list."""


class Targets:
    """Hosts and keys that the operator allows for engines added over HTTP."""

    def __init__(self, hosts: Iterable[str] = (), keys: Iterable[str] = ()) -> None:
        """`hosts`: names, addresses or networks (10.0.0.0/8); `keys`: environment variables."""
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self.keys = frozenset(keys)
        for host in hosts:
            self.list_host(host)

    def list_host(self, host: str) -> None:
        """Allow a name, an address or a network."""
        try:
            self._networks.append(ipaddress.ip_network(host, strict=False))
        except ValueError:
            self._names.add(host.lower())

    def check(self, config: EndpointConfig) -> Permits | None:
        """A filter of the addresses that an engine may connect to; None if its host is listed by
        name.

        Raises ValueError for a key or an address that is not listed.
        """
        key = config.api_key_env
        if key is not None and key not in self.keys:
            raise ValueError(
                f"api_key_env: {key} is not listed; start the gateway with --engine-key {key}"
            )
        host = (urlsplit(config.url).hostname or "").lower()
        if host in self._names:
            return None
        if _address(host) is not None and not self.permits(host):
            raise ValueError(
                f"url: {host} is not a public address; start the gateway with --allow-engine {host}"
            )
        return self.permits

    def permits(self, address: str) -> bool:
        """Whether an address is public or listed."""
        found = _address(address)
        if found is None:
            return False
        if any(found in network for network in self._networks):
            return True
        refused = any(found in network for network in NOT_PUBLIC)
        given_out = found.version == 4 or found in GLOBAL_IPV6
        return given_out and not refused and found.is_global and not found.is_multicast


def _address(text: str) -> Address | None:
    """The address in a host name, unwrapped if it is IPv4 in IPv6; None for a name."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found in NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        return found.ipv4_mapped or found.sixtofour or found
    return found
