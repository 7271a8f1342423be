"""Generates a set, for tests without an event loop."""

import asyncio

from tutti.storage import Catalog
from tutti.tasks.task_sets import Show, Source, make_set


def made_set(source: Source, catalog: Catalog, show: Show = lambda done, total, note: None) -> str:
    """Generate or reuse the set and return its id."""
    return asyncio.run(make_set(source, catalog, show))
