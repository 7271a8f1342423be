"""A job, a base and a set for tests of backends."""

import json
from pathlib import Path
from typing import Any

from tests.training.trainer.pocket import POCKET, sums
from tutti.storage import Catalog
from tutti.tasks.training import TrainingData, TrainingSet, TrainJob, conversation_set

OPTIMIZER = {"learning_rate": 2e-3, "schedule": "constant", "warmup_share": 0.0}


def job(backend: str, **fields: Any) -> TrainJob:
    """Return a job that every backend can train."""
    known: dict[str, Any] = {
        "base": str(POCKET),
        "data": {"file": "said.jsonl"},
        "lora": {"rank": 8},
    }
    known |= {"optimizer": OPTIMIZER, "batch": {"sequences": 8}, "steps": 3, "name": "sums"}
    return TrainJob.model_validate(known | {"backend": backend} | fields)


def conversations(folder: Path, catalog: Catalog) -> TrainingSet:
    """Return 24 conversations of two turns, and 6 held out."""
    file = folder / "said.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in sums(30)))
    return conversation_set(TrainingData(file=file, held_out_share=0.2), catalog)
