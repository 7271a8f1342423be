"""Where data lives: TUTTI_HOME and its folders. Nothing outside it is written."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """The folders of one store."""

    root: Path

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
    def catalog_file(self) -> Path:
        """The SQLite catalog, where TUTTI_CATALOG_URL names no other."""
        return self.root / "catalog.db"

    def artifact_folder(self, artifact_id: str) -> Path:
        """The folder of one artifact (a colon is no good in paths)."""
        return self.artifacts / artifact_id.replace(":", "-")


def current_home() -> Home:
    """The store named by TUTTI_HOME, ``./.tutti`` when it is not set. Makes no folder."""
    return Home(Path(os.environ.get("TUTTI_HOME") or ".tutti").absolute())
