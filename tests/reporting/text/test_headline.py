"""Tests of the headline: one sentence per series, from the lowest to the highest level."""

from duckdb import DuckDBPyConnection

from tests.reporting.conftest import Connect
from tutti.tasks.reporting.text.words import headlines
from tutti.tasks.sweeps.results import summarise


def test_a_sentence_goes_from_the_lowest_to_the_highest_level(
    connection: DuckDBPyConnection,
) -> None:
    said = headlines(summarise(connection, "load"))
    assert len(said) == 2
    assert said[0].startswith(
        "passthrough, from 2 to 8 at once: accuracy 75.0 % [44.2 to 91.9] -> 68.6 % ["
    )
    assert "p95 of a step 2.00 s" in said[0] and "steps/min 59.6 [" in said[0]
    assert said[0].endswith("(n = 40 and 64).")
    assert all(each.count("->") == 4 for each in said)


def test_one_level_has_one_value(connect_to: Connect) -> None:
    """Unknown values are left out, here the price."""
    with connect_to({"samples": 40, "correct": 30, "usd": None}) as connection:
        (said,) = headlines(summarise(connection, "s"))
    assert said.startswith("lookup, pocket, cap, 2 at once: accuracy 75.0 %")
    assert "->" not in said and "USD" not in said and said.endswith("(n = 40).")


def test_nothing_measured_has_no_headline(connect_to: Connect) -> None:
    with connect_to({"samples": 0, "correct": 0, "called": False}) as connection:
        assert headlines(summarise(connection, "s")) == []
