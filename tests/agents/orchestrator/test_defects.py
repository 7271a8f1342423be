"""Tests of defects of the reference that this orchestrator does not have.

Other defects are tested with their subjects: errors of programs, infinite waits, dropped tools and
hidden sentences in dialogues, prices for one token, split characters.
"""

import asyncio
from typing import Any

import pytest

from tests.agents.orchestrator.play import (
    Found,
    Runner,
    Script,
    agent_file,
    call,
    calls,
    expert,
    play,
)
from tutti.tasks.agents.orchestrator import read_agent
from tutti.tasks.sandbox import Sandbox, SandboxResult
from tutti.tasks.sandbox.walls import strongest_level

CODE = "```python\nprint(7)\n```"


def test_a_broken_call_does_not_repeat_the_one_before() -> None:
    """In the reference, arguments that were invalid JSON left those of the previous call in
    place."""
    orchestrator = Script(
        call("enhance_reasoning", "reasoner-2"),
        calls(("enhance_reasoning", "{broken")),
        call("answer", "answer-2"),
    )
    models = {"coder": Script(CODE), "small": Script("\\boxed{7}")}
    runner = Runner(SandboxResult("7\n", "ok", 0.1))
    done, _ = play(orchestrator, models, sandbox=runner)
    assert len(runner.ran) == 1 and done.tool_runs[1][3].error_type == "malformed_call"


def test_a_second_search_is_allowed_and_the_same_tool_twice() -> None:
    """FRAMES removed `search` as soon as there was one document."""
    orchestrator = Script(*[call("search", "search-2")] * 2, call("answer", "answer-2"))
    models = {"small": Script("<query>one thing</query>", "<query>another</query>", "\\boxed{7}")}
    search = Found([("1", "First.")], [("2", "Second.")])
    done, _ = play(orchestrator, models, search=search)
    assert search.asked == [("one thing",), ("another",)] and done.answer == "7"
    assert orchestrator.tools[0] == orchestrator.tools[2]


def test_the_models_name_changes_no_prompt() -> None:
    """In the reference, prompts, caps and arguments depended on substrings of the model's name."""
    seen = []
    for name in ("gpt-5", "some-qwen-tune", "/models/claude"):
        tools = {"answer": {"description": "x", "experts": {"a": expert(name, skills="Good.")}}}
        orchestrator, model = Script(call("answer", "a")), Script("\\boxed{7}")
        play(orchestrator, {name: model}, agent_file(tools=tools))
        seen.append((orchestrator.seen, orchestrator.tools, model.seen, model.tools))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("alias", ["reasoner-1", "reasoner-2"])
def test_programs_of_every_expert_run(alias: str) -> None:
    """FRAMES parsed programs of Claude only and ran none of any other expert."""
    models = {"big": Script(CODE), "coder": Script(CODE), "small": Script("\\boxed{7}")}
    runner = Runner(SandboxResult("7\n", "ok", 0.1))
    play(
        Script(call("enhance_reasoning", alias), call("answer", "answer-2")), models, sandbox=runner
    )
    assert runner.ran == ["print(7)"]


def test_a_program_sees_none_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the reference, a program inherited the API keys and had network access."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-ours")
    code = "```python\nimport os\nprint(sorted(os.environ), os.getcwd())\n```"
    models = {"coder": Script(code), "small": Script("\\boxed{7}")}
    orchestrator = Script(call("enhance_reasoning", "reasoner-2"), call("answer", "answer-2"))
    sandbox: Any = Sandbox(strongest_level(), agent_file(python_s=20).sandbox_limits)
    done, _ = play(orchestrator, models, sandbox=sandbox)
    told = done.tool_runs[0][3].content
    assert done.tool_runs[0][3].status == "ok"
    assert "OPENAI_API_KEY" not in told and "work/main" not in told


def test_costs_are_counted_in_dollars_a_million() -> None:
    """One of the reference's five price tables was ten times too low, and none was used."""
    file = read_agent("toolorchestra")
    assert file.tools.answer is not None
    prices = file.tools.answer.experts["answer-1"].prices
    assert prices.cost_usd(1_000_000, 100_000) == pytest.approx(2.25)


def test_the_same_replies_give_the_same_prompts_in_whatever_order_they_come() -> None:
    """Parallel calls of one turn may end in any order; their results are entered in the order of
    the calls."""
    turn = calls(*[("search", f'{{"model": "search-{n}"}}') for n in (1, 2)])

    def prompt(slow: str) -> str:
        class Late(Script):
            async def complete(self, *given: Any, **more: Any) -> Any:
                await asyncio.sleep(0.01 if self is models[slow] else 0)
                return await super().complete(*given, **more)

        class ByQuery(Found):
            def _one(self, query: str) -> Any:
                self.batches = [[(query, f"About {query}.")]]
                return super()._one(query)

        models: dict[str, Script] = {
            "big": Late("<query>the first</query>", "\\boxed{7}"),
            "small": Late("<query>the second</query>"),
        }
        orchestrator = Script(turn, call("answer", "answer-1"))
        play(orchestrator, models, agent_file(calls_a_turn=None), search=ByQuery())
        return orchestrator.prompt(1)

    assert prompt("big") == prompt("small")
