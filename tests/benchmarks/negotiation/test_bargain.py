"""Tests of the negotiation rules: scores between 0 and 1 follow from the recorded moves alone and
are symmetric, and only a party's free text can cause a loss."""

import pytest

from tests.benchmarks.negotiation.play import (
    always,
    drawing,
    drawn_names,
    played,
    replay,
    scenarios,
)
from tutti.tasks.benchmarks.negotiation.bargain import MOST_ILLEGAL, Bargain, read_move
from tutti.tasks.benchmarks.negotiation.view import STRATEGIES, all_moves, moves, named

NAMES = list(STRATEGIES)


def test_scores_follow_from_the_recorded_moves() -> None:
    """Scores are in [0, 1], identical when played again or replayed, and 0 exactly if there is no
    gain."""
    for number, scenario in enumerate(scenarios()):
        one, two = (played(scenario, drawn_names(number), drawing(number)) for _ in range(2))
        assert 0 <= one.share <= 1 and one.state == two.state
        assert replay(scenario, one.state["moves"]).state == one.state
        assert (one.deal is None) == (one.ended != "deal")
        if one.deal is None:
            assert one.share == 0


def test_both_sides_are_alike() -> None:
    """The mirrored scenario with mirrored moves has the same score."""
    for scenario in scenarios():
        mirror = scenario.mirrored()
        assert mirror.mirrored() == scenario and mirror.side != scenario.side
        for name in NAMES:
            first, last = (lambda some: some[0]), (lambda some: some[-1])
            for choose in (first, last):
                one, other = (played(s, always(name), choose) for s in (scenario, mirror))
                assert one.share == other.share, (scenario, name)


def test_no_strategy_goes_beyond_the_own_limit() -> None:
    """No price that a strategy offers or accepts is a loss; only free text can cause one."""
    for scenario in scenarios():
        for party in (scenario.own, scenario.other):
            for standing in range(scenario.low, scenario.high + 1):
                for move in all_moves(party, standing):
                    price = standing if move == "accept" else int(move.split()[1])
                    assert party.gain(price) >= 0 and scenario.low <= price <= scenario.high
    scenario = scenarios(1)[0]
    made = Bargain(scenario)
    made.play("own", f"offer {scenario.own.limit - scenario.own.direction}")
    made.play("other", "accept")
    assert made.ended == "deal" and made.share == 0


def test_a_strategy_always_has_a_move_and_softer_ones_ask_less() -> None:
    for scenario in scenarios():
        party = scenario.own
        for standing in (scenario.opening, scenario.other_limit, scenario.limit):
            assert all(moves(party, name, standing) for name in NAMES)
        gains = [party.gain(party.price(low)) for low, _ in STRATEGIES.values()]
        assert gains == sorted(gains, reverse=True)


def test_a_deal_is_the_price_that_was_accepted() -> None:
    scenario = scenarios(1)[0]
    opening = Bargain(scenario)
    opening.play("own", "accept")
    assert (opening.deal, opening.ended) == (scenario.opening, "deal")
    left = Bargain(scenario)
    left.play("own", "I leave now")
    assert (left.deal, left.ended, left.share) == (None, "left", 0.0)


def test_illegal_moves_are_counted_and_end_it() -> None:
    """An illegal move is rejected with the reason and the round continues, up to the limit on
    illegal moves."""
    made = Bargain(scenarios(1)[0])
    for number, text in enumerate(("hm", "offer 5000", "offer 1"), 1):
        with pytest.raises(ValueError):
            made.play("own", text)
        assert made.illegal["own"] == number and not made.moves and made.round == 1
    assert made.illegal["own"] == MOST_ILLEGAL
    assert (made.ended, made.share) == ("illegal", 0.0)
    other = Bargain(scenarios(1)[0])
    with pytest.raises(ValueError, match="the strategy does not allow"):
        other.play("own", "accept", ["offer 40"])


@pytest.mark.parametrize(
    ("text", "move"),
    [
        ("offer 42", "offer 42"),
        ("I would rather not accept. Offer: $42", "offer 42"),
        ("They offer 50, so I accept.", "accept"),
        ("Offer 40? No, LEAVE", "leave"),
    ],
)
def test_moves_are_read_from_words(text: str, move: str) -> None:
    assert read_move(text).move == move


def test_strategies_are_read_from_words() -> None:
    assert named("**Firm**, then fair") == "firm" and named("stay affirmative") is None


def test_a_broken_record_is_refused() -> None:
    scenario = scenarios(1)[0]
    with pytest.raises(ValueError, match="not a move of this negotiation"):
        replay(scenario, ["own: accept", "other: accept"])
    with pytest.raises(ValueError, match="not a move of this negotiation"):
        replay(scenario, ["judge: accept"])
