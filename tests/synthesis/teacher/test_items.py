"""Tests of lists of items: each is judged separately, so that a wrong item, a shortage or a surplus
does not lose a correct one."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.synthesis.teacher.conftest import NewTeacher, fault_counts
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti.tasks.synthesis.teacher.items import Items, ItemsQuestion, _take, ask_items


class Word(BaseModel):
    """An item of the list."""

    word: str


def words(*given: Any) -> dict[str, Any]:
    return {"items": [{"word": each} for each in given]}


def question(wanted: int) -> ItemsQuestion[Word]:
    def prompt(existing: Sequence[Word], missing: int) -> str:
        return f"{missing} more than {[each.word for each in existing]}"

    def check(item: Word, existing: Sequence[Word]) -> str:
        return f"{item.word!r} exists already" if item in existing else ""

    return ItemsQuestion("w", prompt, Word, wanted, check)


async def asked(
    new_teacher: NewTeacher, script: dict[str, list[Any]], wanted: int
) -> tuple[Items[Word], dict[str, int], ScriptedEndpoint]:
    async with serving(ScriptedEndpoint(script)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            found = await ask_items(teacher, question(wanted))
            return found, fault_counts(teacher.store), endpoint


def kept(found: Items[Word]) -> list[str]:
    return [each.word for each in found.kept]


async def test_too_few_are_topped_up_by_a_call_that_lists_what_exists(
    new_teacher: NewTeacher,
) -> None:
    script = {"w-0": [words("a", "b")], "w-1": [words("c")]}
    found, faults, endpoint = await asked(new_teacher, script, 3)
    assert (kept(found), faults) == (["a", "b", "c"], {"too_few": 1})
    assert endpoint.asked[1][1]["messages"][0]["content"] == "1 more than ['a', 'b']"


async def test_too_many_are_cut(new_teacher: NewTeacher) -> None:
    found, faults, _ = await asked(new_teacher, {"w-0": [words("a", "b", "c")]}, 2)
    assert (kept(found), faults) == (["a", "b"], {"too_many": 1})


async def test_only_wrong_items_are_sent_back(new_teacher: NewTeacher) -> None:
    script = {"w-0": [words("a", "a", 3), words("b", "c")]}
    found, faults, endpoint = await asked(new_teacher, script, 3)
    assert (kept(found), found.rejects, faults) == (["a", "b", "c"], [], {"check": 1})
    sent = endpoint.asked[1][1]["messages"][-1]["content"]
    assert "- {'word': 'a'}: 'a' exists already" in sent
    assert "- {'word': 3}: word: Input should be a valid string, given '3'" in sent


async def test_items_that_stay_wrong_are_rejected_with_their_reason(
    new_teacher: NewTeacher,
) -> None:
    script = {"w-0": [words("a", "a"), words("a")], "w-1": [words("b")]}
    found, _, _ = await asked(new_teacher, script, 2)
    assert kept(found) == ["a", "b"]
    assert found.rejects == [({"word": "a"}, "'a' exists already")]


async def test_a_teacher_that_has_no_more_ends_with_fewer(new_teacher: NewTeacher) -> None:
    """The number of calls is bounded to four, and the shortage is recorded."""
    script = {f"w-{turn}": [words()] for turn in range(1, 4)} | {"w-0": [words("a")]}
    found, faults, endpoint = await asked(new_teacher, script, 9)
    assert (kept(found), faults, endpoint.calls()) == (["a"], {"too_few": 4}, 4)


def test_every_right_item_is_kept_whatever_comes_with_it() -> None:
    """The first `wanted` different words of the teacher are kept, and each wrong item of the last
    response is a reject."""

    @settings(max_examples=max(10, settings().max_examples // 10), deadline=None)
    @given(st.lists(st.sampled_from(["a", "b", "c", 1, None]), max_size=6))
    def sorts(given_words: list[Any]) -> None:
        found: list[Word] = []
        for each in given_words:
            _take(question(2), {"word": each}, found)
        right = list(dict.fromkeys(each for each in given_words if isinstance(each, str)))
        assert [each.word for each in found] == right

    sorts()
