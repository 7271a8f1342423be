"""Tests of several teachers with one budget, which reserves by the most expensive of them."""

from pathlib import Path

import pytest

from tutti.errors import UsageError
from tutti.tasks.synthesis import TeacherPool, open_teachers
from tutti.tasks.synthesis.teacher import TeacherBudget, TeacherEndpoint, TeacherPrices

ENDPOINTS = [TeacherEndpoint("http://127.0.0.1:1/v1", name) for name in ("a", "b")]


def test_the_dearest_prices_count() -> None:
    prices = [TeacherPrices(1.0, 9.0), TeacherPrices(2.0, 3.0)]
    assert TeacherPool(ENDPOINTS, prices).dearest == TeacherPrices(2.0, 9.0)
    assert TeacherPool(ENDPOINTS, [prices[0], None]).dearest is None
    assert TeacherPool((), ()).dearest is None


async def test_a_budget_in_usd_needs_all_prices(tmp_path: Path) -> None:
    desk = TeacherPool(ENDPOINTS, [TeacherPrices(1.0, 1.0), None], TeacherBudget(usd=1.0))
    with pytest.raises(UsageError, match="USD cannot be counted"):
        async with open_teachers(desk, tmp_path):
            pass


async def test_they_share_a_meter_and_have_their_models(tmp_path: Path) -> None:
    async with open_teachers(TeacherPool(ENDPOINTS, [None, None]), tmp_path) as (teachers, meter):
        assert [each.endpoint.model for each in teachers] == ["a", "b"]
        assert all(each.meter is meter for each in teachers)
        assert teachers[0].store is teachers[1].store
