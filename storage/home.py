"""The location of all data: TUTTI_HOME and its folders. Nothing outside it is written.

TUTTI_HOME may be a URL (``s3://bucket/tutti``, or any other that fsspec supports). The tables'
parts are then stored there, and `root` is a scratch folder on this machine for programs that need
local files.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path


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
        """The folder of one artifact (colons are replaced, because they are not portable in
        paths)."""
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
