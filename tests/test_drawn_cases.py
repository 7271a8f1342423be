"""Tests of the cases that property tests draw: the same ones in `make test`, new ones in `make
fuzz`."""

from hypothesis import given, settings
from hypothesis import strategies as st


def draw(profile: str) -> list[int]:
    drawn: list[int] = []

    @settings(settings.get_profile(profile), max_examples=20, database=None)
    @given(st.integers())
    def collect(number: int) -> None:
        drawn.append(number)

    collect()
    return drawn


def test_the_tests_draw_the_same_cases_every_time() -> None:
    """No example database adds cases."""
    assert draw("ci") == draw("ci")
    assert settings.get_profile("ci").database is None


def test_fuzzing_draws_new_cases_and_more() -> None:
    assert draw("fuzz") != draw("fuzz")
    assert settings.get_profile("fuzz").max_examples > settings.get_profile("ci").max_examples
    assert settings.get_profile("fuzz").database is not None
