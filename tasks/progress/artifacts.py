"""Artifacts of a flow run: tables and pages on its tab *Artifacts*. Outside a flow run: nothing.

In: rows or markdown, and a key of lower-case letters, digits and dashes; Prefect lists the runs'
artifacts of one key together. A table's cells are plain text: links work in pages only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.progress.stages import in_flow_run


async def leave_table(rows: Sequence[Mapping[str, Any]], key: str, description: str) -> None:
    """Leave a table artifact, where this is a flow run."""
    if in_flow_run():
        from prefect.artifacts import acreate_table_artifact

        await acreate_table_artifact([dict(row) for row in rows], key, description)


async def leave_page(markdown: str, key: str, description: str) -> None:
    """Leave a markdown artifact, where this is a flow run."""
    if in_flow_run():
        from prefect.artifacts import acreate_markdown_artifact

        await acreate_markdown_artifact(markdown, key, description)
