"""Invented names: they mean nothing outside an instance, so that no model knows them."""

from random import Random

ONSETS = "b br d dr f fl g gr h k kl l m n p pr r s st t tr v z".split()
VOWELS = "a e i o u ae ou".split()
CODAS = "l m n r s k rn lm st nd v th".split()


class NameMaker:
    """Gives names of which none is part of another, so that a text holds one only where it is
    meant."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taken: list[str] = []

    def name(self, syllables: int = 2) -> str:
        """A new name with a capital letter."""
        while True:
            parts = [self._rng.choice(ONSETS) + self._rng.choice(VOWELS) for _ in range(syllables)]
            name = "".join(parts) + self._rng.choice(CODAS)
            if len(name) >= 5 and not any(name in old or old in name for old in self._taken):
                self._taken.append(name)
                return name.capitalize()

    def names(self, count: int, syllables: int = 2) -> list[str]:
        """So many new names."""
        return [self.name(syllables) for _ in range(count)]
