"""Names of models on the Hugging Face Hub, and what its cache on this machine holds of them.

In: `Qwen/Qwen3-8B@main`. Out: the commit and the folder of its snapshot. Nothing here asks the
network or needs a library. The cache's form: `models--org--name/` with `refs/<branch>` (a commit),
`snapshots/<commit>/` (links) and `blobs/` (contents, by hash)
(https://huggingface.co/docs/huggingface_hub/guides/manage-cache).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti.tasks.serving.errors import WeightsError

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
