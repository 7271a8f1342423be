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
    """The folders of one store."""

    root: Path
    remote: str | None = None
    """The URL that holds the tables; None when they lie under `root`."""

    def __str__(self) -> str:
        return self.remote or str(self.root)

    @property
    def tables(self) -> Path:
        """Parquet parts, one folder a table."""
        return self.root / "tables"

    @property
    def artifacts(self) -> Path:
        """Indexes, training sets, checkpoints and reports, one folder an artifact."""
        return self.root / "artifacts"

    @property
    def logs(self) -> Path:
        """Logs of the processes tutti starts."""
        return self.root / "logs"

    @property
    def quarantine(self) -> Path:
        """What `tutti verify --repair` moved away."""
        return self.root / "quarantine"

    @property
    def catalog_file(self) -> Path:
        """The SQLite catalog, where TUTTI_CATALOG_URL names no other."""
        return self.root / "catalog.db"

    def artifact_folder(self, artifact_id: str) -> Path:
        """The folder of one artifact (a colon is no good in paths)."""
        return self.artifacts / artifact_id.replace(":", "-")


def home_at(place: str | Path) -> Home:
    """The store at a folder or a URL. Makes no folder."""
    text = str(place)
    if "://" not in text:
        return Home(Path(text).absolute())
    url = text.rstrip("/")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    scratch = cache / "tutti" / hashlib.sha256(url.encode()).hexdigest()[:16]
    return Home(scratch, remote=url)


def current_home() -> Home:
    """The store named by TUTTI_HOME, ``./.tutti`` when it is not set. Makes no folder."""
    return home_at(os.environ.get("TUTTI_HOME") or ".tutti")
