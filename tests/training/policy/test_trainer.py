"""Tests of the figures of a trainer's steps that the loop stores, across a kill."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tutti.tasks.training.policy.trainer import PolicyTrainer


def trainer_in(work: Path) -> PolicyTrainer:
    """Return a trainer that is not started."""
    nothing: Any = None
    return PolicyTrainer(nothing, work, work / "out", cast(Any, None))


@pytest.mark.parametrize("cut", ['{"step": 2, "rew', '{"step": 2, "reward": 0.5}'])
def test_a_note_after_a_line_that_a_kill_cut_off_is_kept(tmp_path: Path, cut: str) -> None:
    """The record is written as a new line, and the truncated line counts only if it is complete."""
    (tmp_path / "figures.jsonl").write_text(json.dumps({"step": 1, "reward": 0.5}) + "\n" + cut)
    trainer_in(tmp_path).note(3, {"reward": 0.5})
    noted = trainer_in(tmp_path).noted()
    whole = cut.endswith("}")
    assert sorted(noted) == ([1, 2, 3] if whole else [1, 3])
    assert trainer_in(tmp_path).noted() == noted
