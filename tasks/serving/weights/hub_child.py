"""Asks the Hub for a model's files, and downloads them: a program for the models environment.

In: a JSON object, the first line of stdin (`do`: list or fetch, name, revision, cache, files). Out:
one JSON line on stdout: the commit and the files with their sizes, or the folder, or `error` and
`kind`. It ends with its parent, when stdin closes. The token is read from HF_TOKEN only. Run with
`python -I`: this folder's modules must not hide installed ones.
"""

import importlib
import json
import os
import sys
import threading
from typing import Any

LIST_TIMEOUT_S = 30.0


def run(order: dict[str, Any]) -> dict[str, Any]:
    hub = importlib.import_module("huggingface_hub")
    token = os.environ.get("HF_TOKEN") or False
    name, revision = order["name"], order["revision"]
    if order["do"] == "list":
        info = hub.HfApi(token=token).model_info(
            name, revision=revision, files_metadata=True, timeout=LIST_TIMEOUT_S
        )
        files = [_described(each) for each in info.siblings or ()]
        return {"commit": info.sha, "files": files}
    folder = hub.snapshot_download(
        name,
        revision=revision,
        cache_dir=order["cache"],
        allow_patterns=order["files"],
        token=token,
    )
    return {"folder": folder}


def _described(file: Any) -> dict[str, Any]:
    """A file's name, its bytes, and the name of its blob in the cache."""
    lfs = getattr(file, "lfs", None)
    digest = getattr(lfs, "sha256", None) or file.blob_id
    return {"name": file.rfilename, "bytes": file.size, "blob": digest}


def _end_with_parent() -> None:
    """End this process once nobody holds the other end of stdin."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer = run(order)
    except Exception as error:  # whatever the library raises is told to the platform
        answer = {"kind": type(error).__name__, "error": " ".join(str(error).split())}
    print(json.dumps(answer), flush=True)
    # The thread above may be reading stdin, which the interpreter would wait for at its end.
    os._exit(int("error" in answer))


if __name__ == "__main__":
    main()
