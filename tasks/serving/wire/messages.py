"""Heads of HTTP messages: ordered lists of (name, value) in bytes."""

import time
import zlib
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

Headers = list[tuple[bytes, bytes]]

NAMES_KEPT, NAME_KEPT_BYTES = 1024, 64
Found = TypeVar("Found")


class ByName(dict[bytes, Found]):
    """A function of a header's name, in any case, cached because peers send the same few names."""

    def __init__(self, find: Callable[[bytes], Found]) -> None:
        """`find` gets the name in lower case."""
        super().__init__()
        self._find = find

    def __missing__(self, name: bytes) -> Found:
        found = self._find(name.lower())
        if len(self) < NAMES_KEPT and len(name) <= NAME_KEPT_BYTES:
            self[name] = found
        return found


HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade content-length host expect".split()
)
"""Headers that belong to one connection and are not forwarded."""

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


LOWERED = ByName[bytes](lambda lower: lower)


def status_line(status: int) -> bytes:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Status\r\n".encode()


def find(headers: Headers, name: bytes) -> bytes | None:
    """The first value of `name` (in lower case)."""
    for key, value in headers:
        if LOWERED[key] == name:
            return value
    return None


def end_to_end(headers: Headers) -> Headers:
    """The headers without those that belong to one connection."""
    return [header for header in headers if LOWERED[header[0]] not in HOP_BY_HOP]


def head(first_line: bytes, headers: Headers) -> bytes:
    """The bytes of a head, without the final blank line."""
    return first_line + b"".join([b"%b: %b\r\n" % header for header in headers])


GZIP = b"\x1f\x8b"


def unzipped(body: bytes, most_bytes: int) -> bytes:
    """Decompress a body that was compressed without a request for it; other bodies, and invalid
    ones, are returned unchanged."""
    if not body.startswith(GZIP):
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, most_bytes)
    except zlib.error:
        return body


def asked_pause_s(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date (RFC 9110, 10.2.3); 0 for a
    past date, None if the header is missing, neither or negative."""
    if header is None:
        return None
    try:
        seconds = float(header)
        return seconds if seconds >= 0 else None  # NaN is not
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
