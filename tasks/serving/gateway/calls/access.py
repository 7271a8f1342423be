"""Access control: bearer tokens with scopes, budgets, and the hosts that may be added as engines.

Tokens come from the environment (`TUTTI_GATEWAY_TOKENS`), separated by spaces:
``name:scopes:token`` or ``name:scopes:token:usd`` with scopes (call, read, admin) joined by ``+``.
Only their hashes are stored. Without tokens everybody on this machine may call and read; the admin
scope always needs a token. A client that adds an engine makes the gateway connect to a host and
send it a key: `Targets` allows public addresses and those listed by the operator. The address is
checked at each connection, because a name may resolve differently later.
"""

import hashlib
import ipaddress
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tutti.errors import ExitCode, TuttiError
from tutti.storage import Cost
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig
from tutti.tasks.serving.scheduling import Program
from tutti.tasks.serving.wire.client import Permits
from tutti.tasks.serving.wire.screen import AccessDenied, SiteGuard

TOKENS_VARIABLE = "TUTTI_GATEWAY_TOKENS"
ADMIN_VARIABLE = "TUTTI_GATEWAY_ADMIN_TOKEN"
"""The admin token to use instead of a generated one: set by a parent process that controls its
gateway."""
ADMIN_NAME = "admin"
SCOPES = frozenset(("call", "read", "admin"))
LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
TOKEN_BYTES = 32


class AccessError(TuttiError, ValueError):
    """The tokens are invalid, or the gateway would be open to a network."""

    exit_code = ExitCode.BAD_USAGE


@dataclass
class UsdBudget:
    """A limit in USD, and the amount spent."""

    limit_usd: float | None = None
    cost: Cost = field(default_factory=Cost)
    estimated_usd: float = 0.0
    """Estimate for the calls of unknown cost; 0 for those without a price."""

    def spend(self, usd: float | None, estimate_usd: float) -> bool:
        """Add a call. Return whether it is the first of unknown cost under a limit."""
        self.cost.add(usd)
        if usd is not None:
            return False
        self.estimated_usd += estimate_usd
        return self.limit_usd is not None and self.cost.unknown == 1

    @property
    def is_spent(self) -> bool:
        spent_usd = self.cost.known_usd + self.estimated_usd
        return self.limit_usd is not None and spent_usd >= self.limit_usd

    def __str__(self) -> str:
        spent = f"{self.cost:.2f} USD"
        if self.cost.unknown:
            spent += f" and about {self.estimated_usd:.2f} of {self.cost.unknown} unknown costs"
        return f"{self.limit_usd:.2f} USD ({spent})"


@dataclass
class Key:
    """The holder of a token, or an anonymous client."""

    name: str
    scopes: frozenset[str]
    has_token: bool = True
    """Whether its requests carry a token of this gateway, which is never forwarded to engines."""
    budget: UsdBudget = field(default_factory=UsdBudget)

    @property
    def is_admin(self) -> bool:
        """Whether it may change cells, engines and other clients' programs."""
        return "admin" in self.scopes

    def check_owner(self, program: Program | None) -> None:
        """Raise AccessDenied if the program belongs to another key."""
        if program is not None and program.key != self.name and not self.is_admin:
            raise AccessDenied(403, f"the program {program.program_id!r} belongs to another token")


