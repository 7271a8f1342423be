"""A model on the Hugging Face Hub as a folder on this machine.

In: name and revision. Out: the folder of the snapshot, whole; its name is the commit. The cache is
read first, without network and library: a branch that it knows is not asked for again, so that the
same entry means the same weights until somebody fetches anew. What it lacks is fetched by the Hub's
own library in the models environment, after its size was told and the disk's room was looked at.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.hub_cache import (
    COMMIT,
    HubId,
    cache_folder,
    cached_commit,
    repository_folder,
)
from tutti.tasks.serving.weights.hub_fetch import fetch
from tutti.tasks.serving.weights.reading import read_weights

FETCH = "TUTTI_FETCH"
"""`never` forbids to fetch weights."""
TRUE = ("1", "ON", "YES", "TRUE")
"""What the Hub's own library takes for true."""

Report = Callable[[str], None]


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
