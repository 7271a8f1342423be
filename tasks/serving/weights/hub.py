"""A model on the Hugging Face Hub as a folder on this machine.

In: name and revision, as `Qwen/Qwen3-8B@main`. Out: the folder of the snapshot, whole; its name is
the commit. The cache is read first, without network and library: a branch that it knows is not
asked for again, so that the same entry means the same weights until somebody fetches anew. Its
form: `models--org--name/` with `refs/<branch>` (a commit), `snapshots/<commit>/` (links) and
`blobs/` (contents, by hash) (https://huggingface.co/docs/huggingface_hub/guides/manage-cache).

What it lacks is fetched by the Hub's own library, in a child process of the models environment:
weights in one form, configuration, tokenizer, templates; many repositories hold the same weights in
two or three forms. Before the first byte the size is told and compared with the disk's free room.
The child is ended when it makes no progress, and whenever this ends. The token goes from HF_TOKEN
to the child's environment, and nowhere else.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from tutti.tasks.project import models_python_path
from tutti.tasks.serving.errors import ModelsEnvironmentMissing, WeightsError
from tutti.tasks.serving.weights.gguf_files import PART
from tutti.tasks.serving.weights.reading import INDEX, SINGLE, read_weights
from tutti.tasks.serving.weights.tensor_files import in_gb

NAME = re.compile(r"^(?!.*(--|\.\.))[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}$", re.ASCII)
COMMIT = re.compile(r"^[0-9a-f]{40}$")
HEX = re.compile(r"^[0-9a-fA-F]{7,}$")
"""Git shortens a commit to seven digits or more."""
REFERENCE = re.compile(r"^(?!.*\.\.)[\w][\w./-]{0,199}$", re.ASCII)
DEFAULT_REVISION = "main"


@dataclass(frozen=True)
class HubId:
    """A model on the Hub, at a revision."""

    name: str
    """Organisation and repository: `Qwen/Qwen3-8B`."""
    revision: str | None = None
    """A commit of 40 hex digits, a branch or a tag; None stands for `main`."""

    @classmethod
    def parse(cls, text: str) -> "HubId":
        """`org/name` or `org/name@revision`. Raises WeightsError."""
        name, at, revision = text.strip().partition("@")
        if not NAME.match(name):
            raise WeightsError(
                f"{text!r}: no name of a model on the Hub; write organisation/name@revision, for "
                "example Qwen/Qwen3-8B@main"
            )
        return cls(name, _revision(text, revision) if at else None)

    @property
    def is_commit(self) -> bool:
        """Whether the revision can never mean other weights."""
        return COMMIT.match(self.revision or "") is not None

    def __str__(self) -> str:
        return f"{self.name}@{self.revision or DEFAULT_REVISION}"


def _revision(text: str, revision: str) -> str:
    if HEX.match(revision) and not COMMIT.match(revision):
        raise WeightsError(
            f"{text!r}: {revision!r} is no whole commit ({len(revision)} of 40 hex digits, in "
            "lower case); write all 40, which the model's page shows under Files, History, or a "
            "branch or tag"
        )
    if not REFERENCE.match(revision):
        raise WeightsError(
            f"{text!r}: {revision!r} is no revision; write a commit (40 hex digits), a branch or a "
            "tag after the @"
        )
    return revision


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the Hub's own library keeps its cache, by its environment variables."""
    set_ = environment.get
    named = set_("HF_HUB_CACHE") or set_("HUGGINGFACE_HUB_CACHE")
    if not named:
        caches = set_("XDG_CACHE_HOME") or "~/.cache"
        named = f"{set_('HF_HOME') or f'{caches}/huggingface'}/hub"
    return Path(os.path.expandvars(named)).expanduser()


def repository_folder(cache: Path, name: str) -> Path:
    """The folder of one model in a cache."""
    return cache / f"models--{name.replace('/', '--')}"


def cached_commit(cache: Path, hub_id: HubId) -> str | None:
    """The commit of a revision, as far as the cache knows it. Raises WeightsError where the cache's
    file of a branch holds none."""
    if hub_id.is_commit:
        return hub_id.revision
    path = repository_folder(cache, hub_id.name) / "refs" / (hub_id.revision or DEFAULT_REVISION)
    if not path.is_file():
        return None
    commit = path.read_text(errors="replace").strip()
    if not COMMIT.match(commit):
        raise WeightsError(f"{path}: {commit[:80]!r} is no commit; remove the file and fetch again")
    return commit


Report = Callable[[str], None]
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
SMALL = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py", ".v3")
"""Endings of files beside the weights; a program among them runs only where a server is told to."""
MAX_SMALL_BYTES = 100_000_000
OTHER_FORMS = ("consolidated",)
"""Beginnings of the names of weights that repeat the others in another form."""
FIXES = {
    "GatedRepoError": "accept its terms on its page, and set HF_TOKEN to a token that may read",
    "RepositoryNotFoundError": "check its name; for a private one set HF_TOKEN",
    "RevisionNotFoundError": "name a commit, branch or tag that its page lists under Files",
    "ModuleNotFoundError": "`make setup` installs it in the models environment",
}
"""By the library's error: what mends it."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository."""

    name: str
    bytes: int
    blob: str
    """Its name in the cache: SHA-256 of a large file, Git's hash of a small one."""


