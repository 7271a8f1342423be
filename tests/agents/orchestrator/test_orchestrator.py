"""Tests of the orchestrator in the agent loop: experts do the work, and prompts show the
results."""

from typing import Any

import pytest

from tests.agents.orchestrator.play import (
    PROBLEM,
    Found,
    Runner,
    Script,
    agent_file,
    call,
    calls,
    experts_of,
    play,
)
from tutti.tasks.agents.loop import Agent
from tutti.tasks.agents.models.model import ContextExceeded, ModelCallFailed
from tutti.tasks.agents.orchestrator import Orchestrator
from tutti.tasks.sandbox import Sandbox, SandboxResult
from tutti.tasks.sandbox.walls import strongest_level

CODE = "Here:\n```python\nprint(6 * 7)\n```"


def test_search_reason_answer() -> None:
    """A full attempt: the calls of experts, the content of each prompt, and the stored
    trajectory."""
    orchestrator = Script(
        call("search", "search-2"),
        call("enhance_reasoning", "reasoner-2"),
        call("answer", "answer-1"),
        cost_usd=0.1,
    )
    models = {
        "small": Script("<query>the question</query>", cost_usd=1),
        "coder": Script(CODE, cost_usd=2),
        "big": Script("It is \\boxed{42}.", cost_usd=4),
    }
    search = Found([("d1", "The best."), ("d2", "The worst.")])
    runner = Runner(SandboxResult("42\n", "ok", 0.1))
    done, _ = play(orchestrator, models, search=search, sandbox=runner)
    assert (done.status, done.stop_reason, done.answer) == ("ok", "answered", "42")
    assert done.text == "It is \\boxed{42}." and done.messages[-1]["role"] == "assistant"
    assert search.asked == [("the question",)] and runner.ran == ["print(6 * 7)"]
    second = orchestrator.prompt(1)
    assert second.index("The worst.") < second.index("The best.")
    third = orchestrator.prompt(2)
    assert "print(6 * 7)" in third and "by reasoner-2; it ended: ok; output:\n```\n42" in third
    assert "The best." in models["coder"].prompt() and "42" in models["big"].prompt()
    assert done.cost_usd == pytest.approx(0.3 + 7) and done.held_s == 3.0
    assert [models[name].steps for name in ("small", "coder", "big")] == [[1], [2], [3]]
    retrieved = done.tool_runs[0][3].retrievals
    assert [row["doc_ids"] for row in retrieved] == [["d1", "d2"]]
    assert [run[3].cost_usd for run in done.tool_runs] == [1, 2, 4]


def test_every_prompt_is_a_selection_of_what_is_stored() -> None:
    """Each prompt is the system message and the newest evidence, so a reader of the trajectory can
    reconstruct it."""
    orchestrator = Script(call("search", "search-1"), call("answer", "answer-1"))
    models = {"big": Script("<query>some words</query>", "\\boxed{1}")}
    done, made = play(orchestrator, models, search=Found([("d", "A text.")]))
    assert orchestrator.seen[0] == made.opening == done.messages[:2]
    assert orchestrator.seen[1] == [done.messages[0], done.messages[4]]
    assert list(done.call_ids) == [2, 5], "the expert's words are not the orchestrator's"


def test_experts_are_known_by_alias_alone() -> None:
    """Prompts show skills, prices and latency, but not the models behind the aliases."""
    orchestrator, models = Script(call("answer", "answer-1")), {"big": Script("\\boxed{1}")}
    play(orchestrator, models, agent_file())
    (tools,) = orchestrator.tools
    answer = tools[2]["function"]
    assert answer["parameters"]["properties"]["model"]["enum"] == ["answer-1", "answer-2"]
    assert "5 USD per million tokens read" in answer["description"]
    assert [tool["function"]["name"] for tool in tools] == ["search", "enhance_reasoning", "answer"]


def test_an_engine_can_be_told_to_decode_valid_calls_only() -> None:
    """Without `strict`, vLLM does not constrain the arguments, whatever `tool_choice` is."""
    for must_call in (False, True):
        orchestrator, models = Script(call("answer", "answer-1")), {"big": Script("\\boxed{1}")}
        play(orchestrator, models, agent_file(must_call=must_call))
        functions = [tool["function"] for tool in orchestrator.tools[0]]
        assert [f.get("strict", False) for f in functions] == [must_call] * 3
        closed = [f["parameters"].get("additionalProperties") for f in functions]
        assert closed == [False if must_call else None] * 3


