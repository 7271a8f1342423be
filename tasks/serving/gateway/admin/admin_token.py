"""The admin token that a gateway generated, in a file that only its user can read.

The file exists while the gateway runs: ``TUTTI_HOME/gateway/admin-PORT.token``.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def token_file(folder: Path, port: int, token: str | None) -> Iterator[Path | None]:
    """Keep `token` in a file for the block's duration; without a token, do nothing.

    Raises OSError if it cannot be written.
    """
    if token is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"admin-{port}.token"
    path.unlink(missing_ok=True)  # of a gateway that was killed; its mode may differ
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
        yield path
    finally:
        path.unlink(missing_ok=True)
