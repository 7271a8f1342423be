"""The flow `maintenance`: remove old sweeps, compact, verify. Runs with no arguments."""

import asyncio
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from prefect import flow
from pydantic import BaseModel, Field

from tutti.storage import Catalog
from tutti.storage.maintenance import compact, expire, verify
from tutti.tasks.platform.progress import StageProgress, leave_table, open_run, stage

FINDINGS_SHOWN = 100
"""In the artifact; the flow's result has all of them."""


class MaintenanceParameters(BaseModel, frozen=True):
    """The parameters of a maintenance run."""

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
    with open_run("maintenance", parameters.model_dump(mode="json")) as run:
        expired = await expire_sweeps(run.log, parameters, run.catalog)
        compacted = await compact_parts(run.log, parameters, run.catalog)
        verified = await verify_store(run.log, parameters, run.catalog)
    rows = [asdict(finding) for finding in verified.findings[:FINDINGS_SHOWN]]
    counts = f"{len(verified.findings)} findings, {len(expired)} old sweeps"
    await leave_table(rows, "findings", counts)
    left = [finding for finding in verified.findings if not finding.repaired]
    if left:
        raise RuntimeError(f"{len(left)} findings, first: {left[0].path}: {left[0].reason}")
    return {
        "expired": [asdict(each) for each in expired],
        "compacted": asdict(compacted),
        "verified": asdict(verified),
    }


@stage(name="let old sweeps go", tags=("store",))
async def expire_sweeps(
    _: StageProgress, parameters: MaintenanceParameters, catalog: Catalog
) -> list[Any]:
    """Remove old sweeps, or list them if `dry_run` is set."""
    if parameters.older_than_days is None:
        return []
    age = timedelta(days=parameters.older_than_days)
    return await asyncio.to_thread(expire, catalog, older_than=age, dry_run=parameters.dry_run)


@stage(name="compact", tags=("store",))
async def compact_parts(
    progress: StageProgress, parameters: MaintenanceParameters, catalog: Catalog
) -> Any:
    """Merge small parts."""
    grace_s, show = parameters.grace_hours * 3600, progress.show
    return await asyncio.to_thread(compact, catalog, grace_s=grace_s, on_progress=show)


@stage(name="verify", tags=("store",))
async def verify_store(
    progress: StageProgress, parameters: MaintenanceParameters, catalog: Catalog
) -> Any:
    """Check every checksum, and files against the catalog."""
    repair, show = parameters.repair, progress.show
    return await asyncio.to_thread(verify, catalog, repair=repair, on_progress=show)
