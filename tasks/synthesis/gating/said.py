"""Whether what an agent said has what it must communicate, by tau2's rule."""

from collections.abc import Sequence


def communicates(said: str, wanted: Sequence[str]) -> list[str]:
    """The wanted facts that `said` lacks. A fact is there if it is a substring, both in lower case
    and without commas (tau2, ``evaluator_communicate``)."""
    text = _plain(said)
    return [each for each in wanted if _plain(each) not in text]


def _plain(text: str) -> str:
    return text.lower().replace(",", "")
