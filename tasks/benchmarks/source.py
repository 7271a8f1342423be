"""The files of a benchmark: a local path, or a pinned revision of the Hugging Face hub.

The hub needs the package huggingface_hub, which tutti does not install.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import current_home
from tutti.tasks.benchmarks.errors import SourceMissing
from tutti.tasks.benchmarks.prepared import as_published
from tutti.tasks.benchmarks.rows import Row, read_rows

NAMED_FILES = 8  # files of a folder shown in an error


@dataclass(frozen=True)
class Hub:
    """A data set on the Hugging Face hub."""

    repository: str
    """``owner/name``."""
    revision: str
    """The commit, 40 hex digits, that is used where the user names no other."""


@dataclass(frozen=True)
class Files:
    """A benchmark's files on this machine."""

    root: Path
    paths: tuple[Path, ...]

    def rows(self) -> Iterator[Row]:
        """Every row of every file. Raises BadRow."""
        for path in self.paths:
            yield from read_rows(path)

    def published(self) -> Iterator[Row]:
        """Yield every row under its publisher's names, also of a file that NeMo-Skills prepared.
        Raises BadRow."""
        return map(as_published, self.rows())


Download = Callable[[Hub, Sequence[str], Path], Path]
"""Downloads the files that match the patterns into a cache folder; returns that folder."""


def from_hub(hub: Hub, patterns: Sequence[str], cache: Path) -> Path:
    """Download `hub`'s files. Raises SourceMissing if huggingface_hub is not installed, or the
    download fails. Data sets behind a licence (GPQA, HLE) need a token, which huggingface_hub reads
    from its own environment variable."""
    try:
        library = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise SourceMissing(
            f"{hub.repository} is on the Hugging Face hub, and huggingface_hub is not installed: "
            f"`{sys.executable} -m pip install huggingface_hub`, or give the data's folder with "
            "--source"
        ) from error
    try:
        found = library.snapshot_download(
            repo_id=hub.repository,
            repo_type="dataset",
            revision=hub.revision,
            allow_patterns=list(patterns),
            cache_dir=str(cache),
        )
    except (OSError, ValueError) as error:  # its own errors (no network, no access) are OSErrors
        what = f"{hub.repository}@{hub.revision}"
        raise SourceMissing(f"{what} could not be downloaded from the hub: {error}") from error
    return Path(found)


@dataclass(frozen=True)
class Source:
    """The source of a benchmark: a path, or (without one) the hub."""

    path: Path | None = None
    """A file, or a folder with the benchmark's files as their publisher names them."""
    split: str | None = None
    """None for the benchmark's default."""
    revision: str | None = None
    """Revision on the hub, instead of the pinned one."""
    download: Download = from_hub

    def files(
        self, name: str, hub: Hub | None, patterns: Sequence[str], also: Sequence[str] = ()
    ) -> Files:
        """The files of benchmark `name`: those of the first of `patterns` that matches any. From
        the hub, the files that match `also` are downloaded too. Raises SourceMissing."""
        if self.path is not None:
            if self.revision is not None:
                raise SourceMissing(
                    f"{name}@{self.revision}: a revision is the hub's; the files under {self.path} "
                    "are as they are. Leave out one of the two"
                )
            return find_files(self.path, patterns)
        if hub is None:
            raise SourceMissing(
                f"{name} is not on the hub: give the folder that has its data "
                f"({' or '.join(patterns)}) with --source"
            )
        wanted = Hub(hub.repository, self.revision or hub.revision)
        root = self.download(wanted, [*patterns, *also], current_home().root / "benchmarks")
        return find_files(root, patterns)


def find_files(path: Path, patterns: Sequence[str]) -> Files:
    """The files under `path` that match the first pattern with any match; `path` itself if it is a
    file. Raises SourceMissing."""
    if path.is_file():
        return Files(path.parent, (path,))
    if not path.is_dir():
        raise SourceMissing(f"source: {path} does not exist")
    for pattern in patterns:
        found = tuple(sorted(found for found in path.glob(pattern) if found.is_file()))
        if found:
            return Files(path, found)
    there = sorted(member.name for member in path.iterdir())
    more = f" and {len(there) - NAMED_FILES} more" if len(there) > NAMED_FILES else ""
    raise SourceMissing(
        f"{path} holds none of {', '.join(patterns)}; "
        f"it holds {', '.join(there[:NAMED_FILES]) or 'nothing'}{more}"
    )
