"""What a benchmark reports first: the share of right answers, or a mean score.

A declaration is stored with the benchmark's task set; the view `headlines` and the reports read it
there. A benchmark that declares nothing reports the share of right answers.
"""

from dataclasses import dataclass
from typing import Any, Literal

Measure = Literal["accuracy", "mean score"]
Metric = Literal["attempted", "calibration", "plans"]


@dataclass(frozen=True)
class Headline:
    """A benchmark's headline measure, and what is reported beside it."""

    measure: Measure
    """accuracy: the share of right attempts. mean score: the mean over tasks of a task's mean
    score, for answers that can be right in part."""
    parts: tuple[str, ...] = ()
    """Names of criteria in the scores' details (`rubric`) that are reported each by itself, in
    their own ranges, such as ``goal``."""

    metrics: tuple[Metric, ...] = ()
    """Further figures. attempted: SimpleQA's F1, the share right of those attempted, the share not
    attempted. calibration: HLE's two calibration errors, of scores with a confidence. plans: m&m's
    measures of plans."""

    def detail(self) -> dict[str, Any]:
        """As the task set's artifact has it."""
        found: dict[str, Any] = {"measure": self.measure}
        found |= {"parts": list(self.parts)} if self.parts else {}
        return found | ({"metrics": list(self.metrics)} if self.metrics else {})


SHARE_RIGHT = Headline("accuracy")
"""For benchmarks whose scorer gives a degree, and whose published figure is the share of answers
that are right in full."""
MEAN_SCORE = Headline("mean score")
