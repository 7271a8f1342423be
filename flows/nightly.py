"""The flow `nightly`: the suite ``deployments/suites/nightly.yaml``, on a schedule."""

from datetime import UTC, datetime
from pathlib import Path

from prefect import flow

from flows.bench import MODELS, SUITES
from flows.sweep import eval_sweep
from tasks.sweeps.suite import read_suite


@flow(name="nightly")
async def nightly(suite_file: Path = SUITES / "nightly.yaml", models: Path = MODELS) -> str:
    """Measure the nightly suite and report it.

    Args:
        suite_file: The suite to measure.
        models: The model registry file.

    Returns the sweep's id.
    """
    suite = read_suite(suite_file)
    # The night is part of the sweep's name, or the next one would find every cell measured.
    night = datetime.now(UTC).strftime("%Y-%m-%d")
    return await eval_sweep(suite.model_copy(update={"name": f"{suite.name}-{night}"}), models)
