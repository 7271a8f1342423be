"""Tests that ToolOrchestra's address lists and tool descriptions become files that tutti reads."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.benchmarks.conftest import data as data  # the fixture
from tutti.cli.main import app
from tutti.tasks.agents.orchestrator.agent_file import read_agent
from tutti.tasks.serving.registry.models import read_registry

ADDRESSES: dict[str, Any] = {
    "/weights/Nemotron-Orchestrator-8B": [{"ip_addr": "10.0.0.1", "port": "1406"}],
    "Qwen/Qwen3-32B": [{"ip_addr": "node7", "port": 1403}, {"ip_addr": "node8", "port": "1403"}],
    "retrieval": [{"ip_addr": "10.0.0.1", "port": "1401"}],
    "vllm_model_config_path": "/home/someone/model_config.json",
    "oss_expert_mapping": {"answer-1": "Qwen/Qwen3-32B"},
}
TABLE = (
    "The model used to answer. Choices: ['answer-1', 'answer-2']. answer-1 solves most problems. "
    "answer-2 is fast, but errs.\nModel | price per million input tokens | price per million "
    "output tokens | average latency\nanswer-1 | $1.5 | $11 | 96s\nanswer-2 | $$0.2 | $2 | 27s"
)


def tool(name: str, description: str) -> dict[str, Any]:
    """Return a tool as in their file."""
    model = {"description": description, "type": "string"}
    parameters = {"properties": {"model": model}, "required": ["model"], "type": "object"}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def written(folder: Path, addresses: Any = ADDRESSES, tools: Any = None) -> Result:
    """Run `tutti init` with both files."""
    (folder / "model_config.json").write_text(json.dumps(addresses))
    (folder / "tools.json").write_text(json.dumps(tools or [tool("answer", TABLE)]))
    asked = ["init", "new", "--model-config", "model_config.json", "--tools", "tools.json"]
    return CliRunner().invoke(app, asked, env={"TUTTI_HOME": ".tutti", "COLUMNS": "200"})


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)


def test_addresses_are_entries(tmp_path: Path) -> None:
    """Each address becomes one entry, named by the end of its path; services and the path inside do
    not."""
    made = written(tmp_path)
    assert made.exit_code == 0, made.output
    registry = read_registry(tmp_path / "new/models.yaml")
    assert {name: model.endpoint for name, model in registry.items()} == {
        "Nemotron-Orchestrator-8B": "http://10.0.0.1:1406/v1",
        "Qwen3-32B": "http://node7:1403/v1",
        "Qwen3-32B-2": "http://node8:1403/v1",
    }
    assert registry["Qwen3-32B-2"].served_name == "Qwen/Qwen3-32B"
    suite = yaml.safe_load((tmp_path / "new/orchestrator.yaml").read_text())
    assert suite["roles"]["search_url"] == "http://10.0.0.1:1401"
    assert suite["model"] == "Nemotron-Orchestrator-8B"


def test_experts_come_from_the_table(tmp_path: Path) -> None:
    """Each expert has its prices, latency and skill; experts missing in their file are removed, and
    a mapped one has its model."""
    written(tmp_path)
    agent = read_agent(str(tmp_path / "new/agent.yaml"))
    assert agent.tools.answer is not None
    experts = agent.tools.answer.experts
    assert list(experts) == ["answer-1", "answer-2"]
    first = experts["answer-1"]
    assert (first.prices.prompt, first.prices.completion, first.latency_s) == (1.5, 11.0, 96.0)
    assert first.skills == ("Solves most problems.",) and first.model == "Qwen3-32B"
    assert experts["answer-2"].prices.prompt == 0.2  # a doubled sign in their file


def test_their_own_file_is_read(data: Path, tmp_path: Path) -> None:
    """The published tools.json gives all twelve experts as in tutti's own agent."""
    file = data / "orchestrator_tools.json"
    if not file.is_file():
        pytest.skip(f"no {file}")
    made = written(tmp_path, tools=json.loads(file.read_text()))
    assert made.exit_code == 0, made.output
    ours, base = read_agent(str(tmp_path / "new/agent.yaml")), read_agent("toolorchestra")
    for name, given in ours.tools.given():
        if name == "call_expert":
            continue
        (known,) = (tool for other, tool in base.tools.given() if other == name)
        assert {a: (e.prices, e.latency_s) for a, e in given.experts.items()} == {
            a: (e.prices, e.latency_s) for a, e in known.experts.items()
        }


BAD: list[tuple[Any, Any, str]] = [
    ([], None, "model_config.json: "),
    ({"m": "10.0.0.1"}, None, "m: Input should be a valid list"),
    ({"m": [{"ip_addr": "h"}]}, None, "m.0.port: Field required"),
    ({"m": [{"ip_addr": "h", "port": "x"}]}, None, "m.0.port: Input should be a valid integer"),
    ({"m": [{"ip_addr": "h/../x", "port": 1}]}, None, "m.0.ip_addr: String should match"),
    ({"retrieval": [{"ip_addr": "h", "port": 1}]}, None, "no model has an address"),
    (
        {name: [{"ip_addr": "h", "port": 1}] for name in ("a/m", "b/m")},
        None,
        "b/m and a/m would both be the entry m",
    ),
    (
        ADDRESSES | {"oss_expert_mapping": [1]},
        None,
        "mapping: Input should be a valid dict",
    ),
    (ADDRESSES, [tool("answer", "no table")], "answer: no line `alias | $in | $out | seconds s`"),
    (ADDRESSES, [{"function": {}}], "0: no tool with a parameter `model`"),
    (ADDRESSES, [tool("guess", TABLE)], "guess: toolorchestra has the tools search"),
    (ADDRESSES, [tool("search", TABLE)], "search: answer-1 is none of search-1"),
]


@pytest.mark.parametrize(("addresses", "tools", "message"), BAD)
def test_bad_files_are_refused_and_nothing_is_written(
    tmp_path: Path, addresses: Any, tools: Any, message: str
) -> None:
    made = written(tmp_path, addresses, tools)
    assert made.exit_code == 2 and message in made.stderr
    assert not (tmp_path / "new").exists()
