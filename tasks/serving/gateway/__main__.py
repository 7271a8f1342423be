"""The gateway process that sweeps and benchmarks start: ``python -m tutti.tasks.serving.gateway
--help``.

It takes the options of `tutti gateway` except the model registry, prints its URL, and serves until
SIGTERM or SIGINT.
"""

import sys
from pathlib import Path

import uvloop

from tutti.storage import Catalog, StoreError, open_catalog
from tutti.tasks.serving.errors import ServingError
from tutti.tasks.serving.gateway.admin.access import Access
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.command import (
    access_of,
    journal_path,
    read_engines,
    serve,
    settings_of,
)
from tutti.tasks.serving.gateway.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.no_pandas import without_pandas
from tutti.tasks.serving.gateway.options import GatewayOptions
from tutti.tasks.serving.gateway.settings import Settings


def main() -> int:
    """Parse, listen, serve."""
    options = GatewayOptions.parse()
    try:
        with without_pandas():
            endpoints = read_engines(options.engine)
            settings, access = settings_of(options), access_of(options)
            with open_catalog() as catalog:
                uvloop.run(_serve(catalog, settings, access, options, endpoints))
    except (ValueError, OSError, StoreError, ServingError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(
    catalog: Catalog,
    settings: Settings,
    access: Access,
    options: GatewayOptions,
    endpoints: list[EndpointConfig],
) -> None:
    def ready(port: int, token: Path | None) -> None:
        print(f"gateway on http://{options.host}:{port}", flush=True)
        if token is not None:
            print(f"admin token in {token}", flush=True)

    journal = None if options.no_journal else journal_path(catalog.home, options.port)
    gateway = Gateway(catalog, settings, access, journal)
    await serve(gateway, options.host, options.port, endpoints, ready)


if __name__ == "__main__":
    sys.exit(main())
