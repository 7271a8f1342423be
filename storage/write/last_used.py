"""Values by name, as many as fit in a bound of memory: those used last."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """What knows its memory."""

    @property
    def size(self) -> int:
        """Bytes, as an estimate."""
        ...


Value = TypeVar("Value", bound=Sized)


class LastUsed(Generic[Value]):
    """The values put last, with at most `max_bytes` together; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._known: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> Value | None:
        """The value of that name, if it is known."""
        found = self._known.get(name)
        return found[0] if found is not None else None

    def put(self, name: str, value: Value) -> None:
        """Enter a value, or one that was used and has grown, as the last; the first ones beyond the
        bound are forgotten, `value` itself if it alone is larger."""
        size = value.size
        with self._lock:
            _, before = self._known.get(name, (None, 0))
            self._known[name] = value, size
            self._known.move_to_end(name)
            self._bytes += size - before
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._known)))

    def forget(self, name: str) -> None:
        """Forget a value that will not be used again, if it is known."""
        with self._lock:
            self._drop(name)

    def _drop(self, name: str) -> None:
        _, size = self._known.pop(name, (None, 0))
        self._bytes -= size
