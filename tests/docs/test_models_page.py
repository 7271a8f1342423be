"""Tests of docs/models.md: its registry is valid and has every provider, and its table has every
field."""

import re
from pathlib import Path

import yaml

from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.registry.models import PROVIDERS, Model, read_registry

PAGE = (PROJECT / "docs" / "models.md").read_text()


def test_the_examples_read_and_show_every_provider(tmp_path: Path) -> None:
    """The page's example is read as a registry unchanged."""
    (text,) = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "\nmodels:" in
               f"\n{block}"]  # fmt: skip
    path = tmp_path / "models.yaml"
    path.write_text(text)
    models = read_registry(path)
    assert {model.provider for model in models.values()} == set(PROVIDERS)
    assert models["gpt-azure-dated"].query == {"api-version": "2024-10-21"}
    assert models["gpt"].fields == {"reasoning_effort": "none", "temperature": None}


def test_the_commented_examples_of_our_registry_read(tmp_path: Path) -> None:
    """Without their comment signs they are valid entries."""
    text = (PROJECT / "deployments" / "models.yaml").read_text()
    examples = text.partition("# Examples")[2].partition("\n")[2]
    read = yaml.safe_load(re.sub(r"(?m)^  # ?", "", examples))
    assert {Model(**entry).provider for entry in read.values()} >= {"openai", "vllm"}


def test_the_table_has_every_field() -> None:
    first_cells = re.findall(r"(?m)^\| (`.*?) \|", PAGE)
    told = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert told == set(Model.model_fields)
