"""Tests of columns that are converted faster than by Arrow: the values equal Arrow's."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import RowRefused
from tutti.storage.write.encode import TABLES, to_arrow

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))])
NAIVE = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
TIMES = (
    NAIVE | st.tuples(NAIVE, ZONES).map(lambda pair: pair[0].replace(tzinfo=pair[1])) | st.none()
)


@given(st.lists(TIMES))
def test_times_are_those_of_arrow(values: list[datetime | None]) -> None:
    """The times have any zone, or none, which is read as UTC."""
    table = to_arrow("calls", [{"sent_at": value} for value in values])
    kind = TABLES["calls"].field("sent_at").type
    assert table["sent_at"].combine_chunks() == pa.array(values, type=kind)


@pytest.mark.parametrize("value", ["today", timedelta(0)])
def test_what_is_no_time_is_refused_by_name(value: Any) -> None:
    rows = [{"sent_at": datetime(2026, 1, 1, tzinfo=UTC)}, {"sent_at": value, "call_id": "c"}]
    with pytest.raises(RowRefused, match=r"row 1 .*column sent_at"):
        to_arrow("calls", rows)


MEMBERS = st.dictionaries(st.sampled_from(["id", "name", "arguments"]), st.text() | st.none())


@given(st.lists(st.lists(MEMBERS) | st.none()))
def test_lists_of_structs_are_those_of_arrow(values: list[list[dict[str, Any]] | None]) -> None:
    """Each member may be missing."""
    table = to_arrow("messages", [{"tool_calls": value} for value in values])
    kind = TABLES["messages"].field("tool_calls").type
    assert table["tool_calls"].to_pylist() == pa.array(values, type=kind).to_pylist()


@pytest.mark.parametrize("value", [[{"id": "c", "name": "n", "odd": "x"}], [{"odd": 1}], ["abc"]])
def test_a_member_that_a_struct_lacks_is_refused_by_name(value: Any) -> None:
    with pytest.raises(RowRefused, match=r"attempt_id='a'.*column tool_calls"):
        to_arrow("messages", [{"attempt_id": "a", "tool_calls": value}])
