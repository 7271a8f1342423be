"""Who may do what: bearer tokens with scopes, and what may be spent.

Tokens come from the environment (`TUTTI_GATEWAY_TOKENS`), one after the other, separated by
spaces: ``name:scopes:token`` or ``name:scopes:token:usd`` with scopes joined by ``+``. Only their
hashes are kept. Scopes: ``call`` (models), ``read`` (health, programs, metrics), ``admin`` (cells,
engines, releases of others).
"""

import hashlib
import hmac
from dataclasses import dataclass

from tasks.serving.scheduling import Program
from tasks.serving.wire.messages import Headers, find

TOKENS_VARIABLE = "TUTTI_GATEWAY_TOKENS"
SCOPES = frozenset(("call", "read", "admin"))
LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))


class AccessError(ValueError):
    """The tokens make no sense, or the gateway would stand open to a network."""


class Denied(Exception):
    """No, with the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Key:
    """A holder of a token."""

    name: str
    scopes: frozenset[str]
    digest: bytes
    budget_usd: float | None = None
    spent_usd: float = 0.0

    def check_owner(self, program: Program | None) -> None:
        """Raises Denied where the program is another's."""
        if program is not None and program.key != self.name and "admin" not in self.scopes:
            raise Denied(403, f"the program {program.program_id!r} belongs to another token")


class Access:
    """All keys, and what the run may spend."""

    def __init__(self, tokens: str, budget_usd: float | None = None) -> None:
        self.keys = [_key(text, place) for place, text in enumerate(tokens.split())]
        names = [key.name for key in self.keys]
        if len(set(names)) < len(names):
            raise AccessError(f"{TOKENS_VARIABLE}: a name is there twice: {', '.join(names)}")
        self.everybody = Key("", SCOPES, b"")
        self.budget_usd, self.spent_usd = budget_usd, 0.0

    def check_host(self, host: str) -> None:
        """Raises AccessError where others could reach a gateway that asks for no token."""
        if host not in LOOPBACK and not self.keys:
            raise AccessError(
                f"--host {host} can be reached from the network and no token is set; set "
                f"{TOKENS_VARIABLE} (name:scopes:token), or listen on 127.0.0.1"
            )

    def admit(self, headers: Headers, scope: str) -> Key:
        """The key that a request holds. Raises Denied."""
        if not self.keys:
            return self.everybody
        given = find(headers, b"authorization") or b""
        token = given.removeprefix(b"Bearer ").strip() or find(headers, b"x-api-key") or b""
        digest = hashlib.sha256(token).digest()
        found = None
        for key in self.keys:  # all of them: how long it takes tells nothing
            if hmac.compare_digest(key.digest, digest):
                found = key
        if found is None:
            raise Denied(401, "a bearer token that this gateway knows is needed")
        if scope not in found.scopes:
            raise Denied(403, f"the token {found.name!r} has no scope {scope!r}")
        return found

    def check_budget(self, key: Key) -> None:
        """Raises Denied when the run's or the key's money is spent."""
        if self.budget_usd is not None and self.spent_usd >= self.budget_usd:
            raise Denied(402, f"the run's budget of {self.budget_usd:.2f} USD is spent")
        if key.budget_usd is not None and key.spent_usd >= key.budget_usd:
            raise Denied(402, f"the budget of {key.name!r}, {key.budget_usd:.2f} USD, is spent")

    def spend(self, key: Key, usd: float) -> None:
        """A call cost so much."""
        self.spent_usd += usd
        key.spent_usd += usd


def _key(text: str, place: int) -> Key:
    name, scopes, token, budget = (*text.split(":"), "", "", "")[:4]
    wanted = frozenset(scopes.split("+"))
    if not name or not token or not wanted <= SCOPES:
        raise AccessError(  # never with the text itself: it holds the secret
            f"{TOKENS_VARIABLE}: entry {place + 1} must be name:scopes:token with scopes of "
            f"{'+'.join(sorted(SCOPES))}"
        )
    try:
        most = float(budget) if budget else None
    except ValueError:
        raise AccessError(f"{TOKENS_VARIABLE}: the budget of {name!r} is no number") from None
    return Key(name, wanted, hashlib.sha256(token.encode()).digest(), most)
