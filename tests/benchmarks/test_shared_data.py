"""Tests that every task of the available public data loads and renders."""

from pathlib import Path

import pytest

from tests.benchmarks.conftest import load
from tutti.tasks.benchmarks import ExcludedRow, benchmark_named, load_prompt, select

COUNTS = {
    "gsm8k": ("gsm8k", 1319),
    "ifeval": ("ifeval", 541),
    "frames": ("frames", 824),
    "api-bank-1": ("api-bank", 389),
    "api-bank-2": ("api-bank", 119),
    "tau2-airline": ("tau2", 50),
    "tau2-banking": ("tau2", 97),
    "tau2-mock": ("tau2", 10),
    "tau2-retail": ("tau2", 114),
    "tau2-telecom": ("tau2", 20),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_item_loads_and_renders(data: Path, name: str) -> None:
    """The number of tasks is that of the data, all tasks differ, and each has a prompt."""
    folder, count = COUNTS[name]
    tasks = load(name, data / folder, [])
    assert len(tasks) == count
    assert len({task.task_id for task in tasks}) == count
    prompt = load_prompt(benchmark_named(name).prompt)
    for task in tasks:
        messages = prompt.render(task)
        assert messages and all(
            message["content"] or message.get("tool_calls") for message in messages
        )


def test_what_is_selected(data: Path) -> None:
    """Tasks can be selected by the attributes of real data."""
    tasks = load("tau2-retail", data / "tau2")
    assert len(select(tasks, where="split = 'test'")) == 40
    assert len(select(tasks, where="actions::int > 5 and rewards like 'DB%'", limit=3)) == 3


def test_what_is_left_out(data: Path) -> None:
    """The three API-Bank dialogues without a call are listed with the reason."""
    left: list[ExcludedRow] = []
    load("api-bank-1", data / "api-bank", left)
    load("api-bank-2", data / "api-bank", left)
    assert [(one.id.split("-")[0], one.reason) for one in left] == [
        ("RegisterUser", "no line of it is a call"),
        ("SearchEngine", "the dialogue is empty"),
        ("QueryReminder", "no line of it is a call"),
    ]
