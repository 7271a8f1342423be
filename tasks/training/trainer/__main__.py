"""The trainer's process: ``python -m tutti.tasks.training.trainer --settings FILE --out FOLDER``.

It runs in the models environment. With ``--work FOLDER`` it trains a policy on the batches that
appear there (`serve`), otherwise on a fixed set. It prints one JSON object per report, which the
platform reads from its log. It exits with 5 if it saved its state before its wall-time limit.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tutti.errors import ExitCode
from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.trainer.fit import OutOfTime, fit
from tutti.tasks.training.trainer.rows import BadData
from tutti.tasks.training.trainer.serve import serve
from tutti.tasks.training.trainer.step import Diverged
from tutti.tasks.training.trainer.world import join_world


def main() -> None:
    """Train and save the model; see ``--help``."""
    parser = argparse.ArgumentParser(description="Train a checkpoint, or a policy on batches.")
    parser.add_argument("--settings", required=True, type=Path, help="TrainerSettings, JSON")
    parser.add_argument("--out", required=True, type=Path, help="folder for the checkpoint")
    parser.add_argument("--state", type=Path, help="file from which a stopped training goes on")
    parser.add_argument("--work", type=Path, help="folder of a policy's batches and weights")
    given = parser.parse_args()
    settings, out = TrainerSettings.model_validate_json(given.settings.read_text()), given.out
    try:
        with join_world() as world:

            def report(row: dict[str, Any]) -> None:
                if world.is_first:
                    print(json.dumps(row), flush=True)

            if given.work is not None:
                return serve(settings, given.work, out, report, world)
            out.mkdir(parents=True, exist_ok=True)
            try:
                card = fit(settings, out, given.state or out / "state.pt", report, world)
            except OutOfTime as saved:
                report({"saved": saved.step})
                sys.exit(ExitCode.INCOMPLETE)
            if world.is_first:
                (out / "training.json").write_text(json.dumps(card, indent=1))
    except (BadData, Diverged, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
