"""Run: ``python -m tutti.tasks.serving.gateway --help``. Serves until SIGTERM or SIGINT."""

import argparse
import sys
from pathlib import Path

import uvloop

from tutti.storage import Catalog, StoreError, open_catalog
from tutti.tasks.serving.errors import ServingError
from tutti.tasks.serving.gateway.access import Access
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.command import read_engines, read_policy, read_prices, serve
from tutti.tasks.serving.gateway.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.settings import Settings


def main() -> int:
    """Parse, listen, serve."""
    sys.meta_path.insert(0, WithoutPandas)
    given = _arguments()
    try:
        endpoints = read_engines(given.engine)
        settings = Settings(
            policy=given.policy,
            options=read_policy(given.policy, given.option, given.limit),
            hold_s=given.hold_s,
            max_held=given.max_held,
            record_tokens=given.record_tokens,
            all_events=given.all_events,
            prices=read_prices(given.prices),
        )
        access = Access.of_environment(given.budget_usd)
        with open_catalog() as catalog:
            uvloop.run(_serve(catalog, settings, access, given, endpoints))
    except (ValueError, OSError, StoreError, ServingError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        return 1
    return 0


class WithoutPandas:
    """A finder of modules that knows one only, and that it is not there.

    pyarrow imports pandas at the first row, though nothing here makes a frame: half a second in
    which no call is answered, and 50 MB.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for pandas; others find the rest."""
        if name == "pandas":
            raise ModuleNotFoundError("the gateway does without pandas", name=name)


async def _serve(
    catalog: Catalog,
    settings: Settings,
    access: Access,
    given: argparse.Namespace,
    endpoints: list[EndpointConfig],
) -> None:
    journal = None
    if not given.no_journal:
        journal = Path(str(catalog.home)) / "gateway" / f"programs-{given.port}.jsonl"

    def ready(port: int, token: Path | None) -> None:
        print(f"gateway on http://{given.host}:{port}", flush=True)
        if token is not None:
            print(f"admin token in {token}", flush=True)

    await serve(
        Gateway(catalog, settings, access, journal), given.host, given.port, endpoints, ready
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The program-aware gateway before engines.")
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        metavar="URL|ID=URL|JSON",
        help="an engine's base URL without /v1; may be repeated, and added later by POST /engines",
    )
    parser.add_argument("--policy", default="adaptive", help="the scheduling rule")
    parser.add_argument("--limit", type=int, help="programs at once, for the policy cap")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="a policy's option"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen")
    parser.add_argument("--port", type=int, required=True, help="0 for any free one")
    parser.add_argument("--hold-s", type=float, default=300.0, help="longest hold, then 503")
    parser.add_argument("--max-held", type=int, default=20_000, help="most held calls, then 503")
    parser.add_argument("--budget-usd", type=float, help="what the run may spend")
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="price book; else deployments/prices.yaml"
    )
    parser.add_argument("--record-tokens", action="store_true", help="ask for ids and log probs")
    parser.add_argument("--all-events", action="store_true", help="record every event of a call")
    parser.add_argument("--no-journal", action="store_true", help="forget programs when killed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
