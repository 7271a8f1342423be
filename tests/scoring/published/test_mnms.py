"""Tests of m&m's rule: the publisher's measures in manually computed cases, for any format of the
plan, and plans that try to inflate their score."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.published.mnms import (
    MOST_CHARS,
    PlanUnreadable,
    code_of,
    edit_distance,
    read_plan,
    steps_of,
)

TOOLS = ["object_detection", "select_object", "color_pop", "image_captioning", "text_generation"]
PLAN = [
    {"id": 0, "name": "object detection", "args": {"image": "a.jpg"}},
    {
        "id": 1,
        "name": "select object",
        "args": {"objects": "<node-0>.objects", "object_name": "Cat"},
    },
    {"id": 2, "name": "color pop", "args": {"image": "a.jpg", "object": "<node-1>.object"}},
]
Plan = list[dict[str, Any]]


async def scored(
    text: str, plan: Any = PLAN, form: str = "json", scorer: str = "mnms", **more: Any
) -> Score:
    target = {"plan": plan, "alternatives": [], "format": form, "tools": TOOLS} | more
    return await SCORERS[scorer].score(target, Submission(None, text), ScoringResources())


def written(plan: Plan) -> str:
    """Return a plan as an answer."""
    return json.dumps({"nodes": plan})


def step(nth: int, **changed: Any) -> Plan:
    """Return the gold plan with one step changed."""
    return [one | changed if place == nth else one for place, one in enumerate(PLAN)]


async def figures(text: str, **more: Any) -> tuple[float, bool, dict[str, Any]]:
    found = await scored(text, **more)
    return round(found.value, 4), bool(found.correct), found.detail["plan_figures"]


async def test_the_gold_plan_is_right_by_every_measure() -> None:
    """This holds in JSON and as a program."""
    code = "\n".join(f"    {line}" for line in code_of(PLAN).split("\n"))
    program = f"```python\ndef solve():\n{code}\n    return output2\n```"
    for text, form in ((written(PLAN), "json"), (program, "code")):
        value, right, found = await figures(text, form=form)
        assert (value, right, found["edit_distance"]) == (1.0, True, 0.0)
        assert found["argument_names"] == found["argument_values"] == [3, 3, 3]
        assert found["edges"] == [2, 2, 2] and found["plan_names"] and found["plan_values"]
        assert found["right_tools"] == sorted(TOOLS[:3])
        assert found["missed_tools"] == found["surplus_tools"] == []


async def test_another_value_is_wrong_in_values_alone() -> None:
    """One of three labels differs; case is ignored."""
    value, right, found = await figures(written(step(0, args={"image": "b.jpg"})))
    assert (value, right, found["plan_names"], found["plan_values"]) == (1.0, True, True, False)
    assert found["argument_names"] == [3, 3, 3] and found["argument_values"] == [2, 3, 3]
    _, _, found = await figures(written(step(0, args={"image": "A.JPG"})))
    assert found["argument_values"] == [3, 3, 3] and found["plan_values"]


async def test_another_argument_is_wrong_in_names_and_values() -> None:
    """An argument is missing or added; the order of arguments is ignored."""
    for args in ({}, {"image": "a.jpg", "size": "1"}):
        value, right, found = await figures(written(step(0, args=args)))
        assert (value, right, found["plan_names"]) == (1.0, True, False)
        assert found["argument_names"] == found["argument_values"] == [2, 3, 3]
    turned = {"object_name": "Cat", "objects": "<node-0>.objects"}
    assert (await figures(written(step(1, args=turned))))[2]["plan_values"]


async def test_another_tool() -> None:
    """The LCS is 2 of 3 and 3: 1 - 4/6. Two of the labels match, and no edge next to the tool
    does."""
    value, right, found = await figures(written(step(1, name="image captioning")))
    assert (value, right) == (round(4 / 6, 4), False)
    assert found["right_tools"] == ["color_pop", "object_detection"]
    assert found["missed_tools"] == ["select_object"]
    assert found["surplus_tools"] == ["image_captioning"]
    assert found["argument_names"] == [2, 3, 3] and found["edges"] == [0, 2, 2]


async def test_a_tool_that_is_unknown_is_none_of_the_surplus_ones() -> None:
    """As in the publisher's macro F1, whose classes are its tools, it is not counted; other
    measures count it."""
    value, right, found = await figures(written(step(1, name="object selector")))
    assert (value, right, found["surplus_tools"]) == (round(4 / 6, 4), False, [])
    assert found["missed_tools"] == ["select_object"] and found["edges"] == [0, 2, 2]


async def test_a_step_less_and_a_step_more() -> None:
    """2 LCS / (n + m) is 4/5 and 6/7; one of two edges and two of three match."""
    value, right, found = await figures(written(PLAN[:2]))
    assert (value, right, found["edges"]) == (0.8, False, [1, 1, 2])
    assert found["argument_names"] == [2, 2, 3]
    more = [*PLAN, {"id": 3, "name": "image captioning", "args": {"image": "<node-2>.image"}}]
    value, right, found = await figures(written(more))
    assert (value, right, found["edges"]) == (round(6 / 7, 4), False, [2, 3, 2])


async def test_repeated_calls_gain_nothing() -> None:
    """Sets of labels count a repeated call once; the plan is wrong and its distance grows."""
    value, right, found = await figures(written(PLAN * 10))
    assert (value, right) == (round(6 / 33, 4), False)
    assert found["argument_values"] == [3, 3, 3] and not found["plan_values"]
    assert found["edges"] == [2, 3, 2]  # the third leads from the last step to the first


async def test_a_plan_of_every_tool_is_wrong() -> None:
    """The plan's recall is full, but its surplus tools are reported."""
    every = [{"id": 0, "name": tool, "args": {}} for tool in TOOLS]
    value, right, found = await figures(written(every))
    assert (value, right) == (0.75, False)
    assert found["surplus_tools"] == ["image_captioning", "text_generation"]


