"""Tests of the preference reward: the paper's formula, not the released code's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.training.jobs.rewards import AttemptFeatures, RewardError, preference_rewards


def attempt(
    solved: bool = True, cost: float | None = 0.0, latency: float | None = 0.0, **uses: int
) -> AttemptFeatures:
    return AttemptFeatures(solved, cost, latency, uses, [name for name, n in uses.items() if n])


def test_the_papers_numbers_and_not_the_released_ones() -> None:
    """Three correct attempts have .01 / .05 / .20 USD and 10 / 50 / 200 s, with weights 1 for
    accuracy, cost and latency: the released code gives 5.32 < 5.74 < 7.32, the highest for the most
    expensive.

    Accuracy is constant in the group, so its feature is 0.
    """
    group = [attempt(cost=c, latency=s) for c, s in ((0.01, 10), (0.05, 50), (0.20, 200))]
    weights = {"accuracy": 1.0, "cost": 1.0, "latency": 1.0}
    assert preference_rewards(group, weights) == pytest.approx([2.0, 2 * 15 / 19, 0.0])
    mixed = [*group, attempt(solved=False, cost=0.3, latency=300)]
    best, middle, worst, failed = preference_rewards(mixed, weights)
    assert best == pytest.approx(3.0) and best > middle > worst > failed == 0.0


def test_a_tool_that_served_counts_once_however_often_it_was_called() -> None:
    """The paper counts calls; the released minimum leaves out attempts that do not use the tool."""
    refused = AttemptFeatures(True, 0.0, 0.0, {"search": 30})
    group = [attempt(search=0), attempt(search=1), attempt(search=5), attempt(), refused]
    assert preference_rewards(group, {"search": 1.0}) == [0.0, 1.0, 1.0, 0.0, 0.0]
    avoided = preference_rewards(group, {"search": -1.0})
    assert avoided == pytest.approx([1.0, 29 / 30, 25 / 30, 1.0, 0.0]), "failed calls count here"


def test_a_tool_that_nobody_prefers_is_no_error() -> None:
    """The released code skips the step if a tool has no weight."""
    assert preference_rewards([attempt(web=1), attempt()], {"accuracy": 1.0}) == [0.0, 0.0]


def test_a_tool_to_be_avoided_earns_by_staying_away() -> None:
    """With a negative weight, no use earns its whole size, and the most uses earn none of it."""
    group = [attempt(web=0), attempt(web=1), attempt(web=4), attempt(solved=False)]
    assert preference_rewards(group, {"web": -0.5}) == pytest.approx([0.5, 0.375, 0.0, 0.0])


@pytest.mark.parametrize("aim", ["accuracy", "cost", "latency"])
def test_only_a_tool_may_weigh_less_than_nothing(aim: str) -> None:
    with pytest.raises(RewardError, match=f"weights.{aim}: -0.5 is not from 0 to 1"):
        preference_rewards([attempt()], {aim: -0.5})


features = st.builds(
    AttemptFeatures,
    solved=st.booleans(),
    cost_usd=st.floats(0, 10),
    latency_s=st.floats(0, 1000),
    uses=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 9)),
    served=st.sets(st.sampled_from(["a", "b"])),
)
weights = st.dictionaries(
    st.sampled_from(["a", "b", "accuracy", "cost", "latency"]), st.floats(0, 1)
) | st.dictionaries(st.sampled_from(["a", "b"]), st.floats(-1, 1))


@given(st.lists(features, min_size=1, max_size=8), weights)
def test_the_unsolved_earn_nothing_and_nobody_more_than_the_weights(
    group: list[AttemptFeatures], weights: dict[str, float]
) -> None:
    for each, reward in zip(group, preference_rewards(group, weights), strict=True):
        assert 0.0 <= reward <= sum(map(abs, weights.values())) + 1e-9
        assert each.solved or reward == 0.0


@given(st.lists(features, min_size=1, max_size=6), weights, st.floats(0.001, 5))
def test_cheaper_and_faster_never_earn_less(
    group: list[AttemptFeatures], weights: dict[str, float], more: float
) -> None:
    first = group[0]
    assert first.cost_usd is not None and first.latency_s is not None
    dearer = AttemptFeatures(
        first.solved, first.cost_usd + more, first.latency_s + more, first.uses, first.served
    )
    before, *_, after = preference_rewards([*group, dearer], weights)
    assert after <= before + 1e-9


@pytest.mark.parametrize(
    ("weights", "attempt", "said"),
    [
        ({"cost": -1.0}, attempt(), "weights.cost"),
        ({"cost": 1.0}, attempt(cost=-1), "cost"),
        ({"cost": float("nan")}, attempt(), "weights.cost"),
        ({"cost": 1.0}, attempt(cost=None), "cost: it is unknown"),
        ({"latency": 0.1}, attempt(latency=None), "latency: it is unknown"),
    ],
)
def test_nonsense_is_refused(
    weights: dict[str, float], attempt: AttemptFeatures, said: str
) -> None:
    with pytest.raises(RewardError, match=said):
        preference_rewards([attempt], weights)


def test_what_is_unknown_and_has_no_weight_does_not_matter() -> None:
    group = [attempt(cost=None, latency=None), attempt(cost=1.0, solved=False)]
    assert preference_rewards(group, {"accuracy": 1.0, "cost": 0.0}) == [1.0, 0.0]
