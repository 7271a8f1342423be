"""Scorers: what an answer is worth. Adding one: a file with a `Scorer`, a line in `SCORERS`."""

from tasks.scoring.choice import Choice
from tasks.scoring.code import Code
from tasks.scoring.exact import EXACT, Exact, score_exact
from tasks.scoring.ifeval import IFEval
from tasks.scoring.imported import Imported
from tasks.scoring.json_values import same
from tasks.scoring.judge import Judge
from tasks.scoring.math import Math
from tasks.scoring.numeric import Numeric
from tasks.scoring.pairwise import Pairwise
from tasks.scoring.recall import Recall
from tasks.scoring.reward import Reward
from tasks.scoring.rubric import Rubric
from tasks.scoring.score import Attempted, Means, Needs, Score, Scorer, ScorerFailed
from tasks.scoring.short_answer import ShortAnswer
from tasks.scoring.sql import Sql
from tasks.scoring.state import State
from tasks.scoring.tool_calls import ToolCalls

SCORERS: dict[str, Scorer] = {
    EXACT: Exact(),
    "numeric": Numeric(),
    "choice": Choice(),
    "math": Math(),
    "short_answer": ShortAnswer(),
    "ifeval": IFEval(),
    "tool_calls": ToolCalls(),
    "state": State(),
    "reward": Reward(),
    "recall": Recall(),
    "code": Code(),
    "sql": Sql(),
    "judge": Judge(),
    "rubric": Rubric(),
    "pairwise": Pairwise(),
    "imported": Imported(),
}

__all__ = [
    "EXACT",
    "SCORERS",
    "Attempted",
    "Means",
    "Needs",
    "Score",
    "Scorer",
    "ScorerFailed",
    "same",
    "score_exact",
]
