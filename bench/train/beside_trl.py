"""Our trainer beside TRL's SFTTrainer, in the models environment: same model, rows and order.

Each repeat trains both for the same steps on the same rows, one after the other. Then the largest
difference of our objectives to TRL's, on random batches. Prints one JSON object.
Run: ``python -m bench.train.beside_trl --repeats 3 --steps 12``.
"""

import argparse
import json
import logging
import time
import warnings
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch

from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.objectives.losses import objective
from tutti.tasks.training.trainer.model import Policy
from tutti.tasks.training.trainer.rows import Row, conversation_rows
from tutti.tasks.training.trainer.step import Stepper

POCKET = Path(__file__).resolve().parents[2] / "assets" / "pocket"
BATCH = 32
LEARNING_RATE = 1e-4


def conversations(count: int, seed: int) -> list[list[dict[str, str]]]:
    """Dialogues of one to four turns: questions of 10 to 60 words, answers of 3 to 20."""
    rng, made = Random(seed), []
    words = "the of and value list name module returns default parameter number sum of".split()

    def text(low: int, high: int) -> str:
        return " ".join(rng.choice(words) for _ in range(rng.randint(low, high)))

    for _ in range(count):
        turns = [("user", text(10, 60)), ("assistant", text(3, 20))] * rng.randint(1, 4)
        made.append([{"role": role, "content": said} for role, said in turns])
    return made


def ours(settings: TrainerSettings, rows: list[Row]) -> float:
    """Tokens per second of our steps."""
    torch.manual_seed(0)
    stepper = Stepper(Policy(settings), settings)
    stepper.take(rows[:BATCH], LEARNING_RATE)  # the first step allocates
    began = time.monotonic()
    for first in range(BATCH, len(rows), BATCH):
        stepper.take(rows[first : first + BATCH], LEARNING_RATE)
    return sum(len(row.ids) for row in rows[BATCH:]) / (time.monotonic() - began)


def trls(settings: TrainerSettings, rows: list[Row], folder: str) -> float:
    """Tokens per second of TRL's SFTTrainer on the same rows, in the same order."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    class Clock(TrainerCallback):  # type: ignore[misc]  # transformers is not in this environment
        """When the first step was over."""

        after_first = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 1:
                self.after_first = time.monotonic()

    data = Dataset.from_list(
        [
            {
                "input_ids": list(row.ids),
                "completion_mask": [int(turn >= 0) for turn in row.turns],
            }
            for row in rows
        ]
    )
    config = SFTConfig(
        output_dir=folder, per_device_train_batch_size=BATCH, max_steps=len(rows) // BATCH,
        learning_rate=LEARNING_RATE, use_cpu=not torch.cuda.is_available(), bf16=True,
        gradient_checkpointing=False, report_to="none", logging_steps=1000, save_strategy="no",
        completion_only_loss=True, disable_tqdm=True, max_length=None, shuffle_dataset=False,
        dataloader_pin_memory=False,
    )  # fmt: skip
    policy, clock = Policy(settings), Clock()
    trainer = SFTTrainer(
        model=policy.model, args=config, train_dataset=data, processing_class=policy.tokenizer,
        callbacks=[clock],
    )  # fmt: skip
    trainer.train()
    return sum(len(row.ids) for row in rows[BATCH:]) / (time.monotonic() - clock.after_first)


def largest_difference() -> float:
    """Of losses and gradients, ours to TRL's, over objectives and random batches."""
    from tests.training.objectives import trl_losses
    from tests.training.objectives.batches import batch

    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("grpo", {"kl": 0.3}, {"beta": 0.3}),
        ("dapo", {}, {"loss_type": "dapo", "clip": (0.2, 0.28)}),
        ("dr_grpo", {}, {"loss_type": "dr_grpo"}),
        ("gspo", {}, {"level": "sequence", "clip": (3e-4, 4e-4)}),
        ("cispo", {"high": 1.5}, {"loss_type": "cispo", "clip": (0.2, 2.5)}),
    ]
    most = 0.0
    for seed in range(20):
        made = batch(seed)
        inputs = {"advantages": made.advantage, "old_per_token_logps": made.behaviour}
        inputs["ref_per_token_logps"] = made.reference
        for name, settings, theirs in cases:
            loss = objective(name, settings)(made.flat(made.logp), made.tokens(), made.sizes).value
            other = trl_losses.grpo_loss(made.logp, made.mask, inputs, **theirs)
            pair = [torch.autograd.grad(e, made.logp, retain_graph=True)[0] for e in (loss, other)]
            most = max(most, (loss - other).abs().item(), (pair[0] - pair[1]).abs().max().item())
    return most


def main() -> None:
    """See ``--help``."""
    parser = argparse.ArgumentParser(description="Our trainer beside TRL's.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found: dict[str, Any] = {"ours": [], "trl": []}
    with TemporaryDirectory() as folder:
        settings = TrainerSettings.model_validate(
            {"base": POCKET, "data": POCKET, "steps": given.steps, "batch": {"sequences": BATCH}}
        )
        tokenizer = Policy(settings).tokenizer
        every = conversations(BATCH * (given.steps + 1), seed=0)
        rows = [row for each in every for row in conversation_rows(tokenizer, each, None)]
        rows = rows[: BATCH * (given.steps + 1)]
        for _ in range(given.repeats):
            found["trl"].append(trls(settings, rows, folder))
            found["ours"].append(ours(settings, rows))
    found["difference"] = largest_difference()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
