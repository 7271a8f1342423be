"""Our scorers beside those of inspect-evals, a second implementation of many benchmarks.

In: the Python that has inspect-evals; for GSM8K and BFCL the folder of their data. Out: the
agreement over made-up replies. Replies state the gold answer and a wrong one in several forms.
"""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from bench.evaluations import bfcl
from bench.evaluations.agreement import Agreement, official
from bench.evaluations.perturb import KINDS, perturbed
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.scoring import LETTERS, SCORERS, ScoringResources, Submission
from tutti.tasks.scoring.metrics import calibration_error, f1_of_attempted, right_of_attempted
from tutti.tasks.scoring.published.judges import HleJudge, SimpleQAJudge

PROGRAM = "inspect_evals.py"
DIGITS = 9  # to which figures are compared
ROUNDS = 200  # made-up sets of answers for the metrics
WORDS = ("correct", "incorrect", "not_attempted")

NUMBER_FORMS = {
    "asked": "We add them.\nANSWER: {}",
    "dollar": "We add them.\nANSWER: ${}",
    "bold": "We add them.\n**ANSWER: {}**",
    "stop": "We add them.\nThe answer is {}.",
    "unit": "We add them.\nANSWER: {} apples",
    "decimal": "We add them.\nANSWER: {}.00",
    "boxed": "We add them.\n\\boxed{{{}}}",
    "display": "We add them.\n$$\n\\boxed{{{}}}\n$$",
    "hashes": "We add them.\n#### {}",
    "inside": "There are {} of them, as 2 + 2 shows.",
}
LETTER_FORMS = {
    "asked": "It follows.\nANSWER: {}",
    "stop": "It follows.\nANSWER: {}.",
    "bold": "It follows.\n**ANSWER: {}**",
    "brackets": "It follows.\nAnswer: ({})",
    "dollars": "It follows.\nANSWER: ${}$",
    "sentence": "It follows. The answer is {}.",
    "boxed": "It follows.\n\\boxed{{{}}}",
    "reason": "ANSWER: {}, because it follows.",
    "again": "ANSWER: A\nNo.\nANSWER: {}",
    "alone": "{}",
}
SIMPLEQA_REPLIES = (
    *("A", "B", "C", "A.", '"B"', "**C**", "Grade: A", "The grade is B.", "a", "", "none"),
    *("CORRECT", "INCORRECT", "NOT_ATTEMPTED", "A: correct", "B, since C is absent", "No Answer"),
)
HLE_FIELDS = ("extracted_final_answer", "reasoning")


def gsm8k(python: str, data: Path) -> Agreement:
    """`numeric` over every question of GSM8K."""
    golds = [str(task.target["answer"]) for task in _tasks("gsm8k", data)]
    return _numbers(python, "gsm8k", "numeric", golds)


def aime(python: str, data: Path) -> Agreement:
    """`math` over whole numbers from 0 to 999, as AIME's answers are; `data` is not read."""
    return _numbers(python, "aime", "math", [str(number) for number in range(0, 1000, 7)])


def choice(python: str, data: Path) -> Agreement:
    """`choice` with 4 and with 10 choices, as in MMLU, GPQA and MMLU-Pro; `data` is not read."""
    asked: list[dict[str, Any]] = []
    ours = []
    pairs = [(count, *pair) for count in (4, 10) for pair in product(LETTERS[:count], repeat=2)]
    for (count, gold, given), (kind, form) in product(pairs, LETTER_FORMS.items()):
        target, text = {"answer": gold, "choices": count}, form.format(given)
        asked.append({"text": text, **target})
        ours.append((kind, _verdict("choice", target, text)))
    return _compared(python, "choice", asked, ours)


def calls(python: str, data: Path) -> Agreement:
    """`bfcl_ast` over every task of the single-turn categories."""
    found = Agreement()
    for category in bfcl.CATEGORIES:
        rows = _rows(data / f"BFCL_v4_{category}.json")
        gold = _rows(data / "possible_answer" / f"BFCL_v4_{category}.json")
        asked, ours = [], []
        for task in benchmark_named("bfcl").load(Source(data, category), []):
            for kind in KINDS:
                made = perturbed([bfcl.gold_call(c) for c in task.target["calls"]], kind, task.key)
                what = {"category": category, "functions": rows[task.key]["function"]}
                what["ground_truth"] = gold[task.key]["ground_truth"]
                asked.append(what | {"calls": made})
                ours.append((kind, asyncio.run(bfcl.score(task, made))))
        found.join(_compared(python, "bfcl", asked, ours))
    return found


