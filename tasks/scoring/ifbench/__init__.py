"""IFBench: 58 instructions that a program can check, other than IFEval's 25.

Target and detail are IFEval's. Value: the share of instructions followed loosely; correct: all of
them, because the paper's headline is prompt-level loose accuracy. ``words:start_verb`` and, without
the package syllapy, ``words:odd_even_syllables`` give a scorer error.

Differences from the published program: sentences and tokens are separated by rules, not by NLTK's
models; consecutive blank lines never count as lines of stairs (there: every second one does);
italics by ``<em>`` need a text within and after them, as by ``<i>``; months and days begin at 1.
Source: Pyatkin et al., "Generalizing verifiable instruction following", 2025, arXiv 2507.02833.
"""

from tutti.tasks.scoring.ifbench import layout, wording
from tutti.tasks.scoring.rules.ifeval import INSTRUCTIONS as IFEVALS
from tutti.tasks.scoring.rules.ifeval import Check, judged
from tutti.tasks.scoring.rules.score import Score, Scorer, Submission, Target

INSTRUCTIONS: dict[str, Check] = {**layout.INSTRUCTIONS, **wording.INSTRUCTIONS}


class IFBench(Scorer):
    """Checks that the response follows its instructions, loosely."""

    name = "ifbench"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        detail = judged(self.name, {**IFEVALS, **INSTRUCTIONS}, target, submission)
        return self.result(detail["prompt_loose"], detail["instruction_loose"], detail=detail)
