"""Tests of SimpleQA's F1, HLE's calibration errors and Sotopia's dimensions, computed from stored
scores."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.reporting.scores.test_headline import store
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.benchmarks import BENCHMARKS
from tutti.tasks.benchmarks.benchmark import Headline
from tutti.tasks.reporting import build_report
from tutti.tasks.reporting.measures.named import NamedMetric, named_metrics
from tutti.tasks.reporting.terminal import terminal_tables
from tutti.tasks.sweeps.results.tables import focus

Detail = dict[str, Any] | None


def metrics(
    root: Path, scores: Mapping[str, tuple[float, str | None, Detail]], headline: Headline
) -> dict[str, NamedMetric]:
    """Return the metrics of a cell whose tasks have one attempt each, with its score, verdict and
    detail."""
    detail = {"scorer": "judge", "headline": headline.detail()}
    home = store(root, {task: [score] for task, (score, *_) in scores.items()}, detail)
    rows = [
        {"sweep_id": "s", "cell_id": "c", "attempt_id": f"{task}-0", "scorer": "judge"}
        | {"scorer_version": "1", "value": score, "answer": verdict, "scored_at": cat.now()}
        | {"correct": score >= 1}
        | {"detail": None if said is None else json.dumps(said)}
        for task, (score, verdict, said) in scores.items()
    ]
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"scores": rows})
    with closing(storage.connect(home)) as connection:
        with focus(connection, ["s"]) as focused:
            found = named_metrics(focused)
        report = build_report(connection, ["s"], root / "page", "t", {}, files=False)
    assert report.metrics == found
    assert ("reports besides" in report.page.read_text()) == bool(found)
    if found:
        console = Console(width=80)
        with console.capture() as captured:
            console.print(terminal_tables(report)[0])
        assert all(len(line) <= 80 for line in captured.get().splitlines())
        assert all(each.name.split()[0] in captured.get() for each in found)
    return {each.name: each for each in found}


def declared(name: str) -> Headline:
    found = BENCHMARKS[name].headline
    assert found is not None, name
    return found


def test_simpleqa(tmp_path: Path) -> None:
    """Five answers are correct, two wrong, three not attempted: .5 of all, 5/7 of the attempted."""
    verdicts = ["correct"] * 5 + ["incorrect"] * 2 + ["not_attempted"] * 3
    scores = {
        f"t{nth}": (float(verdict == "correct"), verdict, None)
        for nth, verdict in enumerate(verdicts)
    }
    found = metrics(tmp_path, scores, declared("simpleqa"))
    assert found["F1"].value == pytest.approx(2 * (5 / 7) * 0.5 / (5 / 7 + 0.5))
    assert found["right of attempted"].value == pytest.approx(5 / 7)
    assert found["not attempted"].value == pytest.approx(0.3)
    for each in found.values():
        assert each.low is not None and each.high is not None and each.value is not None
        assert 0 <= each.low < each.value < each.high <= 1 and each.n == 10


def test_hle(tmp_path: Path) -> None:
    """Of 250 answers, the last bin has confident wrong ones, which the official error leaves
    out."""
    scores: dict[str, tuple[float, str | None, Detail]] = {
        f"t{nth:03}": (float(nth < 100), None, {"confidence": 100 if nth < 200 else 60})
        for nth in range(249)
    } | {"t249": (0.0, None, {"votes": []})}
    found = metrics(tmp_path, scores, declared("hle"))
    official, whole = (found[f"calibration error, {name}"] for name in ("official", "whole"))
    assert (official.n, official.left_out) == (249, 1)
    assert official.value is not None and whole.value is not None
    assert official.value < whole.value


def test_hle_without_a_confidence_has_none(tmp_path: Path) -> None:
    """The current judge does not request one."""
    assert metrics(tmp_path, {"a": (1.0, "correct", {"votes": []})}, declared("hle")) == {}


def test_sotopias_dimensions(tmp_path: Path) -> None:
    """Each has its own range, and its interval stays within it."""

    def criteria(goal: int, secret: int) -> Detail:
        return {
            "criteria": [
                {"text": "secret: keeps it", "rating": secret, "range": [-10, 0], "votes": []},
                {"text": "goal: reaches it", "rating": goal, "range": [0, 10], "votes": []},
            ]
        }

    scores = {
        f"t{nth}": (0.5, None, criteria(goal, secret))
        for nth, (goal, secret) in enumerate([(8, 0), (6, 0), (10, -10), (8, 0)])
    }
    found = metrics(tmp_path, scores | {"t9": (0.0, None, None)}, declared("sotopia"))
    assert list(found) == ["secret", "goal"]
    goal, secret = found["goal"], found["secret"]
    assert goal.value == pytest.approx(8.0) and (goal.n, goal.left_out) == (4, 1)
    assert secret.value == pytest.approx(-2.5)
    assert goal.low is not None and goal.high is not None
    assert secret.low is not None and secret.high is not None
    assert 0 <= goal.low < 8 < goal.high <= 10
    assert -10 <= secret.low < -2.5 < secret.high <= 0