def simpleqa(python: str, data: Path) -> Agreement:
    """How `simpleqa_judge` reads replies, by both of its rules, and its figures; no `data`."""
    asked = [{"reply": reply} for reply in SIMPLEQA_REPLIES]
    read = [SimpleQAJudge().read(reply).word for reply in SIMPLEQA_REPLIES]
    found = _compared(python, "simpleqa-paper", asked, [("paper", word) for word in read])
    found.join(_compared(python, "simpleqa-strict", asked, [("strict", word) for word in read]))
    rng, sets, ours = random.Random(1), [], []
    for _ in range(ROUNDS):
        words = rng.choices(WORDS, [rng.random() + 0.01 for _ in WORDS], k=rng.randint(5, 300))
        words[0] = "correct"  # Without one, both shares are 0 and have no harmonic mean.
        sets.append({"words": words})
        counts = [(int(w == "correct"), int(w != "not_attempted"), 1) for w in words]
        missing = sum(word == "not_attempted" for word in words) / len(words)
        figures = [right_of_attempted(counts).value, f1_of_attempted(counts).value, missing]
        ours.append(("figures", _rounded(figures)))
    found.join(_compared(python, "simpleqa-f", sets, ours))
    return found


def hle(python: str, data: Path) -> Agreement:
    """How `hle_judge` reads replies, and the whole calibration error; no `data`."""
    asked, ours = [], []
    for reply in _hle_replies():
        asked.append({"reply": reply})
        read = HleJudge().read(reply)
        ours.append(("reply", f"{read.word} {100 if read.confidence is None else read.confidence}"))
    found = _compared(python, "hle", asked, ours)
    rng, sets, errors = random.Random(2), [], []
    for _ in range(ROUNDS):
        # Stated confidences differ, since the order of equal ones is not defined there.
        stated = rng.sample(range(101), rng.randint(20, 101))
        pairs = [[int(rng.random() * 100 < each), each] for each in stated]
        sets.append({"pairs": pairs})
        error = calibration_error([c / 100 for _, c in pairs], [bool(right) for right, _ in pairs])
        errors.append(("calibration", _rounded([error.whole])))
    found.join(_compared(python, "hle-calibration", sets, errors))
    return found


def _hle_replies() -> Iterator[str]:
    about = dict.fromkeys(HLE_FIELDS, "x")
    for correct in ("yes", "no", "Yes", "maybe"):
        for confidence in (0, 55, 100, 140, -3):
            text = json.dumps({**about, "correct": correct, "confidence": confidence})
            yield text
            yield f"```json\n{text}\n```"
    yield json.dumps({**about, "correct": "yes"})
    yield "yes"
    yield ""


def _numbers(python: str, what: str, scorer: str, golds: Sequence[str]) -> Agreement:
    asked, ours = [], []
    others = [*golds[-1:], *golds[:-1]]
    pairs = [(gold, gold) for gold in golds]
    pairs += [(gold, other) for gold, other in zip(golds, others, strict=True) if gold != other]
    for (gold, stated), (kind, form) in product(pairs, NUMBER_FORMS.items()):
        text = form.format(stated)
        asked.append({"text": text, "answer": gold.replace(",", "")})
        ours.append((kind, _verdict(scorer, {"answer": gold}, text)))
    return _compared(python, what, asked, ours)


def _compared(
    python: str, what: str, asked: Sequence[dict[str, Any]], ours: Sequence[tuple[str, Any]]
) -> Agreement:
    found, said = Agreement(), official(python, PROGRAM, [what], asked)
    for one, verdict, (kind, mine) in zip(asked, said, ours, strict=True):
        its = verdict["said"]
        its = _rounded(its) if isinstance(its, list) else its
        found.add(kind, mine, its, json.dumps(one)[-160:])
    return found


def _rounded(figures: Sequence[float | None]) -> list[float | None]:
    return [None if each is None else round(float(each), DIGITS) for each in figures]


def _verdict(scorer: str, target: dict[str, Any], text: str) -> bool:
    async def score() -> bool:
        submission = Submission(None, text)
        return bool((await SCORERS[scorer].score(target, submission, ScoringResources())).correct)

    return asyncio.run(score())


def _tasks(name: str, data: Path) -> list[Task]:
    return list(benchmark_named(name).load(Source(data), []))


def _rows(file: Path) -> dict[str, Any]:
    rows = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    return {row["id"]: row for row in rows}


COMPARED = (gsm8k, aime, choice, calls, simpleqa, hle)
