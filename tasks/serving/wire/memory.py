"""Return freed memory to the system: the C library keeps large blocks for itself."""

import ctypes
from functools import cache
from typing import Any


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none


def trim() -> None:
    """Return free memory to the system if the C library supports it; takes milliseconds."""
    function = _malloc_trim()
    if function is not None:
        function(0)
