#!/usr/bin/env python3
"""Stands in for the Python of the models environment: runs `hub_child.py` with its own library.

In: TUTTI_HUB_DOUBLE, a JSON object: `files` (name to text), `commit`, and what goes wrong: `error`,
`crash`, `hang` (list or fetch), `lose` (a file that is not written). Notes the library's calls in
`log`. Standard library only.
"""

import hashlib
import json
import os
import runpy
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

WANTED: dict[str, Any] = json.loads(os.environ["TUTTI_HUB_DOUBLE"])


class HfApi:
    """Lists the files."""

    def __init__(self, token: object) -> None: ...

    def model_info(self, name: str, **_: object) -> SimpleNamespace:
        note("list")
        sizes = WANTED.get("bytes", {})
        files = [
            SimpleNamespace(rfilename=file, size=sizes.get(file, len(text)))
            for file, text in WANTED["files"].items()
        ]
        return SimpleNamespace(sha=WANTED["commit"], siblings=files)


def note(do: str) -> None:
    """Log a request, and have it fail as wanted."""
    with Path(WANTED["log"]).open("a") as log:
        log.write(json.dumps({"do": do, "pid": os.getpid(), "argv": sys.argv}) + "\n")
    if "crash" in WANTED:
        print(WANTED["crash"], file=sys.stderr)
        sys.exit(3)
    if WANTED.get("hang") == do:
        time.sleep(60)
    if "error" in WANTED:
        raise type(WANTED["error"]["kind"], (Exception,), {})(WANTED["error"]["error"])


def snapshot_download(
    name: str,
    revision: str,
    cache_dir: str,
    token: object,
    allow_patterns: list[str],
    dry_run: bool = False,
) -> Any:
    """As the Hub's library has it."""
    repository = Path(cache_dir) / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / WANTED["commit"]
    if dry_run:
        sizes, files = WANTED.get("bytes", {}), WANTED["files"]
        return [
            SimpleNamespace(
                file_size=sizes.get(file, len(files[file])),
                will_download=not (snapshot / file).exists(),
            )
            for file in allow_patterns
        ]
    note("fetch")
    snapshot.mkdir(parents=True, exist_ok=True)
    if revision != WANTED["commit"]:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / revision).write_text(WANTED["commit"])
    (repository / "blobs").mkdir(exist_ok=True)
    for file in allow_patterns:
        data = WANTED["files"][file].encode("latin-1")
        link = snapshot / file
        if not link.is_symlink():
            link.symlink_to(f"../../blobs/{hashlib.sha256(data).hexdigest()}")
        if file != WANTED.get("lose"):
            link.resolve().write_bytes(data)
    return str(snapshot)


if __name__ == "__main__":
    library = ModuleType("huggingface_hub")
    library.__dict__.update(snapshot_download=snapshot_download, HfApi=HfApi)
    if WANTED.get("error", {}).get("kind") == "ModuleNotFoundError":
        library = None  # type: ignore[assignment]
    sys.modules["huggingface_hub"] = library
    runpy.run_path(sys.argv[-1], run_name="__main__")
