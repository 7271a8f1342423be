"""Scorers of inspect-evals: ``python inspect_evals.py WHAT < answers.jsonl``.

In: a line an answer. Out: a line each, ``{"said": the verdict or the number}``. WHAT is one of

- ``gsm8k``, ``aime``: ``{"text": reply, "answer": gold}``;
- ``choice``: the same with ``choices``, the number of choices (MMLU, MMLU-Pro, GPQA);
- ``bfcl``: ``{"category", "functions", "ground_truth", "calls": [{"name", "arguments"}]}``;
- ``simpleqa-paper``, ``simpleqa-strict``, ``hle``: ``{"reply": text of the judge}``;
- ``simpleqa-f``: ``{"words": [verdict …]}``;
- ``hle-calibration``: ``{"pairs": [[right, confidence of 100] …]}``.

Needs inspect-evals; its scorers call no model but a stand-in that says ``reply``.
"""

import asyncio
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

# This file has the package's name, and its folder comes first in the path.
sys.path = [each for each in sys.path if Path(each).resolve() != Path(__file__).parent]

LETTERS = "ABCDEFGHIJ"
VERDICTS = ("correct", "incorrect", "not_attempted")


def module(name: str) -> Any:
    """A module of the official environment."""
    found: ModuleType = importlib.import_module(name)
    return found


def state_of(asked: Mapping[str, Any], text: str) -> Any:
    """An inspect TaskState whose model said `text`."""
    model, solver = module("inspect_ai.model"), module("inspect_ai.solver")
    output = model.ModelOutput.from_content("any", text)
    choices = [str(place) for place in range(asked.get("choices", 0))]
    return solver.TaskState(
        model="any",
        sample_id="1",
        epoch=1,
        input="a question",
        messages=[model.ChatMessageUser(content="a question"), output.message],
        target=module("inspect_ai.scorer").Target(asked.get("answer", "")),
        choices=choices,
        output=output,
        completed=True,
    )


async def by_text(what: str, asked: Mapping[str, Any]) -> bool:
    """The verdict on a reply."""
    scorers = module("inspect_ai.scorer")
    state = state_of(asked, asked["text"])
    if what == "gsm8k":
        scorer = scorers.match(numeric=True)
    elif what == "aime":
        scorer = module("inspect_evals.utils.aime_common").aime_scorer()
    else:
        solving = module("inspect_ai.solver._multiple_choice")
        answers = solving.parse_answers(state, False)
        solving.set_choices_based_on_generated_response(state, answers)
        scorer = scorers.choice()
    score = await scorer(state, state.target)
    return bool(score.value == scorers.CORRECT)


async def by_calls(asked: Mapping[str, Any]) -> bool:
    """The verdict on BFCL's calls."""
    scoring = module("inspect_evals.bfcl.score.scorer")
    config = module("inspect_evals.bfcl.utils").CategoryConfig(asked["category"])
    model, tool = module("inspect_ai.model"), module("inspect_ai.tool")
    state = state_of({}, "")
    state.metadata = {"parsed_ground_truth": asked["ground_truth"], "tools": asked["functions"]}
    calls = [
        tool.ToolCall(id=str(place), function=call["name"], arguments=call["arguments"])
        for place, call in enumerate(asked["calls"])
    ]
    state.messages = [model.ChatMessageAssistant(content="", tool_calls=calls)]
    score = scoring.ast_match(state, state.target, config)
    return bool(score.value == 1)


async def by_judge(what: str, asked: Mapping[str, Any]) -> str:
    """The verdict that is read from a judge's reply."""
    model = module("inspect_ai.model")
    said = model.ModelOutput.from_content("mockllm", asked["reply"])
    said.usage = model.ModelUsage()  # Without it, the stand-in counts tokens by a download.
    judge = model.get_model("mockllm/model", custom_outputs=[said], memoize=False)
    module("inspect_ai.model._model").init_model_roles({"grader": judge})
    state = state_of({"answer": "gold"}, "an answer")
    if what == "hle":
        scorer = module("inspect_evals.hle.scorers").json_judge(prompt="json_judge")
        score = await scorer(state, state.target)
        unscored = score.value["score"] != score.value["score"]
        right = score.value["score"] == module("inspect_ai.scorer").CORRECT
        word = "unscored" if unscored else "correct" if right else "incorrect"
        return f"{word} {score.value['confidence']}"
    rule = what.removeprefix("simpleqa-")
    scorer = module("inspect_evals.simpleqa.scorer").simpleqa_scorer(grade_parse=rule)
    score = await scorer(state, state.target)
    return next(word for word in VERDICTS if score.value[word] == 1.0)


def by_metric(what: str, asked: Mapping[str, Any]) -> list[float]:
    """The figures of many answers."""
    scorers = module("inspect_ai.scorer")
    if what == "hle-calibration":
        values = [{"score": right, "confidence": stated} for right, stated in asked["pairs"]]
        metric = module("inspect_evals.hle.metrics").cerr()
    else:
        values = [{word: float(word == said) for word in VERDICTS} for said in asked["words"]]
        metric = module("inspect_evals.simpleqa.scorer").simpleqa_metric()
    found = metric([scorers.SampleScore(score=scorers.Score(value=each)) for each in values])
    if isinstance(found, float):
        return [found]
    return [found[name] for name in ("correct_given_attempted", "f_score", "not_attempted")]


async def main(what: str) -> None:
    """Read answers from stdin, and print what inspect-evals says."""
    for line in sys.stdin:
        asked = json.loads(line)
        said: Any
        if what in ("gsm8k", "aime", "choice"):
            said = await by_text(what, asked)
        elif what == "bfcl":
            said = await by_calls(asked)
        elif what in ("simpleqa-f", "hle-calibration"):
            said = by_metric(what, asked)
        else:
            said = await by_judge(what, asked)
        print(json.dumps({"said": said}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
