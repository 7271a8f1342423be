"""Artifacts of a flow run: tables, pages and live views on its tab *Artifacts*; else nothing.

A key has lower-case letters, digits and dashes; Prefect lists the runs' artifacts of one key
together. A live view is one table and one image, refreshed in place: a new version each time would
fill Prefect's database.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rich.text import Text

from tutti.tasks.platform.progress.display import StageProgress
from tutti.tasks.platform.progress.stages import in_flow_run


async def leave_table(rows: Sequence[Mapping[str, Any]], key: str, description: str) -> None:
    if in_flow_run():
        from prefect.artifacts import acreate_table_artifact

        await acreate_table_artifact([dict(row) for row in rows], key, description)


async def leave_page(markdown: str, key: str, description: str) -> None:
    if in_flow_run():
        from prefect.artifacts import acreate_markdown_artifact

        await acreate_markdown_artifact(markdown, key, description)


REFRESH_S = 30.0


@dataclass(frozen=True)
class LiveView:
    """A table and a plot of the steps so far."""

    table: Sequence[Mapping[str, Any]]
    image: bytes  # PNG


Draw = Callable[[], LiveView | None]  # draws the view, in a thread; None without steps


@contextlib.asynccontextmanager
async def live_artifacts(
    progress: StageProgress, key: str, draw: Draw, refresh_s: float = REFRESH_S
) -> AsyncIterator[None]:
    """Update the artifacts `key` and `key`-plot during the block, and once at its end."""
    if not in_flow_run():
        yield
        return
    import httpx

    ended, artifacts = asyncio.Event(), _Artifacts(key)

    async def update() -> None:
        while True:
            is_last = ended.is_set()
            try:
                if (view := await asyncio.to_thread(draw)) is not None:
                    await artifacts.show(view)
            except httpx.HTTPError as error:  # a server that fails must not fail the work
                text = f"{progress.name}: no live view in the UI: {error}"
                progress.console.print(Text(text, "yellow"))
            if is_last:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), refresh_s)

    updater = asyncio.create_task(update())
    try:
        yield
    finally:
        ended.set()
        await updater


class _Artifacts:
    def __init__(self, key: str) -> None:
        self._key = key
        self._ids: tuple[UUID, UUID] | None = None
        self._shown: LiveView | None = None

    async def show(self, view: LiveView) -> None:
        from prefect.artifacts import acreate_image_artifact, acreate_table_artifact
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.actions import ArtifactUpdate

        if view == self._shown:
            return
        rows = [dict(row) for row in view.table]
        image = "data:image/png;base64," + base64.b64encode(view.image).decode()
        if self._ids is None:
            table: Any = await acreate_table_artifact(rows, self._key, "The last steps")
            plot: Any = await acreate_image_artifact(image, f"{self._key}-plot", "The steps so far")
            self._ids = table, plot
        else:
            async with get_client() as client:
                table_id, plot_id = self._ids
                await client.update_artifact(table_id, ArtifactUpdate(data=json.dumps(rows)))
                await client.update_artifact(plot_id, ArtifactUpdate(data=image))
        self._shown = view