def test_one_call_a_turn_or_several() -> None:
    """Single-tool mode refuses further calls; parallel calls all see the state at the start of the
    turn."""
    turn = calls(("search", '{"model": "search-2"}'), ("search", '{"model": "search-1"}'))

    def models() -> dict[str, Script]:
        return {
            "small": Script("<query>words of one</query>"),
            "big": Script("<query>words of two</query>", "\\boxed{1}"),
        }

    def search() -> Found:
        return Found([("1", "Text one.")], [("2", "Text two.")])

    single = Script(turn, call("answer", "answer-1"))
    one = models()
    one["big"].replies.pop(0)
    done, _ = play(single, one, search=search())
    assert "one of the tools" in single.prompt(0) and "Text two." not in single.prompt(1)
    assert done.tool_runs[1][3].error_type == "malformed_call"
    several = Script(turn, call("answer", "answer-1"))
    both = models()
    play(several, both, agent_file(calls_a_turn=None), search=search())
    assert "one or more of the tools" in several.prompt(0)
    assert several.prompt(1).index("Text one.") < several.prompt(1).index("Text two.")
    assert "Text one." not in both["big"].prompt(0), "calls of a turn see what it began with"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (call("answer", "answer-9"), "no expert 'answer-9'; there are: answer-1, answer-2"),
        (call("answer"), "needs the argument 'model'"),
        (calls(("answer", "{bad")), "the arguments are not JSON"),
        (call("python", "answer-1"), "no tool 'python'; there are: search,"),
        ({"role": "assistant", "content": "I think 42."}, "no tool was called"),
    ],
)
def test_what_was_wrong_with_a_call_is_in_the_next_prompt(message: Any, said: str) -> None:
    """The attempt continues after a malformed call; four in a row end it."""
    orchestrator = Script(message, call("answer", "answer-1"))
    done, _ = play(orchestrator, {"big": Script("\\boxed{1}")})
    assert done.answer == "1" and said in orchestrator.prompt(1)
    done, _ = play(Script(*[message] * 4), {}, turns=9)
    assert (done.status, done.stop_reason) == ("model_error", "malformed")


def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    """The orchestrator sees the error and can ask another expert."""
    orchestrator = Script(call("answer", "answer-2"), call("answer", "answer-1"))
    models = {"small": Script("I do not know."), "big": Script("\\boxed{1}")}
    done, _ = play(orchestrator, models)
    assert done.answer == "1"
    assert "answer-2 gave no final answer in the form" in orchestrator.prompt(1)


def test_without_an_answer_the_rounds_run_out() -> None:
    search = [call("search", "search-2")] * 3
    done, _ = play(Script(*search), {"small": Script(*["<query>words</query>"] * 3)}, turns=3)
    assert (done.status, done.stop_reason, done.answer) == ("limit", "turns", None)


def test_an_expert_without_room_is_an_error_of_that_call() -> None:
    """The error is not taken for an overflow of the orchestrator's own context, which would end the
    attempt."""
    orchestrator = Script(call("answer", "answer-2"), call("answer", "answer-1"))
    models = {"small": Script(ContextExceeded("8192 tokens")), "big": Script("\\boxed{1}")}
    done, _ = play(orchestrator, models)
    assert done.answer == "1" and "answer-2 cannot read so much" in orchestrator.prompt(1)


def test_money_of_experts_ends_an_attempt() -> None:
    models = {"small": Script(*["<query>words</query>"] * 9, cost_usd=0.4)}
    done, _ = play(Script(*[call("search", "search-2")] * 9), models, cost_usd=1.0, turns=9)
    assert (done.status, done.stop_reason, done.steps) == ("limit", "money", 3)


def test_a_failing_expert_voids_the_attempt() -> None:
    """A server failure is not a wrong answer, and retries are bounded."""
    done, _ = play(Script(call("answer", "answer-1")), {"big": Script(ModelCallFailed("HTTP 502"))})
    assert (done.status, done.stop_reason) == ("infra_error", "ModelCallFailed")


def test_the_ledger_is_in_the_rebuilt_prompt() -> None:
    """A model that sees only the evidence still sees its spending."""
    orchestrator = Script(call("search", "search-2"), call("answer", "answer-1"))
    models = {"small": Script("<query>words</query>"), "big": Script("\\boxed{1}")}
    play(orchestrator, models, agent_file(ledger=True), turns=5)
    assert "tried: search 1x. spent: 1 of 5 turns" in orchestrator.prompt(1)


def test_the_prompt_never_exceeds_the_orchestrators_own_context() -> None:
    """This holds for any caps in the file; an orchestrator with few tokens keeps the best
    document."""
    own = Agent(context_tokens=700)
    texts = [(str(n), f"Text {n}. " + "word " * 60) for n in range(9)]
    orchestrator = Script(call("search", "search-2"), call("answer", "answer-1"))
    models = {"small": Script("<query>words</query>"), "big": Script("\\boxed{1}")}
    play(orchestrator, models, search=Found(texts), own=own)
    shown = orchestrator.prompt(1)
    assert "Text 0." in shown and "Text 8." not in shown


def test_programs_run_in_the_sandbox() -> None:
    """The error of a program is returned, and the next expert sees it."""
    orchestrator = Script(
        *[call("enhance_reasoning", "reasoner-2")] * 2, call("answer", "answer-2")
    )
    models = {
        "coder": Script("```python\nprint(1); 1 / 0\n```", "```python\nprint(42)\n```"),
        "small": Script("\\boxed{42}"),
    }
    sandbox: Any = Sandbox(strongest_level(), agent_file(python_s=20).sandbox_limits)
    done, _ = play(orchestrator, models, sandbox=sandbox)
    assert "ZeroDivisionError" in orchestrator.prompt(1)
    assert "ZeroDivisionError" in models["coder"].prompt(1)
    assert done.tool_runs[0][3].status == "error" and done.tool_runs[1][3].status == "ok"
    assert done.answer == "42"


def test_what_an_orchestrator_is_not_for() -> None:
    """A problem that does not end with a question is refused, and so is an agent file that cannot
    answer."""
    none = experts_of({})
    with pytest.raises(ValueError, match="ends with a user's question"):
        Orchestrator(agent_file(), PROBLEM[:1], Agent(), none, Found(), Runner())
    tools = agent_file().tools.model_copy(update={"answer": None})
    with pytest.raises(ValueError, match="no tool `answer`"):
        without = agent_file().model_copy(update={"tools": tools})
        Orchestrator(without, PROBLEM, Agent(), none, Found(), Runner())
