"""Scorers of answers. To add one, write a file with a `Scorer` and a line in `SCORERS`."""

from typing import TYPE_CHECKING

from tutti.face import lazy
from tutti.tasks.scoring.ifbench import IFBench
from tutti.tasks.scoring.lean.scorer import Lean4, Lean4Strict
from tutti.tasks.scoring.published.api_bank import EXECUTED, ApiBankRecorded, ApiBankSession
from tutti.tasks.scoring.published.bfcl import BfclAst
from tutti.tasks.scoring.published.bigcodebench import BigCodeBench
from tutti.tasks.scoring.published.flowbench import FlowbenchSession, FlowbenchTurn
from tutti.tasks.scoring.published.judges import (
    ArenaHard,
    FramesJudge,
    HleJudge,
    SimpleQAJudge,
    Sotopia,
    ToolOrchestraJudge,
)
from tutti.tasks.scoring.published.mnms import Mnms
from tutti.tasks.scoring.published.texts import Repetition, RougeL, Ruler
from tutti.tasks.scoring.rules.choice import LETTERS as LETTERS
from tutti.tasks.scoring.rules.choice import Choice
from tutti.tasks.scoring.rules.code import Code
from tutti.tasks.scoring.rules.ifeval import IFEval
from tutti.tasks.scoring.rules.judged import Judge, Pairwise, Rubric
from tutti.tasks.scoring.rules.math import Math
from tutti.tasks.scoring.rules.score import UNSCORED as UNSCORED
from tutti.tasks.scoring.rules.score import JudgeClient as JudgeClient
from tutti.tasks.scoring.rules.score import JudgeSettings as JudgeSettings
from tutti.tasks.scoring.rules.score import Needs as Needs
from tutti.tasks.scoring.rules.score import Score as Score
from tutti.tasks.scoring.rules.score import Scorer as Scorer
from tutti.tasks.scoring.rules.score import ScorerFailed as ScorerFailed
from tutti.tasks.scoring.rules.score import ScoringResources as ScoringResources
from tutti.tasks.scoring.rules.score import Submission as Submission
from tutti.tasks.scoring.rules.short_answer import EXACT as EXACT
from tutti.tasks.scoring.rules.short_answer import Exact, Numeric, ShortAnswer
from tutti.tasks.scoring.rules.short_answer import numbers as numbers
from tutti.tasks.scoring.rules.short_answer import score_exact as score_exact
from tutti.tasks.scoring.rules.sql import BirdMeasure, Sql
from tutti.tasks.scoring.rules.state import Dialogue, ImportedScore, Reward, State
from tutti.tasks.scoring.rules.state import same as same
from tutti.tasks.scoring.rules.tool_calls import ToolCalls

SCORERS: dict[str, Scorer] = {
    each.name: each
    for each in (
        *(Exact(), Numeric(), ShortAnswer(), Choice(), Math(), Lean4(), Lean4Strict()),
        *(IFEval(), IFBench(), ToolCalls(), State(), Dialogue(), Reward(), ImportedScore()),
        *(Repetition(), RougeL(), Ruler(), Code(), BigCodeBench(), Sql(), BfclAst()),
        *(BirdMeasure(name) for name in ("bird_ex", "bird_soft_f1", "bird_r_ves")),
        *(*EXECUTED.values(), ApiBankRecorded(), ApiBankSession()),
        *(FlowbenchTurn(), FlowbenchTurn(asks_judge=False), FlowbenchSession()),
        *(Mnms(), Mnms(best_match=True)),
        *(Judge(), Rubric(), Pairwise(), ArenaHard(), Sotopia()),
        *(HleJudge(), SimpleQAJudge(), FramesJudge(), ToolOrchestraJudge()),
    )
}

GRADED = frozenset(
    "rubric reward pairwise repetition rouge_l bird_soft_f1 bird_r_ves flowbench_turn"
    " flowbench_turn_text arena_hard ruler".split()
)
"""Scorers whose score, 0 to 1, is a degree, which benchmarks report as its mean."""
WHOLE = frozenset(
    "api_bank_recorded api_bank_session bfcl_ast flowbench_session mnms mnms_best_match".split()
) | frozenset(EXECUTED)
"""Scorers whose score is a degree, but whose publishers count what is right in full."""


if TYPE_CHECKING:
    from tutti.tasks.scoring.single_text import score_text as score_text

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
