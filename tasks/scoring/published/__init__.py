"""Scorers by publishers' own rules, and the origin of each scorer's rule, as reports show it."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.scoring.published.api_bank import EXECUTED as EXECUTED
    from tutti.tasks.scoring.published.api_bank import checkout as checkout
    from tutti.tasks.scoring.published.bigcodebench import check_modules as check_modules
    from tutti.tasks.scoring.published.bigcodebench import modules_of as modules_of
    from tutti.tasks.scoring.published.mnms import PlanUnreadable as PlanUnreadable
    from tutti.tasks.scoring.published.mnms import code_of as code_of
    from tutti.tasks.scoring.published.mnms import steps_of as steps_of

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)

OURS = "tutti's own rule"

WHOSE: dict[str, str] = {
    "api_bank": "API-Bank's evaluator, each call executed",
    "api_bank_3": "API-Bank's level 3, each call executed after the gold ones",
    "api_bank_3_words": f"{OURS}, API-Bank's level 3 with tools searched by words",
    "api_bank_recorded": "API-Bank's checks, from arguments and recorded results",
    "api_bank_session": "API-Bank's checks, all of a dialogue",
    "rouge_l": "API-Bank's ROUGE-L, package rouge 1.0.1",
    "arena_hard": "Arena-Hard v2, two games, without style control",
    "pairwise": f"{OURS}, preference in both orders",
    "bfcl_ast": "BFCL V4, bfcl-eval 2026.3.23",
    "flowbench_turn": "FlowBench's turn level",
    "flowbench_turn_text": f"{OURS}, FlowBench's without a judge",
    "flowbench_session": "FlowBench's session level, calls compared as meant",
    "hle_judge": "HLE's judge, one vote",
    "simpleqa_judge": "SimpleQA's grader, one vote",
    "frames_judge": "FRAMES' autorater, one vote",
    "toolorchestra_judge": "ToolOrchestra's judge, one vote",
    "bird_ex": "BIRD's EX, rows as a set",
    "bird_soft_f1": "BIRD's soft-F1",
    "bird_r_ves": "BIRD's R-VES",
    "ifbench": "IFBench's checks, prompt-level loose",
    "mnms": "m&m's evaluator, tools in order",
    "mnms_best_match": "m&m's evaluator, nearest of all gold plans",
    "lean4": "NeMo-Skills' lean4-proof",
    "lean4_strict": f"{OURS}, the given statement, standard axioms only",
    "repetition": "MRCR's similarity",
    "ruler": "RULER's string match",
    "sql": f"{OURS}, the order of rows where the gold query has one",
    "judge": f"{OURS}, three votes",
    "sotopia": "Sotopia's seven dimensions and their mean, asked in tutti's words",
    "rubric": f"{OURS}, criteria scaled to 0..1",
    "tool_calls": f"{OURS}, exact JSON",
}
"""By a scorer's name; the others follow the one rule that their benchmarks have."""
