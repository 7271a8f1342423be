"""Analysis of stored sweeps: comparisons, gates, labels, arenas, and rescoring."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.analysis.arena import ArenaResult as ArenaResult
    from tutti.tasks.sweeps.analysis.arena import answers_of as answers_of
    from tutti.tasks.sweeps.analysis.arena import hold_arena as hold_arena
    from tutti.tasks.sweeps.analysis.compare import CellComparison as CellComparison
    from tutti.tasks.sweeps.analysis.compare import Figure as Figure
    from tutti.tasks.sweeps.analysis.compare import Pair as Pair
    from tutti.tasks.sweeps.analysis.compare import Side as Side
    from tutti.tasks.sweeps.analysis.compare import compare_pairs as compare_pairs
    from tutti.tasks.sweeps.analysis.compare import compare_rates as compare_rates
    from tutti.tasks.sweeps.analysis.compare import compare_sides as compare_sides
    from tutti.tasks.sweeps.analysis.compare import set_ups as set_ups
    from tutti.tasks.sweeps.analysis.contamination import Contaminated as Contaminated
    from tutti.tasks.sweeps.analysis.contamination import check_contamination as check_contamination
    from tutti.tasks.sweeps.analysis.contamination import read_texts as read_texts
    from tutti.tasks.sweeps.analysis.gates import Outcome as Outcome
    from tutti.tasks.sweeps.analysis.gates import accuracy_of as accuracy_of
    from tutti.tasks.sweeps.analysis.gates import check_gates as check_gates
    from tutti.tasks.sweeps.analysis.gates import enter_verdicts as enter_verdicts
    from tutti.tasks.sweeps.analysis.programs import LabelAgreement as LabelAgreement
    from tutti.tasks.sweeps.analysis.programs import ProgramScores as ProgramScores
    from tutti.tasks.sweeps.analysis.programs import score_programs as score_programs
    from tutti.tasks.sweeps.analysis.rescore import RescoreResult as RescoreResult
    from tutti.tasks.sweeps.analysis.rescore import ScoringRequest as ScoringRequest
    from tutti.tasks.sweeps.analysis.rescore import score_sweep as score_sweep
    from tutti.tasks.sweeps.analysis.rescore import serve_judge as serve_judge

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
