"""Downloads a model by the Hub's own library, as a child process in the models environment.

In: a model's name and revision, a cache. Out: its files there, and the commit. Before the first
byte the size is told and compared with the disk's free room. The child is ended when it makes no
progress, and whenever this ends. The token goes from HF_TOKEN to the child's environment, and
nowhere else.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutti.tasks.project import models_python_path
from tutti.tasks.serving.errors import ModelsEnvironmentMissing, WeightsError
from tutti.tasks.serving.weights.files import in_gb
from tutti.tasks.serving.weights.hub_cache import DEFAULT_REVISION, HubId, repository_folder
from tutti.tasks.serving.weights.hub_files import HubFile, choose_files

CHILD = Path(__file__).with_name("hub_child.py")
CHILD_ENVIRONMENT = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # progress is told here
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "0",  # whoever may not fetch does not come here
}
LIST_TIMEOUT_S = 120.0
STALL_S = 300.0
"""A download is ended when no byte arrives for this long."""
POLL_S = 0.2
TELL_EVERY_S = 10.0
SPARE_BYTES = 1 << 30
"""Room left on the disk for everything else."""
ENDING_S = 5.0

Tell = Callable[[str], None]


def fetch(hub_id: HubId, commit: str | None, cache: Path, tell: Tell) -> str:
    """Fetch what the cache lacks of a model; the commit that the revision means now.

    `commit`: the one to fetch, where it is known. Raises WeightsError, ModelsEnvironmentMissing.
    """
    revision = commit or hub_id.revision or DEFAULT_REVISION
    listed = _ask_hub(hub_id, revision)
    commit = str(listed["commit"])
    files = choose_files(hub_id.name, (HubFile(**each) for each in listed["files"]))
    blobs = repository_folder(cache, hub_id.name) / "blobs"
    lacking = [file for file in files if not (blobs / file.blob).is_file()]
    _require_room(hub_id, commit, lacking, cache, tell)
    order = {"do": "fetch", "name": hub_id.name, "revision": commit, "cache": str(cache)}
    order_files = {"files": [file.name for file in files]}
    with _child({**order, **order_files}) as child:
        child.wait_while_growing(hub_id, blobs, sum(file.bytes for file in lacking), tell)
        child.answer(hub_id)
    if not hub_id.is_commit:
        _write_reference(cache, hub_id, commit)
    return commit


def _ask_hub(hub_id: HubId, revision: str) -> Mapping[str, Any]:
    with _child({"do": "list", "name": hub_id.name, "revision": revision}) as child:
        child.wait(hub_id, LIST_TIMEOUT_S)
        return child.answer(hub_id)


def _require_room(
    hub_id: HubId, commit: str, lacking: Sequence[HubFile], cache: Path, tell: Tell
) -> None:
    """Tell what will be fetched. Raises WeightsError where the disk has too little room."""
    size = sum(file.bytes for file in lacking)
    there = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    tell(
        f"fetching {hub_id.name}@{commit}: {in_gb(size)} in {len(lacking)} files to {cache}; free "
        f"disk {in_gb(free)}"
    )
    if size + SPARE_BYTES > free:
        spare = in_gb(SPARE_BYTES)
        raise WeightsError(
            f"{hub_id}: {in_gb(size)} to fetch, and {there} has {in_gb(free)} free ({spare} must "
            "stay free); make room, or set HF_HUB_CACHE to a folder on another disk"
        )


def _write_reference(cache: Path, hub_id: HubId, commit: str) -> None:
    """Keep which commit a branch was, as the library does when it is given the branch."""
    path = repository_folder(cache, hub_id.name) / "refs" / (hub_id.revision or DEFAULT_REVISION)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(commit)
    os.replace(temporary, path)


@contextmanager
def _child(order: Mapping[str, Any]) -> Iterator["_Child"]:
    """A child with its order; it is ended when the block is left."""
    python = models_python_path()
    if not python.is_file():
        raise ModelsEnvironmentMissing(
            f"no models environment at {python}, whose library fetches from the Hub; run `make "
            "setup`, set TUTTI_MODELS_PYTHON, or name a folder with the weights"
        )
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as grumbled:
        process = subprocess.Popen(
            [str(python), "-I", str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=grumbled,
            env={**os.environ, **CHILD_ENVIRONMENT},
            start_new_session=True,  # so that it and its own children end together
            text=True,
        )
        child = _Child(process, said, grumbled)
        try:
            child.send(order)
            yield child
        finally:
            child.end()


class _Child:
    """One run of `hub_child.py`."""

    def __init__(self, process: "subprocess.Popen[str]", said: Any, grumbled: Any) -> None:
        self.process, self.said, self.grumbled = process, said, grumbled

    def send(self, order: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None, "it was piped"
        with contextlib.suppress(BrokenPipeError):  # its end tells why
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()  # and left open: the child ends when it closes

    def wait(self, hub_id: HubId, timeout_s: float) -> None:
        """Wait for its end. Raises WeightsError after `timeout_s`."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WeightsError(
                f"{hub_id}: the Hub did not answer within {timeout_s:.0f} s; try again, or set "
                "HF_HUB_OFFLINE=1 to use what the cache has"
            ) from None

    def wait_while_growing(self, hub_id: HubId, blobs: Path, total: int, tell: Tell) -> None:
        """Wait for its end as long as bytes arrive. Raises WeightsError when none do."""
        first = last = _bytes_under(blobs)
        grown = told = time.monotonic()
        while self.process.poll() is None:
            time.sleep(POLL_S)
            now, size = time.monotonic(), _bytes_under(blobs)
            if size != last:
                last, grown = size, now
            if now - told > TELL_EVERY_S:
                told = now
                tell(f"fetched {in_gb(last - first)} of {in_gb(total)} of {hub_id.name}")
            if now - grown > STALL_S:
                raise WeightsError(
                    f"{hub_id}: no byte arrived for {STALL_S:.0f} s ({in_gb(last - first)} of "
                    f"{in_gb(total)} there); run the same command again to go on"
                )

    def answer(self, hub_id: HubId) -> Mapping[str, Any]:
        """What it printed. Raises WeightsError where it failed."""
        self.said.seek(0)
        lines = self.said.read().splitlines()
        try:
            found = json.loads(lines[-1])
        except (IndexError, ValueError):
            found = {"kind": f"exit code {self.process.returncode}", "error": self._grumble()}
        if "error" in found:
            raise _failure(hub_id, str(found["kind"]), str(found["error"]))
        return dict(found)

    def end(self) -> None:
        """End it, and what it started."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            os.killpg(self.process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDING_S)
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _grumble(self) -> str:
        self.grumbled.seek(0)
        return " ".join(self.grumbled.read().split())[-500:] or "it said nothing"


def _failure(hub_id: HubId, kind: str, said: str) -> WeightsError:
    """An error of the library, with what to do and without the token."""
    token = os.environ.get("HF_TOKEN")
    if token:
        said = said.replace(token, "***")
    fixes = {
        "GatedRepoError": "accept its terms on its page, and set HF_TOKEN to a token that may read",
        "RepositoryNotFoundError": "check its name; for a private one set HF_TOKEN",
        "RevisionNotFoundError": "name a commit, branch or tag that its page lists under Files",
        "ModuleNotFoundError": "`make setup` installs it in the models environment",
    }
    fix = fixes.get(kind, "try again, or fetch it by hand and name the folder")
    return WeightsError(f"{hub_id}: cannot be fetched: {kind}: {said[:400]}; {fix}")


def _bytes_under(folder: Path) -> int:
    """What the files in a folder hold; some may vanish meanwhile."""
    found = 0
    for path in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            state = path.stat()
            # A file may be given its length at once and filled later.
            found += min(state.st_size, state.st_blocks * 512)
    return found
