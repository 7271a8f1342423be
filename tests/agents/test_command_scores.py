"""Tests of a harness's own score: as the result of the scorer `imported` and as rows of the table
`scores`."""

from pathlib import Path

import pytest

from tests.sweeps.conftest import plan_of
from tutti.tasks.agents.commands.command import CommandTrajectory
from tutti.tasks.benchmarks import Source, benchmark_named
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.sweeps.run.records import RunningAttempt, attempt_rows

OURS, THEIRS = Score("numeric", "1", 1.0, True), Score("theirs", "2", 0.0, False)


@pytest.mark.parametrize(
    ("ours", "theirs", "rows"),
    [
        (OURS, THEIRS, ["numeric", "theirs"]),
        (OURS, None, ["numeric"]),
        (None, THEIRS, ["theirs"]),
        (THEIRS, THEIRS, ["theirs"]),
    ],
)
def test_both_scores_are_rows(ours: Score | None, theirs: Score | None, rows: list[str]) -> None:
    """Each score is stored once under its own name; the attempt's columns are those of the
    scorer."""
    plan = plan_of(count=1)
    cell = plan.cells[0]
    trajectory = CommandTrajectory(status="ok", answer="42", imported=theirs, score=ours)
    entered = RunningAttempt(cell.samples[0], 1, "a1")
    made = attempt_rows(plan, cell, entered, trajectory, "run:1")
    assert sorted(row["scorer"] for row in made.get("scores", [])) == rows
    assert made["attempts"][0]["score"] == (ours.value if ours else None)


async def test_imported_takes_the_harnesss_score() -> None:
    """The score is used unchanged; if there is none, the scorer failed and the answer is not
    wrong."""
    scorer = SCORERS["imported"]
    assert await scorer.score({}, Submission("42", imported=THEIRS), ScoringResources()) is THEIRS
    with pytest.raises(ScorerFailed, match="gave no score"):
        await scorer.score({}, Submission("42"), ScoringResources())


def test_tasks_that_only_a_harness_knows(tmp_path: Path) -> None:
    """A task row needs only an id; its other text fields can be used for selection."""
    file = tmp_path / "test.jsonl"
    file.write_text('{"id": 7}\n{"id": "b", "question": "q", "repo": "x", "n": 1}\n')
    tasks = list(benchmark_named("harness").load(Source(file)))
    assert [task.key for task in tasks] == ["7", "b"]
    assert [task.inputs["question"] for task in tasks] == ["7", "q"]
    assert tasks[1].attributes == {"repo": "x"}
