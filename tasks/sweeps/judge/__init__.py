"""Judge stored sweeps: comparisons, gates, labels, and scoring again."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.judge.arena import ArenaResult as ArenaResult
    from tutti.tasks.sweeps.judge.arena import answers_of as answers_of
    from tutti.tasks.sweeps.judge.arena import won_share as won_share
    from tutti.tasks.sweeps.judge.compare import CellComparison as CellComparison
    from tutti.tasks.sweeps.judge.compare import Side as Side
    from tutti.tasks.sweeps.judge.compare import compare_sides as compare_sides
    from tutti.tasks.sweeps.judge.compare import find_pair as find_pair
    from tutti.tasks.sweeps.judge.compare import find_side as find_side
    from tutti.tasks.sweeps.judge.compare import sampled as sampled
    from tutti.tasks.sweeps.judge.contamination import Contaminated as Contaminated
    from tutti.tasks.sweeps.judge.contamination import check_contamination as check_contamination
    from tutti.tasks.sweeps.judge.contamination import read_texts as read_texts
    from tutti.tasks.sweeps.judge.gates import FIGURES as FIGURES
    from tutti.tasks.sweeps.judge.gates import Outcome as Outcome
    from tutti.tasks.sweeps.judge.gates import check_gates as check_gates
    from tutti.tasks.sweeps.judge.gates import enter_verdicts as enter_verdicts
    from tutti.tasks.sweeps.judge.gates import read_gates as read_gates
    from tutti.tasks.sweeps.judge.gates import unjudged as unjudged
    from tutti.tasks.sweeps.judge.labels import LabelAgreement as LabelAgreement
    from tutti.tasks.sweeps.judge.labels import compare_labels as compare_labels
    from tutti.tasks.sweeps.judge.programs import ProgramScores as ProgramScores
    from tutti.tasks.sweeps.judge.programs import is_of_gateway as is_of_gateway
    from tutti.tasks.sweeps.judge.programs import score_programs as score_programs
    from tutti.tasks.sweeps.judge.rescore import RescoreResult as RescoreResult
    from tutti.tasks.sweeps.judge.rescore import ScoringRequest as ScoringRequest
    from tutti.tasks.sweeps.judge.score import hold_arena as hold_arena
    from tutti.tasks.sweeps.judge.score import score_sweep as score_sweep
    from tutti.tasks.sweeps.judge.score import serve_judge as serve_judge
    from tutti.tasks.sweeps.judge.words import outcome_words as outcome_words

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