@pytest.mark.parametrize("form", ["json", "code"])
async def test_a_plan_of_ten_thousand_steps_counts_as_none(form: str) -> None:
    """Such a plan is not parsed."""
    text = written(PLAN * 3333)
    if form == "code":
        text = f"```python\n{code_of(PLAN * 3333)}\n```"
    found = await scored(text, form=form)
    assert (found.value, found.correct, found.detail["steps"]) == (0.0, False, 0)
    assert f"at most {MOST_CHARS} are read" in found.detail["error"]


HOSTILE = {
    "minus": "x=" + "-" * 19_000 + "1",
    "dots": "x=f(a=a" + ".b" * 9_000 + ")",
    "sum": "x=f(a=" + "1+" * 9_000 + "1)",
    "fields": 'x=f(a=f"' + "{a}" * 6_000 + '")',
    "power": "x=f(a=9**9**9**9)",
    "digits": "x=f(a=" + "9" * 19_000 + ")",
    "null": 'x=f(a="\0")',
    "escape": 'x=f(a="\\d")',
    "exit": "import os\nos._exit(1)\nx=exit()",
    "surrogate": "x=f(a='\ud800')",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", HOSTILE)
async def test_programs_that_hurt(kind: str) -> None:
    """Programs are at most parsed, never executed; none hangs or raises."""
    found = await scored(f"```python\n{HOSTILE[kind]}\n```", form="code")
    assert not found.correct
    json.dumps(found.detail, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "value",
    [
        "<node-0>.text {0:>9999999999}",
        "<node-0>.text {0.__class__}",
        "<node-0>.text {0!r}",
        "<node-0>.text {} {}",
        "<node-0>.text {0}",
        "<node-0>.text {",
        "<node-0>.text {name}",
        "<node-x>.text",
        "<node-0>",
        "<node-",
    ],
)
async def test_values_that_no_result_fits(value: str) -> None:
    """The publisher's program stops at most of these values, and its plan is then empty."""
    found = await scored(written(step(0, args={"image": value})))
    assert (found.value, found.detail["steps"]) == (0.0, 0) and found.detail["error"]


def test_braces_in_a_text_are_those_of_format() -> None:
    """A doubled brace is one brace; a number refers to a result of the text, in any order."""
    nodes = [{"id": 3, "name": "a b", "args": {"x": "a {{<node-1>.y}} <node-2>.z", "n": 7}}]
    assert code_of(nodes) == "output3 = a_b(x=f\"a {output1['y']} output2['z']\", n=\"7\")"
    nodes = [{"id": 0, "name": "t", "args": {"x": 'say "hi" <b>', "y": "<node-12>.object"}}]
    assert code_of(nodes) == 'output0 = t(x="say \\"hi\\" <b>", y=output12[\'object\'])'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON object"),
        ("I cannot.", "no JSON object"),
        ('{"nodes": [', "no JSON object"),
        ('{"nodes": [}', "not JSON"),
        ('[{"id": 0, "name": "tag", "args": {}}]', "the object has no nodes"),
        ('{"nodes": {"id": 0}}', "the steps are not a list"),
        ('{"nodes": [1]}', "a step is not an object with an id"),
        ('{"nodes": [{"name": "tag", "args": {}}]}', "a step is not an object with an id"),
        ('{"nodes": [{"id": 0, "args": {}}]}', "step '0' has no name or no arguments"),
        ('{"nodes": [{"id": 0, "name": "tag", "args": []}]}', "has no name or no arguments"),
        ('{"nodes": ' + "[" * 9000 + "]" * 9000 + "}", "not JSON"),
    ],
)
async def test_no_plan_is_wrong_and_says_why(text: str, why: str) -> None:
    found = await scored(text)
    assert (found.value, found.correct) == (0.0, False) and why in found.detail["error"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = tag()", "no block between"),
        ("```\nx = tag()\n```", "no block between"),
        ("```python\nx = tag()", "no block between"),
        ("```python```", "the block is empty"),
        ("```python\nx = tag(\n```", "not Python"),
        ("```python\nreturn tag()\n```", "not Python"),
    ],
)
async def test_no_program_is_wrong_and_says_why(text: str, why: str) -> None:
    found = await scored(text, form="code")
    assert (found.value, found.correct) == (0.0, False) and why in found.detail["error"]


