"""The headers that a server's decisions depend on, and plain answers to refused requests."""

from tutti.tasks.serving.wire.exchange import RequestRefused
from tutti.tasks.serving.wire.messages import ByName, status_line

DECISIVE = frozenset(
    b"host origin content-type content-length transfer-encoding expect authorization "
    b"x-api-key".split()
)
"""Headers that the server's decisions depend on: each may be given only once."""

DECISIVE_NAMES = ByName[bytes | None](lambda lower: lower if lower in DECISIVE else None)
"""A header's name in lower case if it is decisive, else None."""


def plain_refusal(status: int) -> RequestRefused:
    """A refusal with the text of its status."""
    words = status_line(status).split(b" ", 2)[2].strip().lower()
    body = b'{"error": {"message": "%b", "type": "gateway_error", "code": %d}}' % (words, status)
    return RequestRefused(status, [(b"Content-Type", b"application/json")], body)
