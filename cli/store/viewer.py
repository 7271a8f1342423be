"""`tutti view`: Inspect's viewer over a folder of exported logs."""

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti.storage import Catalog

VIEW_READY_S = 60.0


def clear(folder: Path) -> None:
    """Remove the files of an earlier view, because the store may have changed."""
    for file in folder.glob("*.eval"):
        file.unlink()


def serve(catalog: "Catalog", folder: Path, host: str, port: int, words: str) -> None:
    """Run `inspect view` until a signal. Raises ServingError if it ends by itself."""
    from tutti.tasks.serving.processes import Child, answers

    command = [sys.executable, "-m", "inspect_ai", "view", "start", "--log-dir", str(folder)]
    # Otherwise it would write files to the user's home.
    own = {name: str(folder.parent / ".inspect") for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME")}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Child(
            "inspect-view", [*command, "--host", host, "--port", str(port)], own, catalog
        ) as child:
            near = "127.0.0.1" if host in ("0.0.0.0", "::") else host
            child.wait_ready(lambda: answers(f"http://{near}:{port}/"), VIEW_READY_S)
            print(words, flush=True)
            while True:
                child.check()
                time.sleep(0.2)
    except KeyboardInterrupt:
        return
