"""Fine-tune a checkpoint with LoRA on conversations. Runs in the models environment.

In: ``--base`` (checkpoint folder), ``--conversations`` (JSONL). Out: a PEFT adapter in ``--out``
that vLLM loads at run time, and ``training.json``. Prints one JSON line for every report.
Run: ``python -m tutti.tasks.training.lora --help``.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from tutti.tasks.training.pocket.train import (
    Recipe,
    batches,
    collate,
    encode,
    loss_of,
    read_conversations,
)

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
WARMUP_SHARE = 0.1


def main() -> None:
    """Train and save; see ``--help``."""
    parser = argparse.ArgumentParser(description="Fine-tune a checkpoint with LoRA.")
    parser.add_argument("--base", required=True, help="checkpoint folder")
    parser.add_argument("--conversations", required=True, help="training conversations, JSONL")
    parser.add_argument("--out", required=True, help="folder for the adapter")
    parser.add_argument("--seconds", type=float, default=60.0, help="train for this long")
    parser.add_argument("--max-steps", type=int, default=10_000, help="at most this many steps")
    parser.add_argument("--rank", type=int, default=16, help="rank of the adapter")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--tokens-per-batch", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    tokenizer = AutoTokenizer.from_pretrained(given.base)
    base = AutoModelForCausalLM.from_pretrained(given.base, dtype=torch.float32)
    base.to("cuda" if torch.cuda.is_available() else "cpu")
    lora = LoraConfig(
        r=given.rank, lora_alpha=2 * given.rank, target_modules=TARGETS, task_type="CAUSAL_LM"
    )
    model = get_peft_model(base, lora)
    samples = [encode(tokenizer, c) for c in read_conversations(Path(given.conversations))]
    result = _fit(model, samples, tokenizer.pad_token_id, given)
    model.save_pretrained(given.out)
    (Path(given.out) / "training.json").write_text(json.dumps(vars(given) | result, indent=1))


def _fit(model: Any, samples: list[Any], pad: int, given: argparse.Namespace) -> dict[str, Any]:
    recipe = Recipe(tokens_per_batch=given.tokens_per_batch, prompt_loss_share=0.0)
    rng = Random(given.seed)
    stream = batches(_reshuffled(samples, rng), recipe, rng)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=given.learning_rate, weight_decay=0.0)
    device = next(model.parameters()).device
    started, tokens, step = time.monotonic(), 0, 0
    model.train()
    while step < given.max_steps and (elapsed := time.monotonic() - started) < given.seconds:
        drawn = next(stream)
        # The schedule depends on time: a slower machine makes fewer steps but still finishes the
        # schedule.
        share = max(elapsed / given.seconds, step / given.max_steps)
        optimizer.param_groups[0]["lr"] = given.learning_rate * min(
            (share + 0.01) / WARMUP_SHARE, 1.0 - 0.95 * share
        )
        ids, targets, weights = (part.to(device) for part in collate(drawn, pad, recipe))
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss, accuracy = loss_of(model.base_model.model, ids, targets, weights)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += sum(len(ids) for ids, _ in drawn)
        step += 1
        if step == 1 or step % 10 == 0:
            speed = tokens / (time.monotonic() - started)
            row = {"step": step, "tokens": tokens, "loss": round(loss.item(), 4)}
            row |= {"token_accuracy": round(accuracy, 4), "tokens_per_s": round(speed)}
            row["seconds"] = round(time.monotonic() - started, 1)
            print(json.dumps(row), flush=True)
    return {"steps": step, "tokens": tokens, "train_s": time.monotonic() - started}


def _reshuffled(samples: list[Any], rng: Random) -> Iterator[Any]:
    while True:
        yield from rng.sample(samples, len(samples))


if __name__ == "__main__":
    main()
