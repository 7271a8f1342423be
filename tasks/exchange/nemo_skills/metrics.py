"""``metrics.json`` of NeMo-Skills: the figures of one benchmark's rows by its own definitions.

In: the rows of one task, one a seed, task after task. Out: the blocks ``pass@k``,
``pass@1[avg-of-k]`` and ``majority@k``. Scores are percentages there; those in
``…_statistics`` are shares. Its definitions differ from tutti's (`tutti.tasks.scoring.metrics`):

- pass@k is unbiased over all n seeds where a task's scores are 0 and 1; else the highest of the
  first k.
- avg-of-k and majority@k are of the first k seeds, not of all subsets. A vote is for a pair of
  answer and score. Rows without an answer have no vote; a tie gives the mean of the tied scores.
- SimpleQA's verdicts A, B and C are three scores, each with these figures; a vote is for a verdict.
  F1 and the accuracy of attempted answers come from each block's shares.
- std_dev_across_runs is between the seeds' means over the same tasks, so it does not tell how the
  score varies between tasks; there is no interval.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

Row = Mapping[str, Any]
Block = dict[str, Any]
SCORES = ("symbolic_correct", "judge_correct")
LETTERS = {"correct": "A", "incorrect": "B", "not_attempted": "C"}
"""SimpleQA's verdicts, as its judge writes them in `judgement`."""


class BenchmarkMetrics:
    """Takes the rows of a benchmark's tasks, all with the same number of seeds."""

    def __init__(self) -> None:
        self._entries, self._tokens, self._seeds = 0, 0.0, 0
        self._sums: dict[str, defaultdict[str, float]] = {}
        self._scores: defaultdict[str, list[list[float]]] = defaultdict(list)
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, rows: Sequence[Row]) -> None:
        """One task's rows, in the order of the seeds. ValueError for another number of them."""
        if self._seeds not in (0, len(rows)):
            raise ValueError(f"{len(rows)} rows of a task, {self._seeds} of those before")
        self._seeds = len(rows)
        self._entries += 1
        self._tokens += sum(row.get("num_generated_tokens", 0) for row in rows) / len(rows)
        self._starts += [row["generation_start_time"] for row in rows if _is_timed(row)]
        self._ends += [row["generation_end_time"] for row in rows if _is_timed(row)]
        self._scores["reasoning_tokens"].append([_tokens(row)[0] for row in rows])
        self._scores["answer_tokens"].append([_tokens(row)[1] for row in rows])
        letters = [row.get("judgement") for row in rows]
        if all(letter in LETTERS.values() for letter in letters):
            for name, wanted in LETTERS.items():
                self._add_scores(name, [float(letter == wanted) for letter in letters], letters)
            return
        answers = [row.get("predicted_answer") for row in rows]
        for name in SCORES:
            if all(name in row for row in rows):
                self._add_scores(name, [float(row[name]) for row in rows], answers)
        for k in range(1, len(rows) + 1):
            silent = [answer is None for answer in answers[:k]]
            self._block(f"pass@{k}")["no_answer"] += all(silent)
            if k > 1:
                self._block(_averaged(k))["no_answer"] += sum(silent) / k
                self._block(f"majority@{k}")["no_answer"] += all(silent)

    def blocks(self) -> dict[str, Block]:
        """The blocks by name; empty without rows."""
        found: dict[str, Block] = {}
        for name, sums in self._sums.items():
            found[name] = self._common() | {
                key: 100.0 * value / self._entries for key, value in sums.items()
            }
            if LETTERS.keys() <= sums.keys():
                found[name] |= _attempted(found[name]["correct"], found[name]["incorrect"])
        for name, scores in self._scores.items():
            for k in range(2, self._seeds + 1):
                found[_averaged(k)][f"{name}_statistics"] = _statistics([s[:k] for s in scores])
        return found

    def _common(self) -> Block:
        found: Block = {"num_entries": self._entries}
        if self._tokens > 0:
            found["avg_tokens"] = int(self._tokens / self._entries)
        if self._starts:
            found["gen_seconds"] = int(max(self._ends) - min(self._starts))
        return found

    def _add_scores(
        self, name: str, scores: Sequence[float], answers: Sequence[str | None]
    ) -> None:
        self._scores[name].append(list(scores))
        for k in range(1, len(scores) + 1):
            self._block(f"pass@{k}")[name] += _pass_at(scores, k)
            if k > 1:
                self._block(_averaged(k))[name] += fmean(scores[:k])
                self._block(f"majority@{k}")[name] += _majority(scores[:k], answers[:k])

    def _block(self, name: str) -> defaultdict[str, float]:
        return self._sums.setdefault(name, defaultdict(float))


def _attempted(correct: float, incorrect: float) -> Block:
    """SimpleQA's further figures of a block, in percent."""
    given = correct + incorrect
    accuracy = 100.0 * correct / given if given else 0.0
    f1 = 2 * accuracy * correct / (accuracy + correct) if accuracy + correct else 0.0
    return {"f1": f1, "accuracy_given_attempted": accuracy}


def _averaged(k: int) -> str:
    return f"pass@1[avg-of-{k}]"


def _is_timed(row: Row) -> bool:
    return "generation_start_time" in row and "generation_end_time" in row


def _tokens(row: Row) -> tuple[float, float]:
    """Of reasoning and of the answer; where a row does not part them, all are the answer's."""
    reasoning, answer = row.get("num_reasoning_tokens", 0), row.get("num_answer_tokens", 0)
    if not reasoning and not answer:
        answer = row.get("num_generated_tokens", 0)
    return float(reasoning), float(answer)


def _pass_at(scores: Sequence[float], k: int) -> float:
    if any(score not in (0, 1) for score in scores):
        return max(scores[:k])
    n, wrong = len(scores), sum(score == 0 for score in scores)
    return 1 - math.comb(wrong, k) / math.comb(n, k)


def _majority(scores: Sequence[float], answers: Sequence[str | None]) -> float:
    votes = Counter(
        (answer, score) for answer, score in zip(answers, scores, strict=True) if answer is not None
    )
    most = max(votes.values(), default=0)
    return fmean(score for (_, score), n in votes.items() if n == most) if votes else 0.0


def _statistics(scores: Sequence[Sequence[float]]) -> Block:
    """As shares, not percentages."""
    runs = [fmean(run) for run in zip(*scores, strict=True)]
    across = stdev(runs)
    return {
        "avg": fmean(fmean(each) for each in scores),
        "std_dev_across_runs": across,
        "avg_sample_std_dev": fmean(stdev(each) for each in scores),
        "std_err_across_runs": across / math.sqrt(len(runs)),
    }
