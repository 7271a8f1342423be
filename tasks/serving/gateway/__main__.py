"""Run: ``python -m tasks.serving.gateway --help``. Serves on loopback until SIGTERM."""

import argparse
import json

import uvloop
from aiohttp import web

from storage import open_catalog
from tasks.serving.engine import EngineAddress
from tasks.serving.gateway.app import Gateway
from tasks.serving.registry import Prices


def main() -> None:
    """Parse, listen, serve."""
    parser = argparse.ArgumentParser(description="The program-aware gateway before one engine.")
    parser.add_argument("--engine-url", required=True, help="base URL without /v1")
    parser.add_argument("--engine-id", required=True, help="id recorded with every call")
    parser.add_argument("--served-name", required=True, help="the model's name at the engine")
    parser.add_argument("--prices", default="{}", help="USD per million tokens, JSON")
    parser.add_argument("--record-tokens", action="store_true", help="ask for ids and log probs")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    address = EngineAddress(given.engine_id, given.engine_url, given.served_name)
    with open_catalog() as catalog:
        prices = Prices(**json.loads(given.prices))
        gateway = Gateway(address, catalog, prices, record_tokens=given.record_tokens)
        web.run_app(
            gateway.application(),
            host="127.0.0.1",
            port=given.port,
            loop=uvloop.new_event_loop(),
            print=None,
            access_log=None,
            shutdown_timeout=2.0,
            # Without it a client that goes away keeps its place, and its call is made for nobody.
            handler_cancellation=True,
        )


if __name__ == "__main__":
    main()
