"""The content of a settings model that determines a result, for ids.

In: a validated model. Out: its fields as JSON. A field is in it unless its declaration excludes it:
``prices: Annotated[Prices | None, NOT_IN_ID]``. Fields of suites have marks instead
(`tasks.sweeps.spec.marks`).
"""

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

EXACT = 2**53  # a float's whole numbers below this have one neighbour each


@dataclass(frozen=True)
class NotInId:
    """Mark of a field that is not part of its model's content."""

    through: str | None = None  # the way it reaches ids; None: it changes no result


NOT_IN_ID = NotInId()


def identity_of(settings: BaseModel, defaults: bool = True) -> dict[str, Any]:
    """Return the content of `settings`; without `defaults`, only fields that differ from them."""
    apart = {
        name
        for name, field in type(settings).model_fields.items()
        if any(isinstance(mark, NotInId) for mark in field.metadata)
    }
    return settings.model_dump(mode="json", exclude=apart, exclude_defaults=not defaults)


def plain_numbers(value: Any) -> Any:
    """Return plain JSON, in which 5 and 5.0 are one number: 5."""
    if isinstance(value, dict):
        return {name: plain_numbers(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(each) for each in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < EXACT
    return int(value) if is_whole else value


def files_named(line: str) -> dict[str, str]:
    """Return hashes of the files that a shell line names, by word: relative paths, and paths below
    the current folder, but not links that lead out of it."""
    here, found = Path.cwd(), {}
    for word in shlex.split(line):
        path = Path(word)
        is_ours = not path.is_absolute() or path.is_relative_to(here)
        leads_out = path.is_symlink() and not path.resolve().is_relative_to(here)
        if is_ours and not leads_out and path.is_file():
            found[word] = file_hash(path)
    return found


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
