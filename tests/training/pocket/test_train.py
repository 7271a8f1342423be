"""Tests of the pocket model's training: the trained tokens of a conversation, and a few steps end
to end."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

from transformers import AutoTokenizer  # noqa: E402

from tests.training.trainer.pocket import POCKET  # noqa: E402
from tutti.tasks.retrieval import load_stdlib_corpus  # noqa: E402
from tutti.tasks.training.pocket.shadow import shadow_conversations  # noqa: E402
from tutti.tasks.training.pocket.train import Recipe, collate, encode  # noqa: E402

pytestmark = pytest.mark.timeout(300)
DOCUMENTS = [each for each in load_stdlib_corpus() if each.split == "train"][:200]


def test_answers_weigh_1_and_prompts_seldom_a_little() -> None:
    """The model's own text is trained to the end of each turn; padding never is."""
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    said = list(itertools.islice(shadow_conversations(DOCUMENTS, 0), 6))
    rows = [encode(tokenizer, each) for each in said]
    pad = tokenizer.pad_token_id
    ids, targets, weights = collate(rows, pad, Recipe(prompt_loss_share=1.0))
    assert ids.shape == targets.shape == weights.shape
    for nth, (row, messages) in enumerate(zip(rows, said, strict=True)):
        n = len(row.ids)
        assert targets[nth, : n - 1].tolist() == list(row.ids[1:])
        assert weights[nth, n - 1 :].sum() == 0
        assert sorted(set(weights[nth, : n - 1].tolist())) == pytest.approx([0.2, 1.0])
        written = tokenizer.decode(targets[nth][weights[nth] == 1.0])
        turns = [each for each in messages if each["role"] == "assistant"]
        assert written.count("<|im_end|>") == len(turns)
        assert written.endswith(f"{turns[-1]['content']}<|im_end|>")


def test_a_few_steps_give_a_checkpoint(tmp_path: Path) -> None:
    said = list(itertools.islice(shadow_conversations(DOCUMENTS, 1), 12))
    files = {"corpus": [each.as_row() for each in DOCUMENTS]}
    files |= {"trajectories": [{"messages": each} for each in said[:8]]}
    files |= {"held-out": [{"messages": each} for each in said[8:]]}
    command = [sys.executable, "-m", "tutti.tasks.training.pocket.train"]
    for name, rows in files.items():
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        command += [f"--{name}", str(file)]
    small = {"steps": 3, "hidden": 32, "layers": 1, "intermediate": 64, "compile": 0}
    small |= {"tokens-per-batch": 1024, "heads": 2, "kv-heads": 2, "head-dim": 16}
    command += [word for name, value in small.items() for word in (f"--{name}", str(value))]
    command += ["--out", str(tmp_path / "out"), "--report-every", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert [row["step"] for row in record["log"]] == [0, 1, 2]
    assert record["log"][-1]["held_out_exact"] == 0.0 and record["tokens"] > 1500
    assert (tmp_path / "out" / "model.safetensors").is_file()
