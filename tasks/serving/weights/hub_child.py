"""Downloads a model from the Hub with its own library: a program for an environment that has it.

In: a JSON object, the first line of stdin: name, revision, cache (a folder), and `stall_s`, the
longest time without a new byte. Out: JSON lines on stdout: `message` for people, then `folder`, or
`error` and `kind` (empty if the repository has no model to serve). It ends with its parent, when
stdin closes. The token is read from HF_TOKEN only. Run with `python -I`, so that this folder's
modules do not hide installed ones. Standard library only.
"""

import importlib
import json
import os
import re
import select
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SMALL = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py", ".v3")
"""Endings of files beside the weights; a program among them runs only where a server is told to."""
MAX_SMALL_BYTES = 100_000_000
SPARE_BYTES = 1 << 30
POLL_S, TELL_EVERY_S, LIST_TIMEOUT_S = 0.2, 10.0, 30.0
answers = sys.stdout


class NoModel(Exception):
    """The repository has no usable weights, or the disk has no room for them."""


def choose_files(sizes: dict[str, int]) -> list[str]:
    """Files to download: weights in one form, and the small files beside them. Raises NoModel."""
    ggufs = [name for name in sizes if name.endswith(".gguf")]
    if INDEX in sizes:
        weights = [n for n in sizes if n.endswith(".safetensors") and "/" not in n]
        weights = [name for name in weights if not name.startswith("consolidated")]
    else:
        weights = [SINGLE] if SINGLE in sizes else ggufs
    if not weights:
        kinds = sorted({PurePosixPath(name).suffix for name in sizes} - {""})
        raise NoModel(
            f"neither {SINGLE}, {INDEX} nor a .gguf file in its repository (it has "
            f"{', '.join(kinds) or 'nothing'}); name a repository with safetensors"
        )
    models = {re.sub(r"-\d{5}-of-\d{5}\.gguf$", "", name) for name in ggufs}
    if weights == ggufs and len(models) > 1:
        raise NoModel(
            f"{len(models)} models in GGUF form ({', '.join(sorted(models)[:4])}, …); fetch one by "
            "hand with `hf download NAME FILE --local-dir FOLDER`, and name FOLDER/FILE"
        )
    small = [n for n, size in sizes.items() if n.endswith(SMALL) and size <= MAX_SMALL_BYTES]
    return [*weights, *small]


def fetch(order: dict[str, Any]) -> str:
    """Return the folder of the snapshot. Raises NoModel, and the library's errors."""
    hub, cache = importlib.import_module("huggingface_hub"), Path(order["cache"])
    token = os.environ.get("HF_TOKEN") or False
    info = hub.HfApi(token=token).model_info(
        order["name"], revision=order["revision"], files_metadata=True, timeout=LIST_TIMEOUT_S
    )
    download = partial(
        hub.snapshot_download,
        order["name"],
        revision=order["revision"],
        cache_dir=order["cache"],
        token=token,
        allow_patterns=choose_files({each.rfilename: each.size or 0 for each in info.siblings}),
    )
    lacking = [each for each in download(dry_run=True) if each.will_download]
    size, there = sum(each.file_size or 0 for each in lacking), cache
    while not there.is_dir():
        there = there.parent
    free = shutil.disk_usage(there).free
    what = f"fetching {order['name']}@{info.sha}: {_gb(size)} in {len(lacking)} files to {cache}"
    answer(message=f"{what}; free disk {_gb(free)}")
    if size + SPARE_BYTES > free:
        raise NoModel(
            f"{_gb(size)} to fetch, and {there} has {_gb(free)} free ({_gb(SPARE_BYTES)} must stay "
            "free); make room, or set HF_HUB_CACHE to a folder on another disk"
        )
    return str(download())


def watch(order: dict[str, Any]) -> None:
    """Report the progress; end this process if there is none, or if stdin is closed."""
    blobs = Path(order["cache"]) / f"models--{order['name'].replace('/', '--')}" / "blobs"
    before = size = bytes_under(blobs.glob("*"))
    grown = told = time.monotonic()
    while not select.select([sys.stdin], [], [], POLL_S)[0]:
        now, new = time.monotonic(), bytes_under(blobs.glob("*"))
        if new != size:
            size, grown = new, now
        if now - told > TELL_EVERY_S:
            told = now
            answer(message=f"fetched {_gb(size - before)} of {order['name']}")
        if now - grown > order["stall_s"]:
            answer(kind="TimeoutError", error=f"no byte arrived for {order['stall_s']:.0f} s")
            break
    os._exit(1)


def bytes_under(paths: Iterable[Path]) -> int:
    """Return the bytes on disk of files, some of which may vanish meanwhile. A file may be extended
    to its length at once and filled later."""
    total = 0
    for path in paths:
        try:
            state = path.stat()
        except FileNotFoundError:
            continue
        total += min(state.st_size, state.st_blocks * 512)
    return total


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 50_000_000 else f"{size / 1e6:.1f} MB"


def answer(**fields: str) -> None:
    print(json.dumps(fields), file=answers, flush=True)


def main() -> None:
    global answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is no answer
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=watch, args=(order,), daemon=True).start()
    try:
        answer(folder=fetch(order))
    except Exception as error:  # whatever the library raises is an answer
        kind = "" if isinstance(error, NoModel) else type(error).__name__
        answer(kind=kind, error=" ".join(str(error).split()))
    # The thread may be reading stdin, which the interpreter would wait for at its end.
    os._exit(0)


if __name__ == "__main__":
    main()
