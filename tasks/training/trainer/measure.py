"""The held-out loss of a checkpoint or adapter: ``python -m tutti.tasks.training.trainer.measure``.

In the models environment. Prints one JSON object: `held_out_loss` (nats per trained token), `rows`
and `tokens`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from tutti.tasks.training.settings import TrainerSettings
from tutti.tasks.training.trainer.model import Policy
from tutti.tasks.training.trainer.rows import read_rows
from tutti.tasks.training.trainer.step import Stepper


def held_out_loss(base: Path, made: Path | None, rows: Path, dtype: str = "auto") -> dict[str, Any]:
    """The loss of `made` (an adapter of the base, or a checkpoint) on all rows of a file.

    Without `made` that of the base.
    """
    is_adapter = made is not None and (made / "adapter_config.json").is_file()
    weights = base if made is None or is_adapter else made
    settings = TrainerSettings.model_validate(
        {"base": weights, "data": rows, "steps": 1, "dtype": dtype}
    )
    policy = Policy(settings)
    if is_adapter:
        from peft import PeftModel

        policy.model = PeftModel.from_pretrained(policy.model, made)
    policy.model.eval()
    found = read_rows(rows, policy.tokenizer, None).rows
    loss = Stepper(policy, settings).held_out_loss(found)
    tokens = sum(row.trained for row in found)
    return {"held_out_loss": loss, "rows": len(found), "tokens": tokens}


def main() -> None:
    """Measure and print; see ``--help``."""
    parser = argparse.ArgumentParser(description="Measure the loss on held-out rows.")
    parser.add_argument("--base", required=True, type=Path, help="checkpoint folder")
    parser.add_argument("--made", type=Path, help="adapter or checkpoint; default: the base")
    parser.add_argument("--rows", required=True, type=Path, help="rows of a training set")
    parser.add_argument("--out", type=Path, help="folder for the figures")
    given = parser.parse_args()
    figures = held_out_loss(given.base, given.made, given.rows)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "measured.json").write_text(json.dumps(figures))
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