def fetch(hub_id: HubId, commit: str | None, cache: Path, tell: Report) -> str:
    """Fetch what the cache lacks of a model; the commit that the revision means now.

    `commit`: the one to fetch, where it is known. Raises WeightsError, ModelsEnvironmentMissing.
    """
    revision = commit or hub_id.revision or DEFAULT_REVISION
    order = {"name": hub_id.name, "revision": revision, "cache": str(cache)}
    listed = _ask(hub_id, {**order, "do": "list"}, partial(_require_answer, hub_id))
    files = choose_files(hub_id.name, (HubFile(**each) for each in listed["files"]))
    blobs = repository_folder(cache, hub_id.name) / "blobs"
    lacking = [file for file in files if not (blobs / file.blob).is_file()]
    _require_room(hub_id, str(listed["commit"]), lacking, cache, tell)
    progress = _Progress(hub_id, blobs, sum(file.bytes for file in lacking), tell)
    names = [file.name for file in files]
    fetched = _ask(hub_id, {**order, "do": "fetch", "files": names}, progress.check)
    return Path(fetched["folder"]).name


def choose_files(name: str, files: Iterable[HubFile]) -> list[HubFile]:
    """The files to fetch of the repository `name`. Raises WeightsError where it has no weights that
    can be served, or several models in GGUF form."""
    every = list(files)
    weights = _safetensors(every) or _gguf(name, every)
    if not weights:
        kinds = sorted({PurePosixPath(file.name).suffix for file in every} - {""})
        raise WeightsError(
            f"{name}: neither {SINGLE}, {INDEX} nor a .gguf file in its repository (it has "
            f"{', '.join(kinds) or 'nothing'}); name a repository with safetensors"
        )
    small = [file for file in every if file.name.endswith(SMALL) and file.bytes <= MAX_SMALL_BYTES]
    return [*weights, *small]


def _safetensors(files: Sequence[HubFile]) -> list[HubFile]:
    names = {file.name for file in files}
    if INDEX not in names:
        return [file for file in files if file.name == SINGLE]
    shards = [file for file in files if file.name.endswith(".safetensors") and "/" not in file.name]
    return [file for file in shards if not file.name.startswith(OTHER_FORMS)]


def _gguf(name: str, files: Sequence[HubFile]) -> list[HubFile]:
    found = [file for file in files if file.name.endswith(".gguf")]
    models = {(part["name"] if (part := PART.match(f.name)) else f.name) for f in found}
    if len(models) > 1:
        raise WeightsError(
            f"{name}: {len(models)} models in GGUF form ({', '.join(sorted(models)[:4])}, …); "
            f"fetch one by hand with `hf download {name} FILE --local-dir FOLDER`, and name "
            "FOLDER/FILE"
        )
    return found


def _require_room(
    hub_id: HubId, commit: str, lacking: Sequence[HubFile], cache: Path, tell: Report
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


def _require_answer(hub_id: HubId, waited_s: float) -> None:
    """Raises WeightsError where the Hub took too long."""
    if waited_s > LIST_TIMEOUT_S:
        raise WeightsError(
            f"{hub_id}: the Hub did not answer within {LIST_TIMEOUT_S:.0f} s; try again, or set "
            "HF_HUB_OFFLINE=1 to use what the cache has"
        )


class _Progress:
    """Tells a download's progress, and ends one that makes none."""

    def __init__(self, hub_id: HubId, blobs: Path, total: int, tell: Report) -> None:
        self.hub_id, self.blobs, self.total, self.tell = hub_id, blobs, total, tell
        self.first = self.size = _bytes_under(blobs)
        self.grown = self.told = 0.0

    def check(self, now: float) -> None:
        """Raises WeightsError when no byte has arrived for a while. `now`: seconds since the
        start."""
        size = _bytes_under(self.blobs)
        if size != self.size:
            self.size, self.grown = size, now
        fetched, total = in_gb(self.size - self.first), in_gb(self.total)
        if now - self.told > TELL_EVERY_S:
            self.told = now
            self.tell(f"fetched {fetched} of {total} of {self.hub_id.name}")
        if now - self.grown > STALL_S:
            raise WeightsError(
                f"{self.hub_id}: no byte arrived for {STALL_S:.0f} s ({fetched} of {total} there); "
                "run the same command again to go on"
            )


def _ask(
    hub_id: HubId, order: Mapping[str, Any], check: Callable[[float], None]
) -> Mapping[str, Any]:
    """A child's answer to an order. `check` gets the seconds that it has worked so far, and ends it
    by raising.

    Raises WeightsError, ModelsEnvironmentMissing.
    """
    python = models_python_path()
    if not python.is_file():
        raise ModelsEnvironmentMissing(
            f"no models environment at {python}, whose library fetches from the Hub; run `make "
            "setup`, set TUTTI_MODELS_PYTHON, or name a folder with the weights"
        )
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(python), "-I", str(CHILD)],
            stdin=subprocess.PIPE,  # left open: the child ends when it closes
            stdout=output,
            stderr=errors,
            env={**os.environ, **CHILD_ENVIRONMENT},
            start_new_session=True,  # so that it and its own children end together
            text=True,
        )
        _run(process, order, check)
        output.seek(0)
        errors.seek(0)
        lines, words = output.read().splitlines(), " ".join(errors.read().split())
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        words = words[-500:] or "it said nothing"
        answer = {"kind": f"exit code {process.returncode}", "error": words}
    if "error" in answer:
        raise _failure(hub_id, str(answer["kind"]), str(answer["error"]))
    return dict(answer)


