"""A model on the Hugging Face Hub as a folder on this machine.

In: name and revision, as `Qwen/Qwen3-8B@main`. Out: the complete folder of the snapshot; its name
is the commit. The Hub's cache is read first, without network: a known branch is not looked up
again, so that the same entry means the same weights until a user downloads them again
(https://huggingface.co/docs/huggingface_hub/guides/manage-cache). Missing files are downloaded by
the Hub's own library in a child process (`hub_child`): with this Python if it has the library, else
in the models environment. The token goes from HF_TOKEN to the child's environment only.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tutti.tasks.platform import models_python_path
from tutti.tasks.serving.errors import ModelsEnvironmentMissing, WeightsError
from tutti.tasks.serving.weights.reading import read_weights

NAME = re.compile(r"^(?!.*(--|\.\.))[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}$", re.ASCII)
COMMIT = re.compile(r"^[0-9a-f]{40}$")
HEX = re.compile(r"^[0-9a-fA-F]{7,}$")
REFERENCE = re.compile(r"^(?!.*\.\.)[\w][\w./-]{0,199}$", re.ASCII)
FETCH = "TUTTI_FETCH"
"""`never` forbids to fetch weights."""
TRUE = ("1", "ON", "YES", "TRUE")
CHILD = Path(__file__).with_name("hub_child.py")
CHILD_ENVIRONMENT = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "0",  # where it is forbidden to fetch, no child is started
}
STALL_S = 300.0
FIXES = {
    "GatedRepoError": "accept its terms on its page, and set HF_TOKEN to a token that may read",
    "RepositoryNotFoundError": "check its name; for a private one set HF_TOKEN",
    "RevisionNotFoundError": "name a commit, branch or tag that its page lists under Files",
    "ModuleNotFoundError": "`make setup` installs it in the models environment",
    "TimeoutError": "run the same command again to go on",
}
Report = Callable[[str], None]


@dataclass(frozen=True)
class HubId:
    """A model on the Hub, at a revision."""

    name: str
    """Organisation and repository: `Qwen/Qwen3-8B`."""
    revision: str = "main"

    @classmethod
    def parse(cls, text: str) -> "HubId":
        """Parse `org/name` or `org/name@revision`. Raises WeightsError."""
        name, at, revision = text.strip().partition("@")
        if not NAME.match(name):
            raise WeightsError(
                f"{text!r}: no name of a model on the Hub; write organisation/name@revision, for "
                "example Qwen/Qwen3-8B@main"
            )
        if HEX.match(revision) and not COMMIT.match(revision):
            raise WeightsError(
                f"{text!r}: {revision!r} is no whole commit ({len(revision)} of 40 hex digits, in "
                "lower case); write all 40, which the model's page shows under Files, History, or "
                "a branch or tag"
            )
        if at and not REFERENCE.match(revision):
            raise WeightsError(
                f"{text!r}: {revision!r} is no revision; write a commit (40 hex digits), a branch "
                "or a tag after the @"
            )
        return cls(name, revision or cls.revision)

    @property
    def is_commit(self) -> bool:
        """Whether the revision is a commit, which always means the same weights."""
        return COMMIT.match(self.revision) is not None

    def __str__(self) -> str:
        return f"{self.name}@{self.revision}"


def is_hub_name(text: str) -> bool:
    """Whether a text names a model of the Hub with its revision, as ``Qwen/Qwen3-8B@main``, and not
    a folder or entry."""
    name, at, revision = text.partition("@")
    return bool(at and revision) and name.count("/") == 1 and not Path(name).is_absolute()


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the cache folder of the Hub's own library, by its environment variables."""
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{caches}/huggingface"
    named = environment.get("HF_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(named)).expanduser()


def resolve_hub(text: str, offline: bool = False, report: Report | None = None) -> Path:
    """Return the folder with the complete snapshot of a model; the folder's name is the commit.

    `text`: NAME or NAME@REVISION, at a commit of 40 hex digits, a branch or a tag. `offline`: use
    no network, as with HF_HUB_OFFLINE. `report` gets the commit of a branch, and the size and
    progress of a download; None prints to stderr. Raises WeightsError with what to do, and
    ModelsEnvironmentMissing if a download is necessary and there is no such environment.
    """
    hub_id, cache, report = HubId.parse(text), cache_folder(), report or _print
    repository = cache / f"models--{hub_id.name.replace('/', '--')}"
    commit = hub_id.revision if hub_id.is_commit else ""
    if not commit and (branch := repository / "refs" / hub_id.revision).is_file():
        commit = branch.read_text(errors="replace").strip()
    have = sorted(each.name for each in (repository / "snapshots").glob("*"))
    if commit in have:
        lacks = _flaw(repository / "snapshots" / commit)
        if not lacks:
            if not hub_id.is_commit:
                report(f"{hub_id} is commit {commit} in {cache}")
            return repository / "snapshots" / commit
    else:
        what = f"commit {commit} is not" if commit else "not"
        lacks = f"{what} in the cache {cache} (commits there: {', '.join(have) or 'none'})"
    if forbidden := _forbidden(offline):
        raise WeightsError(
            f"{hub_id}: {lacks}; {forbidden}: run `hf download {hub_id.name} --revision "
            f"{hub_id.revision} --cache-dir {cache}` where the Hub can be reached, or name a "
            "folder with the weights"
        )
    folder = fetch(hub_id, commit or hub_id.revision, cache, report)
    if lacks := _flaw(folder):
        raise WeightsError(f"{hub_id}: fetched, and yet {lacks}")
    return folder


def hub_weights_here(hub_id: str) -> Path | None:
    """The folder of a model that is complete in the Hub's cache, else None, without downloads."""
    try:
        return resolve_hub(hub_id, offline=True, report=lambda line: None)
    except WeightsError:
        return None


def _flaw(folder: Path) -> str:
    try:
        read_weights(folder)
    except WeightsError as error:
        return str(error)
    return ""


def _forbidden(offline: bool) -> str:
    if os.environ.get(FETCH, "").lower() == "never":
        return f"{FETCH}=never forbids to fetch it"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in TRUE:
        return "HF_HUB_OFFLINE forbids to fetch it"
    return "it may not be fetched offline" if offline else ""


def fetch(hub_id: HubId, revision: str, cache: Path, report: Report) -> Path:
    """Download the missing files of a model, and return its folder. Raises WeightsError,
    ModelsEnvironmentMissing."""
    python = Path(sys.executable) if find_spec("huggingface_hub") else models_python_path()
    if not python.is_file():
        raise ModelsEnvironmentMissing(
            f"no models environment at {python}, whose library fetches from the Hub; run `make "
            "setup`, set TUTTI_MODELS_PYTHON, or name a folder with the weights"
        )
    order = {"name": hub_id.name, "revision": revision, "cache": str(cache), "stall_s": STALL_S}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(python), "-I", str(CHILD)],
            stdin=subprocess.PIPE,  # left open: the child ends when it closes
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **CHILD_ENVIRONMENT},
            start_new_session=True,  # so that it and its own children end together
            text=True,
        )
        try:
            answer = _converse(process, order, report)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            process.communicate()
        errors.seek(0)
        words = " ".join(errors.read().split())[-500:] or "no message"
    if "folder" in answer:
        return Path(answer["folder"])
    kind = answer.get("kind", f"exit code {process.returncode}")
    message = answer.get("error", words)[:400]
    if token := os.environ.get("HF_TOKEN"):
        message = message.replace(token, "***")
    if not kind:
        raise WeightsError(f"{hub_id}: {message}")
    fix = FIXES.get(kind, "try again, or fetch it by hand and name the folder")
    raise WeightsError(f"{hub_id}: cannot be fetched: {kind}: {message}; {fix}")


def _converse(
    process: "subprocess.Popen[str]", order: dict[str, object], report: Report
) -> dict[str, str]:
    """Send the child its order and report its messages; return its last answer, or {}."""
    assert process.stdin is not None and process.stdout is not None, "they are pipes"
    answer: dict[str, str] = {}
    with contextlib.suppress(BrokenPipeError, json.JSONDecodeError):  # its exit code tells why
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if "message" in answer:
                report(answer["message"])
    return answer


def _print(line: str) -> None:
    print(f"tutti: {line}", file=sys.stderr, flush=True)
