"""Set-ups in narrow tables: what all rows share is said once, and equal notes are one line."""

from collections.abc import Iterable, Sequence


def apart(set_ups: Sequence[str]) -> tuple[str, list[str]]:
    """What all set-ups share, and what is left of each.

    A set-up is comma-separated parts: ``gsm8k, pocket, cap, 8 at once``. One alone is left whole.
    """
    parts = [each.split(", ") for each in set_ups]
    if len(set(set_ups)) < 2:
        return "", list(set_ups)
    shared = [part for part in parts[0] if all(part in each for each in parts)]
    own = [", ".join(part for part in each if part not in shared) for each in parts]
    return ", ".join(shared), own


def grouped(notes: Iterable[tuple[str, str]]) -> list[str]:
    """(set-up, note) pairs as lines, one for each note: ``note: set-ups``, or ``note`` where all
    set-ups have it."""
    by_note: dict[str, list[str]] = {}
    names = set()
    for name, note in notes:
        by_note.setdefault(note, []).append(name)
        names.add(name)
    return [
        note if set(own) == names else f"{note}: {'; '.join(dict.fromkeys(own))}"
        for note, own in by_note.items()
    ]