async def test_text_around_a_plan_is_left_out() -> None:
    """Text before and after the plan, and before the marker of the published prompt, is ignored."""
    plan = written(PLAN)
    for text in (f"Sure:\n```json\n{plan}\n```\nDone.", f"not {{so}}. # RESULT #: {plan}"):
        assert (await scored(text)).correct, text
    code = f"```python\n{code_of(PLAN)}\n```"
    assert (await scored(f"So: {code}, then ```more```", form="code")).correct
    assert (await scored(f"```python\nx\n``` RESULT #: {code}", form="code")).correct


async def test_escapes_are_kept_where_they_can_be_read() -> None:
    """Quotes within a text are kept; invalid JSON is read without backslashes and line breaks."""
    plan = [{"id": 0, "name": "text generation", "args": {"text": 'He said "so"'}}]
    assert (await figures(written(plan), plan=plan))[2]["plan_values"]
    broken = written(PLAN).replace("select object", "select\\_object").replace("Cat", "C\nat")
    assert (await figures(broken))[2]["plan_values"]
    code = code_of(PLAN).replace("_", "\\_")
    assert (await figures(f"```python\n{code}\n```", form="code"))[2]["plan_values"]


def test_a_line_is_a_step_if_it_is_a_call_of_a_name() -> None:
    """Only the first call on a line counts; methods, second lines of a call and positional values
    do not."""
    code = """def solve():
    a = tag(image="a.jpg", size=1 + 1); b = count(objects=a)
    c = d = emoji("a.jpg", **a)
    e = cv.tag(image=a)
    f.g = tag(image=a)
    h = tag(
        image=a)
    i = [tag(image=a)]
    j: int = tag(image=a)
    return {0: a}"""
    steps = steps_of(code)
    assert [each.tool for each in steps] == ["tag", "emoji"]
    assert [dict(each.arguments) for each in steps] == [
        {"image": "'a.jpg'", "size": "1 + 1"},
        {"**": "a"},
    ]


async def test_a_text_cut_by_a_line_break_is_no_step_on_either_side() -> None:
    """As in the publisher's program, the gold step is not read either."""
    plan = [*PLAN[:1], {"id": 1, "name": "text generation", "args": {"text": "a\nb"}}]
    value, right, found = await figures(written(plan), plan=plan)
    assert (value, right, found["argument_values"]) == (1.0, True, [1, 1, 1])


async def test_the_nearest_of_several_plans() -> None:
    """The nearest plan is chosen by the set of tools; without the rule, only the gold plan
    counts."""
    other = [{"id": 0, "name": "image captioning", "args": {"image": "a.jpg"}}]
    more: dict[str, Any] = {"alternatives": [PLAN[:1], other]}
    assert not (await scored(written(other), **more)).correct
    found = await scored(written(other), scorer="mnms_best_match", **more)
    assert (found.scorer, found.value, found.correct) == ("mnms_best_match", 1.0, True)
    assert (await scored(written(PLAN), scorer="mnms_best_match", **more)).correct
    none = await scored("", scorer="mnms_best_match", **more)
    assert none.detail["plan_figures"]["edges"] == [0, 0, 2]  # of equal ones the first


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": "yaml"}, "format is 'yaml'; it must be json or code"),
        ({"plan": "x"}, "needs 'plan' as list"),
        ({"plan": [{"id": 0}]}, "the target's plan: step '0' has no name"),
        ({"tools": None}, "needs 'tools' as list"),
    ],
)
async def test_a_target_that_cannot_be_scored_is_an_error(
    changed: dict[str, Any], why: str
) -> None:
    """The result is not a score of 0."""
    with pytest.raises(ScorerFailed, match=why):
        await scored(written(PLAN), **changed)


NAMES = st.lists(st.sampled_from([*TOOLS, "other", "else"]), max_size=6)


@given(NAMES, NAMES)
def test_the_distance_is_one(made: list[str], gold: list[str]) -> None:
    """The distance is from 0 to 1, symmetric, 0 for the same plan and 1 for plans without a common
    step."""
    found = edit_distance(made, gold, TOOLS)
    assert 0 <= found <= 1 and found == edit_distance(gold, made, TOOLS)
    assert edit_distance(made, made, TOOLS) == 0.0
    known = [[tool if tool in TOOLS else "" for tool in side] for side in (made, gold)]
    assert (found == 0) == (known[0] == known[1])
    if gold and not set(known[0]) & set(known[1]):
        assert found == 1


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: (
    st.lists(inner) | st.dictionaries(st.text(), inner))))  # fmt: skip
def test_any_json_is_a_plan_or_says_why(value: Any) -> None:
    """No other error is raised for any value in place of the steps."""
    for nodes in (value, [value], [{"id": value, "name": "a", "args": {"b": value}}]):
        text = json.dumps({"nodes": nodes})
        try:
            steps_of(read_plan(text, "json"))
        except PlanUnreadable as error:
            assert str(error)
