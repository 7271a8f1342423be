#!/usr/bin/env python3
"""Stands in for the Python of the models environment: answers the orders of `hub_fetch.py`.

In: TUTTI_HUB_DOUBLE, a JSON object: `files` (name to text), `commit`, and what goes wrong: `error`,
`crash`, `hang`, `lose` (a file that is not written). Out: what `hub_child.py` prints, and the files
in the cache. Notes the orders in `log`. Standard library only.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Answers = dict[str, Any]


def main() -> None:
    """Answer one order."""
    order, wanted = json.loads(sys.stdin.readline()), json.loads(os.environ["TUTTI_HUB_DOUBLE"])
    with Path(wanted["log"]).open("a") as log:
        log.write(json.dumps({**order, "pid": os.getpid(), "argv": sys.argv}) + "\n")
    if "crash" in wanted:
        print(wanted["crash"], file=sys.stderr)
        sys.exit(3)
    if wanted.get("hang") == order["do"]:
        time.sleep(60)
    if "error" in wanted:
        print(json.dumps(wanted["error"]))
        sys.exit(1)
    answer = _listed(wanted) if order["do"] == "list" else _fetched(order, wanted)
    print(json.dumps(answer), flush=True)


def _blob(text: str) -> str:
    return hashlib.sha256(text.encode("latin-1")).hexdigest()


def _listed(wanted: Answers) -> Answers:
    sizes = wanted.get("bytes", {})
    files = [
        {"name": name, "bytes": sizes.get(name, len(text)), "blob": _blob(text)}
        for name, text in wanted["files"].items()
    ]
    return {"commit": wanted["commit"], "files": files}


def _fetched(order: Answers, wanted: Answers) -> Answers:
    repository = Path(order["cache"]) / f"models--{order['name'].replace('/', '--')}"
    snapshot = repository / "snapshots" / wanted["commit"]
    snapshot.mkdir(parents=True, exist_ok=True)
    if order["revision"] != wanted["commit"]:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / order["revision"]).write_text(wanted["commit"])
    (repository / "blobs").mkdir(exist_ok=True)
    for name in order["files"]:
        text = wanted["files"][name]
        if name != wanted.get("lose"):
            (repository / "blobs" / _blob(text)).write_bytes(text.encode("latin-1"))
        link = snapshot / name
        if not link.is_symlink():
            link.symlink_to(f"../../blobs/{_blob(text)}")
    return {"folder": str(snapshot)}


if __name__ == "__main__":
    main()
