"""Drawing scenarios by a seed, and writing the files of a benchmark's splits.

Run ``python -m tutti.tasks.benchmarks.negotiation.drawing FOLDER [SEED]``.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

from tutti.tasks.benchmarks.negotiation.scenario import SIDES, Kind, Party, Scenario

KINDS: tuple[Kind, ...] = ("conceder", "linear", "boulware", "tit_for_tat")
"""Counterparts of the splits train, validation and test."""
UNSEEN_KINDS: tuple[Kind, ...] = ("impatient",)
"""Counterparts of the split unseen only."""
SPLITS = {
    "train": (400, KINDS),
    "validation": (100, KINDS),
    "test": (260, KINDS),
    "unseen": (100, UNSEEN_KINDS),
}
"""Scenarios that tutti ships, and the counterparts in them."""
SEED = 18
LOWEST, HIGHEST = (10, 20), (85, 99)  # two digits: a price is as long for every model
LIMIT_SHARE = (0.0, 0.2)  # of the prices, that a party's limit leaves on its bad side
ZONE = (0.70, 0.95)  # of the way from the own limit to the best price, where the other's limit is
OPENING = (0.0, 0.2)  # of the surplus, that the counterpart's first offer leaves
ROUNDS = (4, 6)


def drawn_scenario(name: str, seed: int, kinds: Sequence[Kind]) -> Scenario:
    """Return the scenario of this name and seed."""
    draw = Random(f"{seed} {name}")
    low, high = draw.randint(*LOWEST), draw.randint(*HIGHEST)
    left = int(draw.uniform(*LIMIT_SHARE) * (high - low))
    own = Party("buyer", high - left, low)
    other_limit = own.price(draw.uniform(*ZONE))
    opening = own.limit - int(draw.uniform(*OPENING) * (own.limit - other_limit))
    rounds, kind = draw.randint(*ROUNDS), draw.choice(kinds)
    made = Scenario(name, "buyer", own.limit, other_limit, low, high, opening, rounds, kind)
    return made if draw.choice(SIDES) == "buyer" else made.mirrored()


def drawn_split(split: str, seed: int = SEED) -> Iterator[Scenario]:
    """Yield every scenario of a split."""
    count, kinds = SPLITS[split]
    for number in range(count):
        yield drawn_scenario(f"{split}-{number:03}", seed, kinds)


def write_splits(folder: Path, seed: int = SEED) -> None:
    """Write one file per split."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        lines = [json.dumps(asdict(each)) + "\n" for each in drawn_split(split, seed)]
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write_splits(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