def _run(
    process: "subprocess.Popen[str]", order: Mapping[str, Any], check: Callable[[float], None]
) -> None:
    """Give a child its order, wait for its end, and end it where `check` raises."""
    assert process.stdin is not None, "it is a pipe"
    started = time.monotonic()
    try:
        with contextlib.suppress(BrokenPipeError):  # its end tells why
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
            check(time.monotonic() - started)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdin.close()


def _failure(hub_id: HubId, kind: str, said: str) -> WeightsError:
    """An error of the library, with what to do and without the token."""
    if token := os.environ.get("HF_TOKEN"):
        said = said.replace(token, "***")
    fix = FIXES.get(kind, "try again, or fetch it by hand and name the folder")
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


FETCH = "TUTTI_FETCH"
"""`never` forbids to fetch weights."""
TRUE = ("1", "ON", "YES", "TRUE")
"""What the Hub's own library takes for true."""


def resolve_hub(text: str, offline: bool = False, report: Report | None = None) -> Path:
    """The folder with the whole snapshot of a model; the folder's name is the commit.

    `text`: NAME or NAME@REVISION, at a commit of 40 hex digits, a branch or a tag. `offline`: ask
    nobody, as with HF_HUB_OFFLINE. `report` is told the commit of a branch, and the size and
    progress of a download; None prints to stderr. Raises WeightsError with what to do, and
    ModelsEnvironmentMissing where something is to be fetched and there is no such environment.
    """
    hub_id, cache, tell = HubId.parse(text), cache_folder(), report or _print
    commit = cached_commit(cache, hub_id)
    folder, lacks = _usable(cache, hub_id, commit)
    if folder is not None:
        if not hub_id.is_commit:
            tell(f"{hub_id} is commit {commit} in {cache}")
        return folder
    if forbidden := _forbidden(offline):
        raise WeightsError(f"{hub_id}: {lacks}; {forbidden}: {_by_hand(hub_id, cache)}")
    commit = fetch(hub_id, commit, cache, tell)
    folder, lacks = _usable(cache, hub_id, commit)
    if folder is None:
        raise WeightsError(f"{hub_id}: fetched, and yet {lacks}")
    return folder


def _usable(cache: Path, hub_id: HubId, commit: str | None) -> tuple[Path | None, str]:
    """The whole snapshot of a commit, or else what the cache lacks of it."""
    snapshots = repository_folder(cache, hub_id.name) / "snapshots"
    have = ", ".join(sorted(path.name for path in snapshots.glob("*") if COMMIT.match(path.name)))
    if commit is None:
        return None, f"not in the cache {cache} (it has {have or 'none of it'})"
    folder = snapshots / commit
    if not folder.is_dir():
        lacks = f"commit {commit} is not in the cache {cache} (commits there: {have or 'none'})"
        return None, lacks
    try:
        read_weights(folder)
    except WeightsError as error:
        return None, str(error)
    return folder, ""


def _forbidden(offline: bool) -> str:
    """Why nothing may be fetched; empty where it may."""
    if os.environ.get(FETCH, "").lower() == "never":
        return f"{FETCH}=never forbids to fetch it"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in TRUE:
        return "HF_HUB_OFFLINE forbids to fetch it"
    return "it may not be fetched offline" if offline else ""


def _by_hand(hub_id: HubId, cache: Path) -> str:
    """How to fetch a model where that is allowed."""
    revision = f" --revision {hub_id.revision}" if hub_id.revision else ""
    return (
        f"run `hf download {hub_id.name}{revision} --cache-dir {cache}` where the Hub can be "
        "reached, or name a folder with the weights"
    )


def _print(line: str) -> None:
    print(f"tutti: {line}", file=sys.stderr, flush=True)


def hub_weights_here(hub_id: str) -> Path | None:
    """The folder of a model that the Hub's cache has whole, else None; nothing is fetched."""
    try:
        return resolve_hub(hub_id, offline=True, report=lambda line: None)
    except WeightsError:
        return None


def is_hub_name(text: str) -> bool:
    """Whether a text names a model of the Hub with its revision, as ``Qwen/Qwen3-8B@main``, and no
    folder or entry."""
    name, at, revision = text.partition("@")
    return bool(at and revision) and name.count("/") == 1 and not Path(name).is_absolute()
