"""FlowBench's measures of a turn and of a session, from its published programs.

Parameters: a gold parameter is right if the call has it with the same JSON type and value. Texts
are equal if they are after removing punctuation and spaces, or if the gold one is contained in the
other; else the judge says whether they mean the same, at most `ASKS` times until it says yes or no;
only a no makes it wrong. Names of calls do not matter here. A call is right if its name is and
every gold parameter that is not empty is right, case ignored; further parameters are free.
"""

import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tutti.tasks.agents import fenced
from tutti.tasks.scoring.rules.judged import MATERIAL, reply_of
from tutti.tasks.scoring.rules.score import (
    JudgeClient,
    Needs,
    Score,
    Scorer,
    ScoringResources,
    Submission,
    Target,
    needed,
)
from tutti.tasks.scoring.rules.tool_calls import Call, calls_made

ASKS = 10
_DROPPED = str.maketrans("", "", string.punctuation.replace("\\", "") + " ")
_TOTAL = re.compile(r"Total number of goals:\s+(\d+)")
_MET = re.compile(r"Number of accomplished goals:\s+(\d+)")


class Comparison:
    """Comparison of one call's parameters with the gold ones; it stores the judge's replies."""

    def __init__(self, judge: JudgeClient | None) -> None:
        """`judge`: None if texts that differ are wrong."""
        self.judge = judge
        self.votes: dict[str, dict[str, Any]] = {}  # by parameter

    async def same(self, name: str, key: str, gold: Any, given: Any) -> bool:
        """Whether a parameter of a call to `name` is right. Raises ScorerFailed."""
        if type(gold) is not type(given):
            return False
        if not isinstance(gold, str):
            return bool(gold == given)
        if gold.translate(_DROPPED) in given.translate(_DROPPED):  # equal, or contained
            return True
        if self.judge is None:
            return False
        if key not in self.votes:
            parts = fenced({"input_a": gold, "input_b": given})
            prompt = (
                f"Do two values of the parameter {key} of the API {name} mean the same, such as one"
                f" time or one item in other words? {MATERIAL}\n\n{parts}\n\nReply yes or no."
            )
            self.votes[key] = await _first_reply(
                self.judge, prompt, lambda text: "yes" in text.lower() or "no" in text.lower()
            )
        return "no" not in self.votes[key]["text"].lower()

    async def right_parameters(self, made: Call, gold: Mapping[str, Any]) -> int:
        given = made.arguments or {}
        right = [await self.same(made.name, k, v, given[k]) for k, v in gold.items() if k in given]
        return sum(right)

    async def right_call(self, made: Call, expected: Mapping[str, Any]) -> bool:
        if made.name != expected["name"] or made.arguments is None:
            return False
        gold, given = (_filled(each) for each in (expected["arguments"], made.arguments))
        for key, value in gold.items():
            if key not in given or not await self.same(made.name, key, value, given[key]):
                return False
        return True


def _filled(arguments: Mapping[str, Any]) -> dict[str, Any]:
    lower: dict[str, Any] = json.loads(json.dumps(dict(arguments), ensure_ascii=False).lower())
    return {key: value for key, value in lower.items() if value not in ("", [])}


