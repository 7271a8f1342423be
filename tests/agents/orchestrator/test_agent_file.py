"""Tests of agent files: errors name file, field and value, and the shipped files have the
reference's caps."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agents.orchestrator.play import agent_file, expert
from tutti.tasks.agents.orchestrator import AgentFileError, known_agents, read_agent


def written(folder: Path, content: Any, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return path


def test_every_shipped_file_is_read() -> None:
    """Every shipped file is read by name; most can answer questions and take part in dialogues."""
    shipped = ["negotiation", "pocket", "thunderagent-hle", "toolorchestra", "toolorchestra-frames"]
    assert known_agents() == shipped
    for name in known_agents():
        tools = list(dict(read_agent(name).tools.given()))
        if name == "negotiation":
            assert tools == ["act"]
            continue
        asked = ["search", "enhance_reasoning", "answer", "call_expert"]
        assert tools == (asked[:3] if name == "thunderagent-hle" else asked)
    assert read_agent("pocket").models == {"pocket"}


HLE = {
    "search-1": (None, 40000, 120000),
    "search-3": (1000, 12000, 24000),
    "reasoner-1": (None, 40000, 120000),
    "reasoner-3": (1000, 16000, 24000),
    "answer-1": (None, 40000, 120000),
    "answer-3": (None, 10000, 80000),
    "answer-4": (1000, 12000, 24000),
    "answer-math-1": (None, 1000, 2000),
}
FRAMES = {
    "search-1": (None, 40000, 160000),
    "search-3": (None, 12000, 24000),
    "reasoner-1": (None, 40000, 160000),
    "reasoner-3": (None, 16000, 24000),
    "answer-1": (None, 40000, 160000),
    "answer-3": (None, 40000, 80000),
    "answer-4": (None, 12000, 24000),
    "answer-math-1": (None, 1000, 2000),
}


@pytest.mark.parametrize(
    ("name", "own", "caps", "results"),
    [
        ("toolorchestra", (1200, 8000, 12000, 27000), HLE, 50),
        ("toolorchestra-frames", (4000, 8000, 12000, 24000), FRAMES, 150),
    ],
)
def test_the_presets_have_the_reference_caps(
    name: str, own: tuple[int, ...], caps: dict[str, tuple[int | None, ...]], results: int
) -> None:
    """The caps are document characters, work tokens and total tokens, and for the orchestrator also
    answers."""
    file = read_agent(name)
    prompt = file.prompt
    assert own == (
        prompt.document_chars,
        prompt.answers_tokens,
        prompt.work_tokens,
        prompt.total_tokens,
    )
    experts = {a: e.caps for _, tool in file.tools.given() for a, e in tool.experts.items()}
    found = {a: (c.document_chars, c.work_tokens, c.total_tokens) for a, c in experts.items()}
    assert {alias: found[alias] for alias in caps} == caps
    assert file.tools.search is not None and file.tools.search.results == results


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"calls_a_turn": 0}, "calls_a_turn: Input should be greater than or equal to 1 (given: 0"),
        (
            {"sytem": "x"},
            "sytem: Extra inputs are not permitted; did you mean `system`? (given: 'x')",
        ),
        ({"tools": {}}, "tools: needs `answer`"),
        ({"draw": {"prices": [2, 1]}}, "prices must be two factors above 0, the lower first"),
        ({"escalate": {"budget_usd": 0}}, "escalate.budget_usd"),
    ],
)
def test_errors_name_file_field_and_value(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    tools = {"answer": {"description": "x", "experts": {"a": expert("m")}}}
    path = written(tmp_path, {"system": "s", "tools": tools} | change)
    with pytest.raises(AgentFileError) as caught:
        read_agent(path)
    assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value)


def test_prices_for_one_token_and_exchanged_columns_are_refused(tmp_path: Path) -> None:
    """One of the reference's five price tables was ten times too low, which went unnoticed."""
    for prices in ({"prompt": 1.25e-6, "completion": 1e-5}, {"prompt": 10, "completion": 1.25}):
        tools = {"answer": {"description": "x", "experts": {"a": expert("m", prices=prices)}}}
        with pytest.raises(AgentFileError, match=r"tools\.answer\.experts\.a\.prices"):
            read_agent(written(tmp_path, {"system": "s", "tools": tools}))


def test_an_alias_names_one_expert(tmp_path: Path) -> None:
    """A duplicate alias would make it unclear which expert did what."""
    tool = {"description": "x", "experts": {"a": expert("m")}}
    path = written(tmp_path, {"system": "s", "tools": {"answer": tool, "enhance_reasoning": tool}})
    with pytest.raises(AgentFileError, match="twice: a"):
        read_agent(path)


def test_a_file_extends_another(tmp_path: Path) -> None:
    """The file states the differences at any depth; null removes a tool."""
    change = {"answer": {"experts": {"answer-1": {"model": "mine"}}}, "search": None}
    path = written(tmp_path, {"extends": "toolorchestra", "tools": change})
    file, base = read_agent(path), read_agent("toolorchestra")
    assert file.tools.search is None and file.tools.answer is not None
    assert file.tools.answer.experts["answer-1"].model == "mine"
    assert base.tools.answer is not None
    assert file.tools.answer.experts["answer-2"] == base.tools.answer.experts["answer-2"]
    near = written(tmp_path, {"extends": "mine.yaml", "system": "Other."}, "near.yaml")
    assert read_agent(near).tools == file.tools and read_agent(near).system == "Other."


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    circle = written(tmp_path, {"extends": "mine.yaml"})
    with pytest.raises(AgentFileError, match="in a circle"):
        read_agent(circle)
    with pytest.raises(
        AgentFileError, match="shipped agents: negotiation, pocket, thunderagent-hle, tool"
    ):
        read_agent("toolorchestr")
    with pytest.raises(AgentFileError, match="must be a mapping"):
        read_agent(written(tmp_path, [1]))
    broken = tmp_path / "broken.yaml"
    broken.write_text("system: [")
    with pytest.raises(AgentFileError, match="not YAML"):
        read_agent(broken)


def test_what_a_file_says_decides_its_id() -> None:
    """The id is part of a cell's identity."""
    assert agent_file().agent_id == agent_file().agent_id
    assert agent_file().agent_id != agent_file(calls_a_turn=2).agent_id
    assert agent_file(must_call=True).request == {"tool_choice": "required"}
    assert agent_file(python_s=7).sandbox_limits.seconds == 7
