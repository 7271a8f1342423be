"""A run of a flow in the catalog: time, parameters, machine and outcome."""

import json
import os
import platform
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, open_catalog
from tutti.storage import catalog as cat
from tutti.tasks.platform import IS_CHECKOUT, PROJECT, package_version
from tutti.tasks.platform.gpus import require_job_gpus
from tutti.tasks.platform.progress import StageLog


def describe_machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cores": os.cpu_count(), "memory_gib": round(memory / 2**30, 1), "processor": model}


def code_version() -> str:
    """Return the commit of the running code, with "+changes" if files differ, "unknown" without
    git; for an installed wheel the package's version."""
    if not IS_CHECKOUT:
        return f"v{package_version()}"
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty=+changes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


@dataclass(frozen=True)
class Run:
    """A run of a flow: its store, its id, and its progress display."""

    catalog: Catalog
    run_id: str
    log: StageLog


@contextmanager
def open_run(flow: str, parameters: dict[str, Any]) -> Iterator[Run]:
    """Record a run on this user's store and show its progress. Raises StoreError, and NoSuchGpu for
    a job with GPUs that this machine lacks."""
    run_id = f"run:{uuid.uuid4().hex[:16]}"
    with open_catalog() as catalog:
        row = {
            "run_id": run_id,
            "flow": flow,
            "params": json.dumps(parameters, sort_keys=True),
            "machine": json.dumps(describe_machine()),
            "code_version": code_version(),
            "status": "running",
            "started_at": cat.now(),
        }
        catalog.upsert(cat.runs, row)
        try:
            require_job_gpus(catalog.home)
            yield Run(catalog, run_id, StageLog())
        except BaseException as error:
            status = "failed" if isinstance(error, Exception) else "cancelled"
            ended = {"status": status, "error": str(error)[:2000], "ended_at": cat.now()}
            catalog.upsert(cat.runs, row | ended)
            raise
        catalog.upsert(cat.runs, row | {"status": "completed", "ended_at": cat.now()})
