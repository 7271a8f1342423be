"""Tests of docs/sweeps.md: its suite files are valid suites, key by key."""

import re
from pathlib import Path

import pytest
import yaml

from tutti.tasks.sweeps.spec.suite import Suite

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sweeps.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_the_example_is_a_suite(block: str) -> None:
    """Examples with only a few keys are valid, too."""
    Suite.model_validate(yaml.safe_load(block))


def test_the_page_names_every_key_that_is_new_to_sweeps() -> None:
    """The keys are those for load, order, limits and stopping."""
    keys = "order load repeat_baseline min_samples_per_session max_cell_s saturation budget "
    keys += "stop_when_decided windows gates"
    missing = [key for key in [*keys.split(), "benchmarks", "models"] if f"{key}:" not in PAGE]
    assert not missing
