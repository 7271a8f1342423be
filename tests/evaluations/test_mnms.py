"""Tests of m&m's in both forms, end to end with a scripted model and a constructed file: verdicts,
and the evaluator's figures in the report."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluations.scripted import lines, players, sweep, text_of, tutti
from tests.evaluations.test_originals import _store as _store  # the fixture: a store of its own
from tests.evaluations.test_originals import suite

pytestmark = pytest.mark.slow

FOUND = {"id": 0, "name": "object detection", "args": {"image": "b.jpg"}}
COUNTED = {"id": 1, "name": "count", "args": {"objects": "<node-0>.objects"}}
CAPTION = {"id": 0, "name": "image captioning", "args": {"image": "a.jpg"}}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "Describe a.jpg": [CAPTION],
    "Describe c.jpg": [CAPTION],  # the wrong file: right by tools, not by values
    "Count the cats": [FOUND, COUNTED],
    "Count the dogs": [COUNTED],  # without the objects
}
GOLD = {request: [FOUND, COUNTED] if "Count" in request else [CAPTION] for request in ANSWERS} | {
    "Describe c.jpg": [CAPTION | {"args": {"image": "c.jpg"}}]
}


def program(plan: list[dict[str, Any]]) -> str:
    """Return a plan as a Python program."""
    called = {"object detection": "output0 = object_detection(image='b.jpg')"}
    called["count"] = "output1 = count(objects=output0['objects'])"
    called["image captioning"] = "output0 = image_captioning(image='a.jpg')"
    body = "\n".join(f"    {called[step['name']]}" for step in plan)
    return f"def solve():\n{body}\n    return output0"


@pytest.mark.parametrize("form", ["mnms", "mnms-code"])
def test_plans(tmp_path: Path, form: str) -> None:
    """Three of four plans have the correct tools; the fourth is half correct."""
    rows = [
        {"id": nth, "user_request": request, "plan_str": str(plan), "alt_plans_str": "[]"}
        | {"code_str": program(plan)}
        for nth, (request, plan) in enumerate(GOLD.items())
    ]
    lines(tmp_path / "mnms" / "test_human_verified_filtered.json", rows)

    def act(body: dict[str, Any]) -> dict[str, Any]:
        request = text_of(body).rpartition("The request: ")[2].strip()
        plan = ANSWERS.get(request, [])
        if form == "mnms":
            return {"content": f"RESULT #: {json.dumps({'nodes': plan})}"}
        return {"content": f"Here:\n```python\n{program(plan)}\n```"}

    asked = suite("plans", form, data={"source": "mnms"})
    with players(tmp_path, solver=act) as registry:
        found = sweep(tmp_path, registry, asked)
    assert {row["scorer"] for row in found} == {"mnms"}
    assert sorted(row["score"] for row in found) == pytest.approx([2 / 3, 1.0, 1.0, 1.0])
    assert sorted(row["correct"] for row in found) == [False, True, True, True]
    figures = [json.loads(row["detail"])["plan_figures"] for row in found]
    assert sum(plan["plan_values"] for plan in figures) == 2
    report = " ".join(tutti("report", "plans").split())
    # names: right 5, made 5, gold 6; values: right 4
    for name, percent in (("argument-name F1", "90.9"), ("argument-value F1", "72.7")):
        assert name in report and percent in report
