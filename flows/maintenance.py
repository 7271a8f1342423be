"""The flow `maintenance`: let old sweeps go, compact, verify. Runs with no arguments."""

import asyncio
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from prefect import flow
from pydantic import BaseModel, Field

from tutti.storage import open_catalog
from tutti.storage.maintenance import compact, expire, verify
from tutti.tasks.progress import StageLog, StageProgress


class MaintenanceParameters(BaseModel, frozen=True):
    """What to keep in order, and how."""

    older_than_days: float | None = Field(
        None, ge=0, description="Let go of sweeps last worked on so many days ago; none if empty"
    )
    dry_run: bool = Field(True, description="Only say which sweeps would go")
    repair: bool = Field(False, description="Move damaged and unknown files to quarantine/")
    grace_hours: float = Field(1.0, ge=0, description="How long replaced files stay for readers")


@flow(name="maintenance")
async def maintenance(
    parameters: MaintenanceParameters = MaintenanceParameters(),
) -> dict[str, Any]:
    """Keep the store in order; readers and writers go on meanwhile.

    Args:
        parameters: What to let go, and whether to repair.

    Returns what was let go, merged and found. Raises RuntimeError when something is left to repair.
    """
    log = StageLog()
    with open_catalog() as catalog:

        async def let_go(_: StageProgress) -> list[Any]:
            if parameters.older_than_days is None:
                return []
            age = timedelta(days=parameters.older_than_days)
            dry_run = parameters.dry_run
            return await asyncio.to_thread(expire, catalog, older_than=age, dry_run=dry_run)

        async def merge(progress: StageProgress) -> Any:
            grace_s = parameters.grace_hours * 3600
            show = progress.show
            return await asyncio.to_thread(compact, catalog, grace_s=grace_s, on_progress=show)

        async def check(progress: StageProgress) -> Any:
            repair = parameters.repair
            return await asyncio.to_thread(
                verify, catalog, repair=repair, on_progress=progress.show
            )

        expired = await log.run("let old sweeps go", let_go)
        compacted = await log.run("compact", merge)
        verified = await log.run("verify", check)
    left = [finding for finding in verified.findings if not finding.repaired]
    if left:
        raise RuntimeError(f"{len(left)} findings, first: {left[0].path}: {left[0].reason}")
    return {
        "expired": [asdict(each) for each in expired],
        "compacted": asdict(compacted),
        "verified": asdict(verified),
    }
