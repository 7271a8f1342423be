"""Tests of random draws: reproducible by seed and task, one factor per model, nothing else
changed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.orchestrator.play import agent_file, expert
from tutti.tasks.agents.orchestrator import AgentFile, drawn

DRAW = {"models": True, "least": 1, "prices": [0.25, 4.0], "latency": [0.5, 2.0]}


def experts(file: AgentFile) -> dict[str, tuple[str, float]]:
    return {
        alias: (one.model, one.prices.prompt)
        for _, tool in file.tools.given()
        for alias, one in tool.experts.items()
    }


def test_a_file_without_draws_is_as_it_is() -> None:
    file = agent_file()
    assert drawn(file, 1, "t") is file


@settings(max_examples=settings().max_examples // 3, deadline=None)
@given(st.integers(0, 10**9), st.text(max_size=8))
def test_the_same_seed_and_task_draw_the_same(seed: int, task: str) -> None:
    """Every draw also satisfies the constraints of the file."""
    file = agent_file(draw=DRAW)
    one = drawn(file, seed, task)
    assert one == drawn(file, seed, task)
    for name, tool in one.tools.given():
        whole = getattr(file.tools, name)
        assert 1 <= len(tool.experts) <= len(whole.experts)
        assert {e.model for e in tool.experts.values()} <= {e.model for e in whole.experts.values()}
        assert all(alias == e.alias for alias, e in tool.experts.items())
    base = {e.model: e.prices.prompt for _, t in file.tools.given() for e in t.experts.values()}
    factors = {(model, round(price / base[model], 9)) for model, price in experts(one).values()}
    assert len(factors) == len({model for model, _ in factors}), "one factor a model"
    assert all(0.25 <= factor <= 4.0 for _, factor in factors)


def test_samples_differ() -> None:
    """Over many tasks every model appears behind an alias, and the number of experts varies."""
    many = [drawn(agent_file(draw=DRAW), 0, f"task-{n}") for n in range(50)]
    behind = {experts(one)["answer-1"][0] for one in many if "answer-1" in experts(one)}
    assert behind == {"big", "small"}
    assert {len(experts(one)) for one in many} > {4, 5}


def test_words_are_drawn_and_another_draw_does_not_change_them() -> None:
    """Each feature has its own random stream."""
    said = ["One.", "Two.", "Three."]
    tools = {
        "answer": {
            "description": "x",
            "experts": {"a": expert("m", skills=said), "b": expert("n", skills=said)},
        }
    }
    words = []
    for draw in ({"latency": [1, 1]}, {"prices": [0.5, 2.0], "latency": [1, 3]}):
        file = agent_file(tools=tools, draw=draw)
        many = (drawn(file, 3, str(n)).tools.answer for n in range(20))
        words.append([tuple(e.skills for e in tool.experts.values()) for tool in many if tool])
    assert words[0] == words[1] and len(set(words[0])) > 3
