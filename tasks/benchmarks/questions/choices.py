"""Multiple choice: letters, the text of the options, and a reproducible shuffle."""

import hashlib
from collections.abc import Sequence

from tutti.tasks.benchmarks.rows import Row

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def options_text(options: Sequence[str]) -> str:
    """The options in a prompt's format: ``A) first``, one per line."""
    return "\n".join(f"{LETTERS[place]}) {text}" for place, text in enumerate(options))


def place_of(row: Row, name: str, count: int) -> int:
    """The place that a letter in field `name` means, of `count` options. Raises BadRow."""
    letter = row.text(name).strip()
    if len(letter) != 1 or letter not in LETTERS[:count]:
        row.bad(name, f"{letter!r} is no letter of {count} options")
    return LETTERS.index(letter)


def shuffled(count: int, item_id: str) -> list[int]:
    """A permutation of `count` places that depends on `item_id` alone: the same on every machine,
    in every version of Python, and for every trial."""
    return sorted(
        range(count), key=lambda place: hashlib.sha256(f"{item_id}|{place}".encode()).digest()
    )
