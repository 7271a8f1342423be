"""A training set's ids for another trainer: ``python -m tutti.tasks.training.trainer.tokenise``.

In the backend's environment, which has `transformers` and `datasets`. Recorded ids are written as
they are; conversations get the ids that our own trainer gives them, by the base's chat template.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from tutti.tasks.training.trainer.rows import Row, read_rows

IGNORED = -100
"""The label of ids that are not trained, in Hugging Face's trainers."""


def columns_of(row: Row, form: str) -> dict[str, Any]:
    """A row's columns: `labels` as LLaMA-Factory stores them, `mask` as TRL does."""
    ids = list(row.ids)
    if form == "mask":
        return {"input_ids": ids, "completion_mask": [int(turn >= 0) for turn in row.turns]}
    labels = [i if turn >= 0 else IGNORED for i, turn in zip(ids, row.turns, strict=True)]
    # The collator looks for these columns also where there are none.
    empty = {"images": None, "videos": None, "audios": None}
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels} | empty


def main() -> None:
    """Write the dataset; see ``--help``."""
    from datasets import Dataset, DatasetDict
    from transformers import AutoTokenizer

    parser = argparse.ArgumentParser(description="Write a training set's ids for another trainer.")
    parser.add_argument("--base", required=True, type=Path, help="checkpoint folder")
    parser.add_argument("--rows", required=True, type=Path, help="rows of the training set")
    parser.add_argument("--form", required=True, choices=("labels", "mask"))
    parser.add_argument("--max-tokens", type=int, help="longer sequences are left out")
    parser.add_argument("--out", required=True, type=Path, help="folder for the dataset")
    given = parser.parse_args()
    found = read_rows(given.rows, AutoTokenizer.from_pretrained(given.base), given.max_tokens)
    data = Dataset.from_list([columns_of(row, given.form) for row in found.rows])
    DatasetDict({"train": data}).save_to_disk(given.out)
    counts = {"sequences": len(found.rows), "dropped": found.dropped}
    counts["tokens"] = sum(len(row.ids) for row in found.rows)
    (given.out / "counts.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    main()
