"""Tests of the rule that instruction and weights agree: every wording has its intended meaning, and
every planted contradiction is refused."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.synthesis.domains.offer import AIMS, Preference
from tutti.tasks.synthesis.preferences.checker import Sense, preference_reason, read_claims
from tutti.tasks.synthesis.preferences.weights import STRONG, draw_weights, read_wordings, render

TOOLS = ("calculate", "find_rate", "get_price", "search")
WORDINGS = st.sampled_from(sorted(read_wordings()))


def drawn(wording: str, seed: int) -> Preference:
    rng = Random(seed)
    weights = draw_weights(rng, TOOLS, TOOLS)
    text = render(read_wordings()[wording], weights, rng)
    return Preference(instruction=text, weights=weights, wording=wording)


@settings(max_examples=settings().max_examples * 4)
@given(WORDINGS, st.integers())
def test_what_is_drawn_passes(wording: str, seed: int) -> None:
    assert preference_reason(drawn(wording, seed), TOOLS) == ""


@settings(max_examples=settings().max_examples * 3)
@given(WORDINGS, st.integers(), st.data())
def test_every_planted_contradiction_is_refused(
    wording: str, seed: int, data: st.DataObject
) -> None:
    """One weight that the instruction mentions is removed, inverted, or assigned to another."""
    good = drawn(wording, seed)
    said = [name for name in good.weights if name != "accuracy"]
    if not said:
        return
    name = data.draw(st.sampled_from(said))
    weight = good.weights[name]
    turned = {**good.weights, name: -weight}
    removed = {n: w for n, w in good.weights.items() if n != name}
    removed["accuracy"] += abs(weight)
    for wrong in (turned, removed):
        assert preference_reason(good.model_copy(update={"weights": wrong}), TOOLS)
    if name not in AIMS:
        assert "is not offered" in preference_reason(good, [t for t in TOOLS if t != name]) or (
            "no such tool is offered" in preference_reason(good, [t for t in TOOLS if t != name])
        )


@settings(max_examples=settings().max_examples * 2)
@given(WORDINGS, st.integers())
def test_a_strong_weight_must_be_spoken_of(wording: str, seed: int) -> None:
    """The instruction for a vector without that weight is refused."""
    rng = Random(seed)
    weights = {"accuracy": 0.6, "cost": 0.4}
    text = render(read_wordings()[wording], {"accuracy": 0.6, "latency": 0.4}, rng)
    assert weights["cost"] >= STRONG
    assert preference_reason(Preference(instruction=text, weights=weights), TOOLS)


@pytest.mark.parametrize(
    ("text", "weights", "said"),
    [
        ("Cheap first.", {"accuracy": 1.0}, "'Cheap first', and weights.cost is 0"),
        ("Cheap first.", {"accuracy": 0.6, "cost": 0.4}, "not more than the other aims"),
        ("Be quick.", {"accuracy": 0.5, "cost": 0.5}, "weights.latency is 0"),
        ("Cost does not matter.", {"accuracy": 0.5, "cost": 0.5}, "weights.cost is 0.5"),
        ("Use `x_ray`.", {"accuracy": 1.0}, "'x_ray' is named and not offered"),
        ("Use x_ray_scan now.", {"accuracy": 1.0}, "'x_ray_scan' is named and not offered"),
        ("Avoid `search`.", {"accuracy": 0.5, "search": 0.5}, "weights.search is 0.5"),
        ("Use `search`.", {"accuracy": 0.5, "search": -0.5}, "weights.search is -0.5"),
        ("`search`!", {"accuracy": 0.5, "search": 0.5}, "does not say whether to use search"),
        ("The more expensive the better.", {"accuracy": 0.5, "cost": 0.5}, "the opposite"),
        ("Do not be quick.", {"accuracy": 0.5, "latency": 0.5}, "asks for the opposite"),
        ("Slow is best.", {"accuracy": 0.5, "latency": 0.5}, "asks for the opposite"),
        ("Hi.", {"accuracy": 0.5, "search": 0.5}, "says nothing of search, which weighs 0.5"),
        (
            "Be cheap. Cost does not matter.",
            {"accuracy": 0.5, "cost": 0.5},
            "weights.cost is 0.5",
        ),
        ("", {"accuracy": 1.0}, "instruction: 0 characters"),
        ("quick " * 200, {"accuracy": 0.5, "latency": 0.5}, "instruction: 1200 characters"),
    ],
)
def test_each_contradiction_has_its_reason(text: str, weights: dict[str, float], said: str) -> None:
    assert said in preference_reason(Preference(instruction=text, weights=weights), TOOLS)


def test_the_tools_of_a_list_are_read_with_its_verb() -> None:
    claims = read_claims(
        "Avoid `search`, `calculate` and find_rate; use `get_price` rather than x."
    )
    senses = {claim.subject: claim.sense for claim in claims}
    assert senses["search"] == senses["calculate"] == senses["find_rate"] == Sense.LESS
    assert senses["get_price"] is Sense.MORE


def test_each_wording_is_of_one_split_and_there_are_all() -> None:
    splits = [wording.split for wording in read_wordings().values()]
    assert {split: splits.count(split) for split in splits} == {
        "train": 8, "validation": 2, "test": 2,
    }  # fmt: skip
