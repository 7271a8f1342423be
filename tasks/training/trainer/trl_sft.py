"""Trains with TRL's SFTTrainer: ``python -m tutti.tasks.training.trainer.trl_sft trl.json``.

In the models environment. Writes the checkpoint or adapter, and `trainer_log.jsonl`, into the
configuration's `output_dir`.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import load_from_disk
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

from tutti.tasks.training.settings import LoraSettings
from tutti.tasks.training.trainer.model import lora_config


class LogFile(TrainerCallback):  # type: ignore[misc]  # transformers is not in this environment
    """Writes each log entry as a line of JSON."""

    def __init__(self, file: Path) -> None:
        self.file, self.began = file, time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Seconds count from here."""
        self.began = time.monotonic()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Append an entry with its step."""
        if state.is_world_process_zero:
            with self.file.open("a") as out:
                entry = {"step": state.global_step, "elapsed_s": time.monotonic() - self.began}
                out.write(json.dumps(entry | (logs or {})) + "\n")


def main() -> None:
    """Train to the end and save."""
    given = json.loads(Path(sys.argv[1]).read_text())
    config = SFTConfig(**{"use_cpu": not torch.cuda.is_available()} | given["config"])
    out = Path(config.output_dir)
    out.mkdir(parents=True, exist_ok=True)
    log = out / "trainer_log.jsonl"
    log.unlink(missing_ok=True)
    lora = given["lora"]
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(given["base"], dtype=torch.float32),
        args=config,
        train_dataset=load_from_disk(given["data"])["train"],
        processing_class=AutoTokenizer.from_pretrained(given["base"]),
        peft_config=None if lora is None else lora_config(LoraSettings.model_validate(lora)),
        callbacks=[LogFile(log)],
    )
    trainer.train()
    trainer.save_model(str(out))


if __name__ == "__main__":
    main()