class Access:
    """All keys, the run's budget, and the host names that browsers may use."""

    def __init__(
        self,
        tokens: str,
        budget_usd: float | None = None,
        admin_token: str | None = None,
        hosts: Iterable[str] = (),
    ) -> None:
        """`admin_token` is used if `tokens` has no admin; `hosts` are names besides this machine's.
        Raises AccessError, whose message never contains a token."""
        given = [_key(text, place) for place, text in enumerate(tokens.split())]
        names = [key.name for key, _ in given]
        if len(set(names)) < len(names):
            raise AccessError(f"{TOKENS_VARIABLE}: a name is used twice: {', '.join(names)}")
        self.is_open = not given
        self.token_to_show: str | None = None
        if not any(key.is_admin for key, _ in given):
            if ADMIN_NAME in names:
                raise AccessError(f"{TOKENS_VARIABLE}: {ADMIN_NAME!r} needs the scope admin")
            made = admin_token or secrets.token_urlsafe(TOKEN_BYTES)
            self.token_to_show = None if admin_token else made
            given.append((Key(ADMIN_NAME, SCOPES), _digest(made.encode())))
        # Looked up by a digest, so that the lookup time reveals nothing about a token.
        self._keys = {digest: key for key, digest in given}
        self.everybody = Key("", SCOPES - {"admin"}, has_token=False)
        self.budget = UsdBudget(budget_usd)
        self.site = SiteGuard(hosts, any_host=not self.is_open)

    @classmethod
    def of_environment(cls, budget_usd: float | None = None, hosts: Iterable[str] = ()) -> "Access":
        """Read the tokens from the environment. Raises AccessError."""
        admin = os.environ.get(ADMIN_VARIABLE, "").strip() or None
        return cls(os.environ.get(TOKENS_VARIABLE, ""), budget_usd, admin, hosts)

    def check_host(self, host: str) -> None:
        """Raise AccessError for a network address if no token is set."""
        if host not in LOOPBACK and self.is_open:
            raise AccessError(
                f"--host {host} can be reached from the network and no token is set; set "
                f"{TOKENS_VARIABLE} (name:scopes:token), or listen on 127.0.0.1"
            )

    def admit(self, known: Mapping[bytes, bytes], scope: str) -> Key:
        """Return the key of a request. Raises AccessDenied."""
        found = None
        if b"authorization" in known:
            authorization = known[b"authorization"]
            scheme, _, token = authorization.partition(b" ")
            if scheme.lower() == b"bearer":
                found = self._keys.get(_digest(token.strip()))
        if found is None and b"x-api-key" in known:
            found = self._keys.get(_digest(known[b"x-api-key"]))
        if found is None:
            if not self.is_open or scope not in self.everybody.scopes:
                raise AccessDenied(
                    401, f"a bearer token of this gateway with the scope {scope} is needed"
                )
            return self.everybody
        if scope not in found.scopes:
            raise AccessDenied(403, f"the token {found.name!r} has no scope {scope!r}")
        return found

    def check_budget(self, key: Key) -> None:
        """Raise AccessDenied if the run's or the key's budget is spent."""
        if self.budget.is_spent:
            raise AccessDenied(402, f"the run's budget of {self.budget} is spent")
        if key.budget.is_spent:
            raise AccessDenied(402, f"the budget of {key.name!r}, {key.budget}, is spent")

    def spend(self, key: Key, usd: float | None, estimate_usd: float) -> bool:
        """Add a call's cost to the run and the key. `estimate_usd` is counted if the cost is
        unknown. Return whether it is the first such call under a budget."""
        return any([each.spend(usd, estimate_usd) for each in (self.budget, key.budget)])


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _key(text: str, place: int) -> tuple[Key, bytes]:
    name, scopes, token, budget = (*text.split(":"), "", "", "")[:4]
    wanted = frozenset(scopes.split("+"))
    if not name or not token or not wanted <= SCOPES:
        raise AccessError(  # never shows the text itself: it contains the secret
            f"{TOKENS_VARIABLE}: entry {place + 1} must be name:scopes:token with scopes of "
            f"{'+'.join(sorted(SCOPES))}"
        )
    try:
        most = float(budget) if budget else None
    except ValueError:
        raise AccessError(f"{TOKENS_VARIABLE}: the budget of {name!r} is not a number") from None
    return Key(name, wanted, budget=UsdBudget(most)), _digest(token.encode())


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
        name. Raises ValueError for a key or an address that is not listed."""
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