class FlowbenchTurn(Scorer):
    """One turn: the first call of the reply counts. Target ``{"calls": [gold call] or []}``.

    The value is whether the call is right; a turn without a gold call has 1 if none was made. The
    published figures are micro: from the details, the sums of ``right_calls`` over
    ``predicted_calls`` (precision) or ``gold_calls`` (recall), and of parameters.
    ``flowbench_turn_text``, our rule, has no judge.
    """

    def __init__(self, asks_judge: bool = True) -> None:
        """`asks_judge`: whether a judge compares texts that differ."""
        self.name: str = "flowbench_turn" if asks_judge else "flowbench_turn_text"
        self.needs: Needs = "judge" if asks_judge else "pure"

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        gold = needed(target, "calls", list)[:1]
        made = calls_made(submission.conversation)[:1]
        comparison = Comparison(resources.judge_client if self.needs == "judge" else None)
        detail: dict[str, Any] = {"gold_calls": len(gold), "predicted_calls": len(made)}
        detail |= dict.fromkeys(("right_calls", "right_names"), 0)
        detail |= dict.fromkeys(("gold_parameters", "predicted_parameters", "right_parameters"), 0)
        if gold:
            arguments = gold[0]["arguments"]
            detail["gold_parameters"] = len(arguments)
        if gold and made:
            detail["predicted_parameters"] = len(made[0].arguments or {})
            detail["right_parameters"] = await comparison.right_parameters(made[0], arguments)
            detail["right_names"] = int(made[0].name == gold[0]["name"])
            detail["right_calls"] = int(await comparison.right_call(made[0], gold[0]))
        correct = bool(detail["right_calls"]) if gold else not made
        detail["votes"] = comparison.votes
        return self.result(correct, detail=detail)


class FlowbenchSession(Scorer):
    """One session, by a judge. Target ``{"calls": …, "aim": text, "workflow": text}``.

    The judge says whether all aims of the user were met, how many there are and how many were met.
    The value is that yes; the detail has ``progress`` (met over all) and the counts of calls. A
    call made may stand for several gold ones, as there. The published program ends in a name that
    does not exist, so that no two calls with a text are equal; here they are compared as it means
    to.
    """

    name = "flowbench_session"
    needs = "judge"

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        gold, aim = needed(target, "calls", list), needed(target, "aim", str)
        workflow, messages = needed(target, "workflow", str), submission.conversation
        judge, made = resources.judge_client, calls_made(messages)
        right = 0
        for expected in gold:
            for call in made:
                if await Comparison(judge).right_call(call, expected):
                    right += 1
                    break
        vote = await _first_reply(judge, _prompt(aim, workflow, messages), _has_form)
        success, progress = read_result(vote["text"])
        detail: dict[str, Any] = {"success": success, "progress": progress, "vote": vote}
        detail |= {"right_calls": right, "gold_calls": len(gold), "predicted_calls": len(made)}
        return self.result(success, detail=detail, judge_call_id=str(vote["call_id"]))


async def _first_reply(
    judge: JudgeClient, prompt: str, valid: Callable[[str], bool]
) -> dict[str, Any]:
    for seed in range(ASKS):
        text, call_id = await reply_of(judge, prompt, seed)
        if valid(text):
            break
    return {"text": text, "call_id": call_id, "seed": seed}


def _has_form(text: str) -> bool:
    decides = text.split("\n")[0] in ("Result: yes", "Result: no")
    return decides and bool(_TOTAL.search(text) and _MET.search(text))


def read_result(text: str) -> tuple[bool, float]:
    """Return whether all aims were met, and the share of those that were."""
    total, met = _TOTAL.search(text), _MET.search(text)
    share = int(met[1]) / int(total[1]) if total and met and int(total[1]) else 0.0
    return text.split("\n")[0] == "Result: yes", share


def _prompt(aim: str, workflow: str, messages: Sequence[Mapping[str, Any]]) -> str:
    dialogue = "\n".join(line for each in messages for line in _lines(each))
    material = fenced({"aims": aim, "workflow": workflow, "dialogue": dialogue})
    return (
        "Has an assistant met every aim of its user? What counts: information was asked for and "
        "given, the right APIs were called, and their parameters are right; empty parameters need "
        "not match, texts only in meaning. Aims that the workflow does not cover count as met. "
        f"Results of APIs are not judged. {MATERIAL}\n\n{material}\n\nReply in this form:\n"
        "Result: yes (or no)\nTotal number of goals: 2\nNumber of accomplished goals: 1\n"
        "Reason: why, if it is no"
    )


def _lines(message: Mapping[str, Any]) -> list[str]:
    role = "function" if message["role"] == "tool" else message["role"]
    text = [f"{role}: {message['content']}"] if message.get("content") else []
    return text + [f"call: {call.name} {call.written}" for call in calls_made([message])]
