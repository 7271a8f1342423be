"""Tests that the examples of docs/orchestrator.md are valid and run."""

import contextlib
import io
import re
from pathlib import Path

import yaml

from tutti.tasks.agents.orchestrator import known_agents, read_agent
from tutti.tasks.sweeps.spec.suite import Suite

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "orchestrator.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_suite_and_the_file_are_valid(tmp_path: Path) -> None:
    suite, own = blocks("yaml")
    assert Suite.model_validate(yaml.safe_load(suite)).name == "hle-orchestrated"
    path = tmp_path / "own.yaml"
    path.write_text(own)
    file, base = read_agent(path), read_agent("toolorchestra")
    assert file.tools.enhance_reasoning is None and "my-70b" in file.models - base.models
    assert file.calls_a_turn is None and file.escalate is not None and file.draw is not None


def test_the_program_runs() -> None:
    (program,) = blocks("python")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(program, "docs/orchestrator.md", "exec"), {})
    assert "answer-1" in said.getvalue()


def test_every_shipped_file_is_named() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \| (?:the|tutti)", PAGE, re.MULTILINE) == [
        "toolorchestra",
        "toolorchestra-frames",
        "thunderagent-hle",
        "pocket",
        "negotiation",
    ]
    assert len(known_agents()) == 5
