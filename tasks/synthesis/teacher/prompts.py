"""The teacher's prompts: files in ``prompts/`` with ``{{names}}`` for values.

The lineage has a file's name, version (its first line, ``version: 1``) and content hash.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti.errors import UsageError
from tutti.storage import content_hash

FOLDER = Path(__file__).with_name("prompts")
VERSION = re.compile(r"version: (\S+)\n")
PLACE = re.compile(r"\{\{([a-z_]+)\}\}")


@dataclass(frozen=True)
class Prompt:
    """A prompt file."""

    name: str
    version: str
    hash: str
    text: str

    @property
    def lineage(self) -> dict[str, str]:
        """Name, version and hash."""
        return {"name": self.name, "version": self.version, "hash": self.hash}

    def render(self, **values: str) -> str:
        """The text with its placeholders filled. Raises UsageError if others are given."""
        places = set(PLACE.findall(self.text))
        if places != values.keys():
            wrong = ", ".join(sorted(places ^ values.keys()))
            raise UsageError(f"prompt {self.name}: places and values differ: {wrong}")
        return PLACE.sub(lambda found: values[found[1]], self.text)


def read_prompts(folder: Path = FOLDER) -> Mapping[str, Prompt]:
    """Return all prompts of a folder by name. Raises UsageError for one without a version."""
    return {file.stem: _read(file) for file in sorted(folder.glob("*.md"))}


def _read(file: Path) -> Prompt:
    text = file.read_text("utf-8")
    found = VERSION.match(text)
    if found is None:
        raise UsageError(f"{file}:1: a prompt begins with `version: NUMBER`")
    return Prompt(file.stem, found[1], content_hash(text.encode()), text[found.end() :].strip())
