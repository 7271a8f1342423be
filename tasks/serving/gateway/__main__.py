"""The gateway process that sweeps and benchmarks start: ``python -m tutti.tasks.serving.gateway
--help``.

It takes the options of `tutti gateway` except the model registry, prints its URL, and serves until
SIGTERM or SIGINT.
"""

import sys
from functools import partial
from pathlib import Path

import uvloop

from tutti.storage import StoreError, open_catalog
from tutti.tasks.serving.errors import ServingError
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.command import (
    access_of,
    journal_path,
    read_engines,
    serve,
    without_pandas,
)
from tutti.tasks.serving.gateway.settings import GatewaySettings


def main() -> int:
    settings = GatewaySettings.parse()
    try:
        with without_pandas():
            endpoints, access = read_engines(settings.engine), access_of(settings)
            with open_catalog() as catalog:
                journal = None if settings.no_journal else journal_path(catalog.home, settings.port)
                gateway = Gateway(catalog, settings, access, journal)
                uvloop.run(serve(gateway, endpoints, partial(_ready, settings.host)))
    except (ValueError, OSError, StoreError, ServingError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        return 1
    return 0


def _ready(host: str, port: int, token: Path | None) -> None:
    print(f"gateway on http://{host}:{port}", flush=True)
    if token is not None:
        print(f"admin token in {token}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
