"""Keep pandas out of a gateway's process.

pyarrow imports pandas with the first row, although the gateway makes no data frame. The import
blocks all calls for half a second and takes 50 MB.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class WithoutPandas:
    """A module finder that reports pandas as missing."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("the gateway runs without pandas", name=name)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas for the block's duration."""
    sys.meta_path.insert(0, WithoutPandas)
    try:
        yield
    finally:
        sys.meta_path.remove(WithoutPandas)
