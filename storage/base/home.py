"""The location of all data, TUTTI_HOME, and its files, each complete or absent.

TUTTI_HOME may be a URL (``s3://bucket/tutti``, or any other that fsspec supports): the tables'
parts are stored there, and `root` is a scratch folder of this machine. Local files are written
under a temporary name, synced and renamed; remote ones are uploaded in one request.
"""

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath
from stat import S_ISDIR
from typing import Any

from tutti.storage.base.errors import StoreError


@dataclass(frozen=True)
class Home:
    """The location of one store's folders."""

    root: Path
    remote: str | None = None
    """The URL of the tables; None if they are under `root`."""

    def __str__(self) -> str:
        return self.remote or str(self.root)

    @property
    def tables(self) -> Path:
        """Parquet parts, one folder per table."""
        return self.root / "tables"

    @property
    def artifacts(self) -> Path:
        """Indexes, training sets, checkpoints and reports, one folder per artifact."""
        return self.root / "artifacts"

    @property
    def logs(self) -> Path:
        """Logs of the processes tutti starts."""
        return self.root / "logs"

    @property
    def quarantine(self) -> Path:
        """Files moved away by `tutti verify --repair`."""
        return self.root / "quarantine"

    @property
    def catalog_file(self) -> Path:
        """The SQLite catalog, unless TUTTI_CATALOG_URL names another database."""
        return self.root / "catalog.db"

    def artifact_folder(self, artifact_id: str) -> Path:
        """The folder of one artifact (colons are replaced: they are not portable in paths)."""
        return self.artifacts / artifact_id.replace(":", "-")


def home_at(place: str | Path) -> Home:
    """The store at a folder or a URL. Creates no folder."""
    text = str(place)
    if "://" not in text:
        return Home(Path(text).absolute())
    url = text.rstrip("/")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    scratch = cache / "tutti" / hashlib.sha256(url.encode()).hexdigest()[:16]
    return Home(scratch, remote=url)


def current_home() -> Home:
    """The store named by TUTTI_HOME, ``./.tutti`` if it is not set. Creates no folder."""
    return home_at(os.environ.get("TUTTI_HOME") or ".tutti")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write, which replaces `path` at the block's end, also across a power cut.
    After an error in the block `path` is unchanged, and nothing else is left."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class FileState:
    """A file's metadata, known without reading the file."""

    path: str
    """Relative to the store, with forward slashes."""
    bytes: int
    mtime_ns: int | None
    """None if the file system has no modification times."""


class LocalFiles:
    """Files under a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, data: memoryview) -> FileState:
        """Write a file completely or not at all, also in case of a power cut."""
        final = self.root / path
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(final) as temporary:
                temporary.write_bytes(data)
            _sync_folder(final.parent)
        except BaseException:
            final.unlink(missing_ok=True)
            raise
        return FileState(path, len(data), final.stat().st_mtime_ns)

    def get(self, path: str) -> bytes:
        """A file's bytes. Raises FileNotFoundError."""
        return (self.root / path).read_bytes()

    def state(self, path: str) -> FileState | None:
        """A file's size and time; None if it does not exist."""
        try:
            found = os.stat(self.root / path)
        except FileNotFoundError:
            return None
        return FileState(path, found.st_size, found.st_mtime_ns)

    def list(self, folder: str) -> Iterator[FileState]:
        """Every file below `folder`."""
        for found in sorted((self.root / folder).rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # renamed or removed since the listing
                stat = found.lstat()
                if not S_ISDIR(stat.st_mode):
                    path = str(PurePosixPath(found.relative_to(self.root)))
                    yield FileState(path, stat.st_size, stat.st_mtime_ns)

    def move(self, path: str, to: str) -> None:
        """Rename a file within the store."""
        target = self.root / to
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.root / path, target)
        _sync_folder(target.parent)

    def move_some(self, paths: Iterable[str], folder: str) -> int:
        """Rename those of `paths` that exist to the same path below `folder`; return their number.
        The renames are durable at the end; one that a power cut undoes can be repeated."""
        moved, changed = 0, set()
        for path in paths:
            source, target = self.root / path, self.root / folder / path
            if not source.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
            changed |= {source.parent, target.parent}
            moved += 1
        for each in changed:
            _sync_folder(each)
        return moved

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is not an error."""
        (self.root / path).unlink(missing_ok=True)

    def url(self, path: str) -> str:
        """The path for DuckDB."""
        return str(self.root / path)


class RemoteFiles:
    """Files below an fsspec URL. Object stores show an object only when its upload is complete."""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self.fs, self.root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise StoreError(f"TUTTI_HOME={url}: {error}") from error
        self.scheme = url.split("://", 1)[0]

    def put(self, path: str, data: memoryview) -> FileState:
        """Upload a file in one piece."""
        self.fs.makedirs(self._at(path).rsplit("/", 1)[0], exist_ok=True)
        self.fs.pipe_file(self._at(path), bytes(data))
        return FileState(path, len(data), None)

    def get(self, path: str) -> bytes:
        """A file's bytes. Raises FileNotFoundError."""
        data: bytes = self.fs.cat_file(self._at(path))
        return data

    def state(self, path: str) -> FileState | None:
        """A file's size; None if it does not exist."""
        try:
            found = self.fs.info(self._at(path))
        except FileNotFoundError:
            return None
        return FileState(path, int(found["size"]), None)

    def list(self, folder: str) -> Iterator[FileState]:
        """Every file below `folder`."""
        self.fs.invalidate_cache()
        found = self.fs.find(self._at(folder), detail=True)
        for path, info in sorted(found.items()):
            yield FileState(path[len(self.root) :].lstrip("/"), int(info["size"]), _written(info))

    def move(self, path: str, to: str) -> None:
        """Rename a file within the store (a copy and a removal, for most object stores)."""
        self.fs.makedirs(self._at(to).rsplit("/", 1)[0], exist_ok=True)
        self.fs.mv(self._at(path), self._at(to))

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is not an error."""
        if self.fs.exists(self._at(path)):
            self.fs.rm_file(self._at(path))

    def url(self, path: str) -> str:
        """The URL for DuckDB, through this file system."""
        return f"{self.scheme}://{self._at(path).lstrip('/')}"

    def upload(self, folder: Path, path: str) -> None:
        """Put a local folder (or file) at `path`."""
        for found in [folder] if folder.is_file() else sorted(folder.rglob("*")):
            if found.is_file():
                at = path if found == folder else f"{path}/{found.relative_to(folder).as_posix()}"
                self.fs.makedirs(self._at(at).rsplit("/", 1)[0], exist_ok=True)
                self.fs.put_file(str(found), self._at(at))

    def download(self, path: str, folder: Path) -> None:
        """Download what `upload` stored, completely or not at all. Raises FileNotFoundError."""
        found = self.fs.find(self._at(path))
        if not found:
            raise FileNotFoundError(self._at(path))
        temporary = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
        for each in found:
            below = each.split(path, 1)[1].lstrip("/")  # empty if the artifact is a single file
            target = temporary / below if below else temporary
            target.parent.mkdir(parents=True, exist_ok=True)
            self.fs.get_file(each, str(target))
        temporary.rename(folder)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"


@cache
def files_of(home: Home) -> LocalFiles | RemoteFiles:
    """The files of a store."""
    return RemoteFiles(home.remote) if home.remote else LocalFiles(home.root)


def _written(info: dict[str, Any]) -> int | None:
    stamp = info.get("LastModified") or info.get("created") or info.get("mtime")
    if isinstance(stamp, datetime):
        stamp = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    return None if stamp is None else int(float(stamp) * 1e9)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
