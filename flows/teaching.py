"""A teacher model served for a flow, behind a gateway that records and prices its calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tutti.tasks.runs import Run
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.run import open_bench
from tutti.tasks.synthesis import ServedTeacher
from tutti.tasks.synthesis.teacher import TeacherEndpoint, prices_of


@asynccontextmanager
async def serve_teacher(
    teacher: str, program: str, models: Path, run: Run
) -> AsyncIterator[ServedTeacher]:
    """Serve an entry of the registry for the block; `program` is what its calls belong to."""
    entries = pick_models(models, [teacher])
    async with open_bench(entries, None, run.catalog, run.log) as bench:
        services = await bench.services()
        url, name = f"{services.gateway.url}/v1", services.engine.address.served_name
        yield TeacherEndpoint(url, name, program=f"teacher-{program}"), prices_of(entries[teacher])
