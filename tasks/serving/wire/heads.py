"""The headers that a server's decisions depend on, and plain answers to refused requests."""

from tutti.tasks.serving.wire.exchange import RequestRefused
from tutti.tasks.serving.wire.messages import lowered, status_line

NAMES_KEPT, NAME_KEPT_BYTES = 1024, 64
DECISIVE = frozenset(
    b"host origin content-type content-length transfer-encoding expect authorization "
    b"x-api-key".split()
)
"""Headers that the server's decisions depend on: each may be given only once."""

_DECISIVE_NAMES: dict[bytes, bytes | None] = {}


def decisive_name(name: bytes) -> bytes | None:
    """A header's name in lower case if it is decisive, else None; cached, as clients send the same
    few."""
    try:
        return _DECISIVE_NAMES[name]
    except KeyError:
        lower = lowered(name)
        found = lower if lower in DECISIVE else None
        if len(_DECISIVE_NAMES) < NAMES_KEPT and len(name) <= NAME_KEPT_BYTES:
            _DECISIVE_NAMES[name] = found
        return found


def plain_refusal(status: int) -> RequestRefused:
    """A refusal with the text of its status."""
    words = status_line(status).split(b" ", 2)[2].strip().lower()
    body = b'{"error": {"message": "%b", "type": "gateway_error", "code": %d}}' % (words, status)
    return RequestRefused(status, [(b"Content-Type", b"application/json")], body)
