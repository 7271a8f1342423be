"""The run of one gateway process: the row of `runs` whose id its programs' attempts have.

In: the gateway's name and policy. Out: a row with flow ``gateway``, from its start to its end. The
run of a killed gateway is ended by the next one of that name.
"""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog
from tutti.storage import catalog as cat

FLOW = "gateway"
KILLED = "the gateway was killed; this is when the next one of its name started"


@dataclass
class GatewayRun:
    """Its row. All methods block."""

    catalog: Catalog
    name: str
    """The name of the gateway's sweep: one process at a time has it."""
    policy: str
    run_id: str = field(default_factory=lambda: f"run:{uuid.uuid4().hex[:16]}")
    _row: dict[str, Any] = field(default_factory=dict)
    """Empty until it is entered."""

    def enter(self) -> None:
        """Enter it as running; end what a killed gateway of that name left. Raises StoreError."""
        from tutti.tasks.runs import code_version, describe_machine  # only with a name

        for lost in self._left():
            ended = {"status": "failed", "error": KILLED, "ended_at": cat.now()}
            self.catalog.upsert(cat.runs, lost | ended)
        params = json.dumps({"name": self.name, "policy": self.policy}, sort_keys=True)
        row = {"run_id": self.run_id, "flow": FLOW, "params": params, "status": "running"}
        row |= {"machine": json.dumps(describe_machine()), "code_version": code_version()}
        self._row = row | {"started_at": cat.now()}
        self.catalog.upsert(cat.runs, self._row)

    def end(self) -> None:
        """Its end, if it was entered. Raises StoreError."""
        if self._row:
            ended = {"status": "completed", "ended_at": cat.now()}
            self.catalog.upsert(cat.runs, self._row | ended)

    def _left(self) -> list[dict[str, Any]]:
        """Rows of that name that still are running, although nobody else has the name."""
        runs = cat.runs.c
        wanted = sa.select(cat.runs).where(runs.flow == FLOW, runs.status == "running")
        rows = [dict(row) for row in self.catalog.rows(wanted)]
        return [row for row in rows if json.loads(row["params"]).get("name") == self.name]
