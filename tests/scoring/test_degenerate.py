"""Tests of degenerate texts of models and of attacks: no scorer takes long or raises.

Each text has 40,000 characters or more; an algorithm quadratic in its length would take minutes.
"""

import time
from typing import Any

import pytest

from tests.scoring.test_ifeval import CASES
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission
from tutti.tasks.scoring.rules.code import last_code
from tutti.tasks.scoring.rules.ifeval import follows
from tutti.tasks.scoring.rules.sql import query_in

N = 40_000
LIMIT_S = 10.0  # for a machine that is busy; alone all together take a few seconds

TEXTS = {
    "points": "." * N,
    "marks": "!" * N + "x",
    "spaces": "answer:" + " " * N,
    "spaces within": "answer" + " " * N + "x",
    "angles": "<<" * N,
    "brackets": "[" * N,
    "stars": "*" * N + "x",
    "star words": "*a " * N,
    "dashes": "-" * N + "x",
    "spaced dashes": "- " * N + "x",
    "boxes": r"\boxed{" * N,
    "digits": "9" * N,
    "groups": "1," * N,
    "thousands": "111," * N + "1111",
    "fractions": "1/" * N,
    "fences": "```\n" * N,
    "json fence": "```json" + " " * N + "x",
    "fence": "```" + " " * 4 * N + "x",
    "letters": "A " * N,
    "titles": "Dr. " * N,
    "lines": "\n" * N + "x",
    "capitals": "A.B-" * N,
    "nested": '{"a":' * N,
    "tags": "<answer>" * N,
    "tag": "<answer>" + "C" * N,
    "headings": "answer\n" * N,
    "objects": '{"answer": "' * N,
    "keys": '"answer":' + " " * N,
    "frac": r"\frac{" * N,
}

TARGETS: dict[str, dict[str, Any]] = {
    "exact": {"answer": "none of them"},
    "numeric": {"answer": "7"},
    "choice": {"answer": "C", "choices": ["x", "y", "z"]},
    "math": {"answer": "7"},
    "short_answer": {"answer": "7"},
}


@pytest.mark.parametrize("name", TARGETS)
async def test_scorers(name: str) -> None:
    for kind, text in TEXTS.items():
        for attempted in (Submission(None, text), Submission(text, text)):
            started = time.monotonic()
            score = await SCORERS[name].score(TARGETS[name], attempted, ScoringResources())
            assert not score.correct, kind
            assert time.monotonic() - started < LIMIT_S, kind


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_instructions(case: tuple[str, dict[str, object], list[str], list[str]]) -> None:
    for kind, text in TEXTS.items():
        started = time.monotonic()
        assert follows(case[0], case[1], text) in (True, False)
        assert time.monotonic() - started < LIMIT_S, kind


async def test_tool_calls_and_code() -> None:
    for text in TEXTS.values():
        call = {"function": {"name": "f", "arguments": text}}
        attempted = Submission(None, messages=[{"role": "assistant", "tool_calls": [call]}])
        target = {"calls": [{"name": "f", "arguments": {}}]}
        score = await SCORERS["tool_calls"].score(target, attempted, ScoringResources())
        assert score.detail["unreadable"] == 1
        started = time.monotonic()
        assert isinstance(last_code(text, "f"), str | None)
        assert isinstance(query_in(Submission(None, text)), str)
        assert time.monotonic() - started < LIMIT_S, text[:9]
