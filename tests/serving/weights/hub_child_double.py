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


def snapshot_download(
    name: str,
    revision: str,
    cache_dir: str,
    token: object,
    dry_run: bool = False,
    allow_patterns: list[str] | None = None,
) -> Any:
    do = "list" if dry_run else "fetch"
    with Path(WANTED["log"]).open("a") as log:
        log.write(json.dumps({"do": do, "pid": os.getpid(), "argv": sys.argv}) + "\n")
    if "crash" in WANTED:
        print(WANTED["crash"], file=sys.stderr)
        sys.exit(3)
    if WANTED.get("hang") == do:
        time.sleep(60)
    if "error" in WANTED:
        raise type(WANTED["error"]["kind"], (Exception,), {})(WANTED["error"]["error"])
    repository = Path(cache_dir) / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / WANTED["commit"]
    if dry_run:
        sizes = WANTED.get("bytes", {})
        return [
            SimpleNamespace(
                filename=file,
                file_size=sizes.get(file, len(text)),
                commit_hash=WANTED["commit"],
                will_download=not (snapshot / file).exists(),
            )
            for file, text in WANTED["files"].items()
        ]
    snapshot.mkdir(parents=True, exist_ok=True)
    if revision != WANTED["commit"]:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / revision).write_text(WANTED["commit"])
    (repository / "blobs").mkdir(exist_ok=True)
    for file in allow_patterns or ():
        data = WANTED["files"][file].encode("latin-1")
        link = snapshot / file
        if not link.is_symlink():
            link.symlink_to(f"../../blobs/{hashlib.sha256(data).hexdigest()}")
        if file != WANTED.get("lose"):
            link.resolve().write_bytes(data)
    return str(snapshot)


if __name__ == "__main__":
    library = ModuleType("huggingface_hub")
    library.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    if WANTED.get("error", {}).get("kind") == "ModuleNotFoundError":
        library = None  # type: ignore[assignment]
    sys.modules["huggingface_hub"] = library
    runpy.run_path(sys.argv[-1], run_name="__main__")
