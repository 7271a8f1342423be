"""A small model, its settings and its data, for tests of the trainer."""

import json
from pathlib import Path
from random import Random
from typing import Any

from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.trainer.rows import Row

POCKET = Path(__file__).resolve().parents[3] / "assets" / "pocket"


def sums(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return conversations of two turns about sums."""
    rng, rows = Random(seed), []
    for _ in range(count):
        one, other = rng.randint(10, 99), rng.randint(10, 99)
        texts = [f"What is {one} plus {other}?", str(one + other), "Doubled?", str(2 * one)]
        roles = ["user", "assistant"] * 2
        said = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)]
        rows.append({"messages": said})
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def settings(folder: Path, **fields: Any) -> TrainerSettings:
    """Return settings for 40 conversations; fields are JSON."""
    data = write(folder / "data.jsonl", sums(40))
    known: dict[str, Any] = {"base": POCKET, "data": data, "steps": 8, "dtype": "float32"}
    known |= {"optimizer": {"learning_rate": 1e-3}, "batch": {"sequences": 8, "tokens": 512}}
    return TrainerSettings.model_validate(known | fields)


def random_rows(count: int, seed: int, vocabulary: int = 500) -> list[Row]:
    """Return rows of 5 to 60 ids in three turns, of which the second and third are trained."""
    rng, rows = Random(seed), []
    for nth in range(count):
        length = rng.randint(5, 60)
        ids = [rng.randrange(vocabulary) for _ in range(length)]
        cuts = sorted(rng.sample(range(1, length), 2))
        turns = [-1] * cuts[0] + [0] * (cuts[1] - cuts[0]) + [1] * (length - cuts[1])
        values = [rng.uniform(-1, 1) for _ in ids]
        logprobs = [-rng.uniform(0.1, 3) for _ in ids]
        rows.append(Row(ids, turns, values, logprobs, nth % 3 > 0, str(nth)))
    return rows
