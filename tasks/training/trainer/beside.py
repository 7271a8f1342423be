"""Work for other trainers: ``python -m tutti.tasks.training.trainer.beside WORK …``.

`tokenise` writes a training set's ids, in the backend's environment. `trl` trains with TRL's
SFTTrainer, and `measure` prints the held-out loss of a checkpoint or adapter (nats per trained
token), both in the models environment.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tutti.tasks.training.jobs.settings import LoraSettings, TrainerSettings
from tutti.tasks.training.trainer.rows import Row, read_rows

IGNORED = -100
"""The label of ids that are not trained, in Hugging Face's trainers."""


def columns_of(row: Row, form: str) -> dict[str, Any]:
    """Return a row's columns: `labels` as LLaMA-Factory stores them, `mask` as TRL does."""
    ids = list(row.ids)
    if form == "mask":
        return {"input_ids": ids, "completion_mask": [int(turn >= 0) for turn in row.turns]}
    labels = [i if turn >= 0 else IGNORED for i, turn in zip(ids, row.turns, strict=True)]
    # The collator looks for these columns also where there are none.
    empty = {"images": None, "videos": None, "audios": None}
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels} | empty


def tokenise(given: argparse.Namespace) -> None:
    """Write the ids of a training set: recorded ids unchanged, and conversations by the base's chat
    template, as our own trainer does."""
    from datasets import Dataset, DatasetDict
    from transformers import AutoTokenizer

    found = read_rows(given.rows, AutoTokenizer.from_pretrained(given.base), given.max_tokens)
    data = Dataset.from_list([columns_of(row, given.form) for row in found.rows])
    DatasetDict({"train": data}).save_to_disk(given.out)
    counts = {"sequences": len(found.rows), "dropped": found.dropped}
    (given.out / "counts.json").write_text(json.dumps(counts))


def measure(given: argparse.Namespace) -> None:
    """Print the loss of `--made`, an adapter of the base or a checkpoint, on all rows of a file."""
    from tutti.tasks.training.trainer.model import Policy
    from tutti.tasks.training.trainer.step import Stepper

    is_adapter = (given.made / "adapter_config.json").is_file()
    weights = given.base if is_adapter else given.made
    settings = TrainerSettings(base=weights, data=given.rows, steps=1)
    policy = Policy(settings)
    if is_adapter:
        from peft import PeftModel

        policy.model = PeftModel.from_pretrained(policy.model, given.made)
    policy.model.eval()
    rows = read_rows(given.rows, policy.tokenizer, None).rows
    given.out.mkdir(parents=True, exist_ok=True)
    print(json.dumps({"held_out_loss": Stepper(policy, settings).held_out_loss(rows)}), flush=True)


def trl(given: argparse.Namespace) -> None:
    """Train with the configuration `--config`; write the checkpoint or adapter, and
    `trainer_log.jsonl`, into its `output_dir`."""
    import torch
    from datasets import load_from_disk
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    from tutti.tasks.training.trainer.model import lora_config

    settings, began = json.loads(given.config.read_text()), time.monotonic()
    config = SFTConfig(**{"use_cpu": not torch.cuda.is_available()} | settings["config"])
    log = Path(config.output_dir) / "trainer_log.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)

    class LogFile(TrainerCallback):  # type: ignore[misc]  # not in this environment
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            nonlocal began
            began = time.monotonic()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if state.is_world_process_zero:
                entry = {"step": state.global_step, "elapsed_s": time.monotonic() - began}
                with log.open("a") as out:
                    out.write(json.dumps(entry | (logs or {})) + "\n")

    lora = settings["lora"]
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(settings["base"], dtype=torch.float32),
        args=config,
        train_dataset=load_from_disk(settings["data"])["train"],
        processing_class=AutoTokenizer.from_pretrained(settings["base"]),
        peft_config=None if lora is None else lora_config(LoraSettings.model_validate(lora)),
        callbacks=[LogFile()],
    )
    trainer.train()
    trainer.save_model(config.output_dir)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Work beside other trainers.")
    parser.add_argument("work", choices=("tokenise", "measure", "trl"))
    parser.add_argument("--base", type=Path, help="checkpoint folder")
    parser.add_argument("--made", type=Path, help="adapter or checkpoint to measure")
    parser.add_argument("--rows", type=Path, help="rows of the training set")
    parser.add_argument("--form", choices=("labels", "mask"), help="columns of the ids")
    parser.add_argument("--max-tokens", type=int, help="longer sequences are left out")
    parser.add_argument("--config", type=Path, help="configuration of TRL")
    parser.add_argument("--out", type=Path, help="folder for the result")
    arguments = parser.parse_args()
    {"tokenise": tokenise, "measure": measure, "trl": trl}[arguments.work](arguments)
