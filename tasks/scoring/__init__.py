"""Scorers: they score answers. To add one, write a file with a `Scorer` and a line in `SCORERS`."""

from typing import TYPE_CHECKING

from tutti.face import lazy
from tutti.tasks.scoring.choice import LETTERS, Choice
from tutti.tasks.scoring.code import Code
from tutti.tasks.scoring.dialogue import Dialogue
from tutti.tasks.scoring.exact import EXACT, Exact, score_exact
from tutti.tasks.scoring.ifbench import IFBench
from tutti.tasks.scoring.ifeval import IFEval
from tutti.tasks.scoring.imported import ImportedScore
from tutti.tasks.scoring.json_values import same
from tutti.tasks.scoring.judged.judge import Judge
from tutti.tasks.scoring.judged.pairwise import Pairwise
from tutti.tasks.scoring.judged.rubric import Rubric
from tutti.tasks.scoring.lean.scorer import Lean4, Lean4Strict
from tutti.tasks.scoring.math import Math
from tutti.tasks.scoring.numeric import Numeric, numbers
from tutti.tasks.scoring.published.api_bank import ApiBankRecorded, ApiBankSession
from tutti.tasks.scoring.published.api_bank_executed import EXECUTED as EXECUTED
from tutti.tasks.scoring.published.arena_hard import ArenaHard
from tutti.tasks.scoring.published.bfcl import BfclAst
from tutti.tasks.scoring.published.bigcodebench import BigCodeBench, check_modules, modules_of
from tutti.tasks.scoring.published.bird import BirdMeasure
from tutti.tasks.scoring.published.flowbench import FlowbenchSession, FlowbenchTurn
from tutti.tasks.scoring.published.judges import (
    FramesRule,
    HleRule,
    PublishedJudge,
    SimpleQaRule,
    ToolOrchestraRule,
)
from tutti.tasks.scoring.published.mnms import Mnms
from tutti.tasks.scoring.published.repetition import Repetition
from tutti.tasks.scoring.published.rouge import RougeL
from tutti.tasks.scoring.published.ruler import Ruler
from tutti.tasks.scoring.published.sotopia import Sotopia
from tutti.tasks.scoring.reward import Reward
from tutti.tasks.scoring.score import (
    Needs,
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
)
from tutti.tasks.scoring.short_answer import ShortAnswer
from tutti.tasks.scoring.sql import Sql
from tutti.tasks.scoring.state import State
from tutti.tasks.scoring.tool_calls import ToolCalls
from tutti.tasks.scoring.unscored import UNSCORED

SCORERS: dict[str, Scorer] = {
    EXACT: Exact(),
    "numeric": Numeric(),
    "short_answer": ShortAnswer(),
    "choice": Choice(),
    "math": Math(),
    "lean4": Lean4(),
    "lean4_strict": Lean4Strict(),
    "ifeval": IFEval(),
    "ifbench": IFBench(),
    "tool_calls": ToolCalls(),
    "state": State(),
    "dialogue": Dialogue(),
    "reward": Reward(),
    "repetition": Repetition(),
    **EXECUTED,
    "api_bank_recorded": ApiBankRecorded(),
    "api_bank_session": ApiBankSession(),
    "arena_hard": ArenaHard(),
    "bfcl_ast": BfclAst(),
    "flowbench_turn": FlowbenchTurn(),
    "flowbench_turn_text": FlowbenchTurn(asks_judge=False),
    "flowbench_session": FlowbenchSession(),
    "mnms": Mnms(),
    "mnms_best_match": Mnms(best_match=True),
    "rouge_l": RougeL(),
    "ruler": Ruler(),
    "code": Code(),
    "bigcodebench": BigCodeBench(),
    "sql": Sql(),
    **{name: BirdMeasure(name) for name in ("bird_ex", "bird_soft_f1", "bird_r_ves")},
    "judge": Judge(),
    "hle_judge": PublishedJudge(HleRule()),
    "simpleqa_judge": PublishedJudge(SimpleQaRule()),
    "frames_judge": PublishedJudge(FramesRule()),
    "toolorchestra_judge": PublishedJudge(ToolOrchestraRule()),
    "rubric": Rubric(),
    "sotopia": Sotopia(),
    "pairwise": Pairwise(),
    "imported": ImportedScore(),
}

GRADED = frozenset(
    {
        *("rubric", "reward", "pairwise", "repetition", "rouge_l", "bird_soft_f1", "bird_r_ves"),
        *("flowbench_turn", "flowbench_turn_text", "arena_hard", "ruler"),
    }
)
"""Scorers whose score, 0 to 1, is a degree, which benchmarks report as its mean."""
WHOLE = frozenset(
    {
        *EXECUTED,
        *("api_bank_recorded", "api_bank_session", "bfcl_ast", "flowbench_session"),
        *("mnms", "mnms_best_match"),
    }
)
"""Scorers whose score is a degree, but whose publishers count what is right in full."""

__all__ = [
    "EXACT",
    "EXECUTED",
    "GRADED",
    "LETTERS",
    "SCORERS",
    "UNSCORED",
    "WHOLE",
    "Needs",
    "Score",
    "Scorer",
    "ScorerFailed",
    "ScoringResources",
    "Submission",
    "check_modules",
    "modules_of",
    "numbers",
    "same",
    "score_exact",
]

if TYPE_CHECKING:
    from tutti.tasks.scoring.calibration import calibration_error as calibration_error
    from tutti.tasks.scoring.calibration import f1_of_attempted as f1_of_attempted
    from tutti.tasks.scoring.calibration import right_of_attempted as right_of_attempted
    from tutti.tasks.scoring.judged.bradley_terry import NotComparable as NotComparable
    from tutti.tasks.scoring.judged.bradley_terry import Rating as Rating
    from tutti.tasks.scoring.judged.bradley_terry import ratings as ratings
    from tutti.tasks.scoring.judged.judge_agreement import Agreement as Agreement
    from tutti.tasks.scoring.judged.judge_agreement import agreement as agreement
    from tutti.tasks.scoring.lean.project import LEAN_INSTALL as LEAN_INSTALL
    from tutti.tasks.scoring.lean.project import lean_set_up as lean_set_up
    from tutti.tasks.scoring.lean.proof import declaration as declaration
    from tutti.tasks.scoring.metrics import avg_at_n as avg_at_n
    from tutti.tasks.scoring.metrics import best_of_k as best_of_k
    from tutti.tasks.scoring.metrics import majority_at_k as majority_at_k
    from tutti.tasks.scoring.metrics import pass_at_k as pass_at_k
    from tutti.tasks.scoring.metrics import pass_hat_k as pass_hat_k
    from tutti.tasks.scoring.published.api_bank_executed import checkout as checkout
    from tutti.tasks.scoring.published.mnms import PlanUnreadable as PlanUnreadable
    from tutti.tasks.scoring.published.mnms import code_of as code_of
    from tutti.tasks.scoring.published.mnms import steps_of as steps_of
    from tutti.tasks.scoring.published.whose import whose_rule as whose_rule
    from tutti.tasks.scoring.score import JudgeClient as JudgeClient
    from tutti.tasks.scoring.score import JudgeSettings as JudgeSettings
    from tutti.tasks.scoring.single_text import score_text as score_text

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
