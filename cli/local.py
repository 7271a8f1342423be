"""The verbs that do not need Prefect: they call the stages as plain functions."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tutti.cli.failures import UsageError
from tutti.storage import Catalog, open_catalog, query
from tutti.storage import catalog as cat
from tutti.tasks.progress import StageLog
from tutti.tasks.retrieval import build_index, load_stdlib_corpus, read_manifest
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.plan import make_tasks, open_library
from tutti.tasks.sweeps.run import open_bench
from tutti.tasks.synthesis import TaskRequest


def synthesize_tasks(
    families: tuple[str, ...], train: int, test: int, seed: int, as_json: bool
) -> str:
    """Make a task set and describe it. Raises ValidationError, ToolUnavailable, StoreError."""
    asked: dict[str, Any] = {"train_per_family": train, "test_per_family": test, "seed": seed}
    request = TaskRequest(**(asked | ({"families": families} if families else {})))

    async def work(catalog: Catalog) -> str:
        log = StageLog()
        async with open_library(catalog, log) as library:
            return await make_tasks(request, library, catalog, log)

    with open_catalog() as catalog:
        task_set = asyncio.run(work(catalog))
        rows = query(
            "select family, split, status, count(*) as n from tasks "
            f"where task_set_id = '{task_set}' group by all order by all",
            catalog.home,
        )
    if as_json:
        return json.dumps({"task_set_id": task_set, "counts": rows})
    lines = [f"{r['family']:16} {r['split']:6} {r['status']:10} {r['n']:5}" for r in rows]
    return "\n".join([task_set, *lines])


def build_stdlib_index(as_json: bool) -> str:
    """Build the index, or reuse it, and describe it."""
    with open_catalog() as catalog:
        folder = build_index(load_stdlib_corpus(), catalog)
    manifest = read_manifest(folder)
    if as_json:
        return json.dumps(manifest)
    recall = ", ".join(f"@{k.rsplit('_', 1)[1]} {v:.3f}" for k, v in manifest["recall"].items())
    return f"{manifest['index_id']}  {manifest['documents']} documents\nrecall {recall}\n{folder}"


def serve_model(name: str, models: Path, port: int | None, as_json: bool) -> None:
    """Serve until SIGINT or SIGTERM."""

    async def work(catalog: Catalog) -> None:
        log = StageLog()
        async with open_library(catalog, log) as library:
            entries = pick_models(models, (name,))
            async with open_bench(entries, library, catalog, log, port) as bench:
                services = await bench.services()
                url = services.gateway.url
                where = {"model": name, "url": f"{url}/v1", "search": library.search_url}
                words = f"{name} is served at {url}/v1; search at {library.search_url}"
                print(json.dumps(where) if as_json else words, flush=True)
                stopped = asyncio.Event()
                loop = asyncio.get_running_loop()
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(number, stopped.set)
                watch = asyncio.create_task(services.engine.watch())
                waiting = asyncio.create_task(stopped.wait())
                done, _ = await asyncio.wait({watch, waiting}, return_when=asyncio.FIRST_COMPLETED)
                for task in (watch, waiting):
                    task.cancel()
                if watch in done:
                    watch.result()

    with open_catalog() as catalog:
        asyncio.run(work(catalog))


def find_sweep(catalog: Catalog, wanted: str) -> str:
    """The id of a sweep given by id or name; the newest for "". Raises UsageError."""
    rows = catalog.rows(sa.select(cat.sweeps).order_by(cat.sweeps.c.created_at.desc()))
    for row in rows:
        if wanted in ("", row["sweep_id"], row["name"]):
            return str(row["sweep_id"])
    known = ", ".join(sorted({row["name"] for row in rows})) or "none yet; `tutti sweep run demo`"
    raise UsageError(f"no sweep {wanted!r}; known: {known}")


def show_status(wanted: str, as_json: bool) -> None:
    """Print the state and the sample counts of each cell."""
    with open_catalog() as catalog:
        chosen = "" if not wanted else f"and c.sweep_id = '{find_sweep(catalog, wanted)}'"
        rows = query(
            "select s.name as sweep, c.model, c.policy, c.concurrency, c.repeat, c.status, "
            "c.samples, count(distinct a.sample_id) filter (a.status != 'infra_error') as finished,"
            " count(*) filter (a.status = 'infra_error') as infra_errors, c.cell_id "
            "from cells c join sweeps s using (sweep_id) left join attempts a using (cell_id) "
            f"where c.status != 'superseded' {chosen} "
            "group by all order by sweep, c.repeat, any_value(c.position)",
            catalog.home,
        )
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print("no sweeps yet; run `tutti sweep run demo`")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for title in ("sweep", "model", "policy", "at", "repeat", "state", "finished", "infra"):
        table.add_column(title, no_wrap=True)
    for row in rows:
        names = (row["sweep"], row["model"], row["policy"], row["concurrency"], row["repeat"])
        counts = (f"{row['finished']} of {row['samples']}", row["infra_errors"])
        table.add_row(*map(str, (*names, row["status"], *counts)))
    Console().print(table)
