"""Tests that every family proposes questions that its own oracle can solve, from documents
alone."""

from pathlib import Path
from random import Random

import pytest

from tutti.tasks.agents import ToolUse
from tutti.tasks.retrieval.corpus import Document, Parameter, load_stdlib_corpus
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.synthesis.families.expression import program_for
from tutti.tasks.synthesis.families.task import entry_lines, labelled
from tutti.tasks.task_sets import TASK, Task, task_line

DOCUMENTS = [
    Document("heapq.nlargest", "heapq", "function",
             (Parameter("n", None), Parameter("iterable", None), Parameter("key", "None")),
             "Find the n largest elements in a dataset."),
    Document("functools.lru_cache", "functools", "function",
             (Parameter("maxsize", "128"), Parameter("typed", "False")), "Least-recently-used."),
    Document("math.gcd", "math", "function", (Parameter("*integers", None),), "Divisor."),
    Document("builtins.str.upper", "builtins", "method", (), "Upper case."),
    Document("json.JSONEncoder", "json", "class",
             tuple(Parameter(f"p{i}", "8") for i in range(9)), "Too long to ask about."),
]  # fmt: skip


def solve(task: Task) -> str:
    """Run the oracle with the documents themselves and Python."""

    def use(tool: ToolUse) -> str:
        if tool.name == "search":
            query = tool.arguments["query"]
            return "\n\n".join(d.text for d in DOCUMENTS if query in (d.name, d.short_name))
        printed: list[str] = []
        exec(tool.arguments["code"], {"print": lambda value: printed.append(str(value))})
        return printed[0]

    oracle = FAMILIES[task.family].solve(task.slots)
    tool = next(oracle)
    try:
        while True:
            tool = oracle.send(use(tool))
    except StopIteration as finished:
        return str(finished.value)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_oracle_solves_what_its_family_asks(name: str) -> None:
    tasks = [t for seed in range(20) for t in FAMILIES[name].propose(DOCUMENTS, Random(seed))]
    assert tasks, f"{name} asks nothing about these documents"
    for task in tasks:
        assert solve(task) == task.target["answer"], task
        assert not any(str(task.target["answer"]) == slot for slot in task.slots.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_seed_asks_the_same(name: str) -> None:
    first, second = (list(FAMILIES[name].propose(DOCUMENTS, Random(7))) for _ in range(2))
    assert first == second
    assert [t.task_id for t in first] == [t.task_id for t in second]


def test_long_signatures_are_not_asked_about() -> None:
    for name in ("parameter", "default", "arithmetic", "last_parameter"):
        for task in FAMILIES[name].propose(DOCUMENTS, Random(0)):
            assert "JSONEncoder" not in task.inputs["question"]


def test_a_result_without_the_document_is_an_error_not_a_guess() -> None:
    with pytest.raises(LookupError, match=r"did not return 'heapq.nsmallest'"):
        entry_lines(DOCUMENTS[0].text, "heapq.nsmallest")
    with pytest.raises(LookupError, match="no line starts"):
        labelled(DOCUMENTS[0].text.splitlines(), "returns")


def test_programs_import_what_the_expression_names() -> None:
    assert program_for("math.gcd(4, 6)") == "import math; print(math.gcd(4, 6))"
    assert program_for("'a'.upper()") == "print('a'.upper())"


def test_a_task_survives_its_file() -> None:
    task = next(iter(FAMILIES["arithmetic"].propose(DOCUMENTS, Random(0))))
    assert TASK.validate_json(task_line(task)) == task


def test_expressions_do_not_depend_on_where_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any folder and for any user, the real corpus gives the same expressions."""
    documents = load_stdlib_corpus()
    here = list(FAMILIES["expression"].propose(documents, Random(0)))
    (tmp_path / "river").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/r")
    assert list(FAMILIES["expression"].propose(documents, Random(0))) == here
    assert len(here) > 200
