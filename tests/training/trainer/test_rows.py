"""Tests of rows of training data: labels and names are kept, and a pair has both sides or none."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

import pyarrow as pa
import pyarrow.parquet as pq
from transformers import AutoTokenizer

from tests.training.trainer.pocket import POCKET, sums, write
from tutti.tasks.training.trainer.rows import BadData, RowSet, read_rows

TOKENIZER = AutoTokenizer.from_pretrained(POCKET)


def recorded(folder: Path, *lengths: int) -> Path:
    """Return pairs whose sides have these numbers of ids, one after the other; all but the first id
    are trained."""
    rows = [
        {
            "name": f"a{nth}",
            "ids": [7] * length,
            "turns": [-1] + [0] * (length - 1),
            "values": [1.0] * length,
            "logprobs": [-0.1] * length,
            "wanted": nth % 2 == 0,
            "pair": nth // 2,
        }
        for nth, length in enumerate(lengths)
    ]
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def sides(found: RowSet) -> list[tuple[str, bool, int | None]]:
    return [(row.name, row.wanted, row.pair) for row in found.rows]


def test_a_side_that_is_too_long_takes_the_other_with_it(tmp_path: Path) -> None:
    """Otherwise every row after it would be compared with another pair's side."""
    found = read_rows(recorded(tmp_path, 5, 4, 3, 90, 6, 6, 1, 4), TOKENIZER, max_tokens=50)
    assert sides(found) == [("a0", True, 0), ("a1", False, 0), ("a4", True, 2), ("a5", False, 2)]
    assert found.dropped == {"too long": 1, "nothing trained": 1, "other side of a pair": 2}
    assert len(read_rows(recorded(tmp_path, 5, 4), TOKENIZER, None).rows) == 2


def test_nothing_is_left_of_broken_pairs(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no sequence to train on"):
        read_rows(recorded(tmp_path, 5, 90), TOKENIZER, max_tokens=50)


def test_conversations_bring_name_label_and_pair(tmp_path: Path) -> None:
    """KTO and DPO use them; a conversation without a label is desirable."""
    said = sums(3)
    labels: list[dict[str, Any]] = [
        {"name": "x", "wanted": True, "pair": 0},
        {"name": "y", "wanted": False, "pair": 0},
        {},
    ]
    rows = [one | label for one, label in zip(said, labels, strict=True)]
    found = read_rows(write(tmp_path / "said.jsonl", rows), TOKENIZER, None)
    assert sides(found) == [("x", True, 0), ("y", False, 0), ("", True, None)]


def test_a_side_of_several_sequences_is_no_side(tmp_path: Path) -> None:
    """A template that rewrites earlier turns makes several sequences of one conversation."""
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.content }}"
        f"{tokenizer.eos_token}{{% endif %}}{{% endfor %}}"
    )
    pairs: list[dict[str, Any]] = []
    for nth, one in enumerate(sums(2)):
        short = {"messages": one["messages"][:2]}
        other = one if nth == 0 else short
        pairs.append(short | {"name": f"{nth}+", "wanted": True, "pair": nth})
        pairs.append(other | {"name": f"{nth}-", "wanted": False, "pair": nth})
    found = read_rows(write(tmp_path / "said.jsonl", pairs), tokenizer, None)
    assert sides(found) == [("1+", True, 1), ("1-", False, 1)]
    assert found.dropped["several sequences for a side of a pair"] == 2
