"""Which turns of an attempt are worth more: picked by a query, or by a judge that reads it.

In: attempts of a step. Out: for each its turns, picked or not, in the order of the trained model's
calls. A judge is asked once a dialogue, through the gateway, with role `judge`; what it picked is a
row of `scores`, so a job that goes on asks no second time. A judge that cannot be reached has said
nothing: it is asked again after each of `PAUSES_S`, and no row is stored if it stays away.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, ErrorType, Home, commit, query
from tutti.storage import catalog as cat
from tutti.tasks.agents.models import ContextExceeded, ModelCallFailed
from tutti.tasks.sweeps.plan import ServedModel
from tutti.tasks.sweeps.run import open_judge
from tutti.tasks.training.job import JobError, rows_of
from tutti.tasks.training.policy.job import ProcessReward

Picks = Mapping[str, tuple[bool, ...]]
"""By attempt: of each turn whether it is picked. An attempt without a verdict is not among them."""
AT_ONCE = 8
"""Dialogues that a judge reads at the same time."""
PAUSES_S = (10.0, 60.0, 300.0)
"""Before a judge that cannot be reached is asked again; an endpoint restarts in less."""
SCORER = "process"
PROMPT = Path(__file__).with_name("process_prompt.txt")
DIALOGUE = "{dialogue}"
TURNS = (
    "select attempt_id, step from calls where attempt_id in (select unnest($ids)) "
    "and role = 'orchestrator' and status = 'ok' order by attempt_id, step, sent_at"
)
MESSAGES = (
    "select attempt_id, role, content, tool_calls, name from messages "
    "where attempt_id in (select unnest($ids)) order by attempt_id, position"
)
JUDGED = (
    "select attempt_id, detail from scores where attempt_id in (select unnest($ids)) "
    f"and scorer = '{SCORER}' and scorer_version = $version qualify row_number() over "
    "(partition by attempt_id order by scored_at desc) = 1"
)
REWARDED = "select attempt_id from counted where cell_id = $cell order by attempt_id"
UNREAD = "the judge named no turns"
FINAL = (UNREAD, ErrorType.CONTEXT_EXCEEDED)
"""Why an attempt has no pick although the judge was asked: asked again, it would say the same."""
JudgeReply = tuple[dict[str, Any], str | None]
"""The turns that were picked, or why none could be read; and the judge's call."""
NUMBERS = re.compile(r"\[\s*(?:\d+\s*(?:,\s*\d+\s*)*)?\]")


def turns_of(names: Sequence[str], home: Home) -> dict[str, list[int]]:
    """The steps of the trained model's calls, by attempt and in order: the nth is turn n."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for row in query(TURNS, home, {"ids": list(names)}):
        found[row["attempt_id"]].append(row["step"])
    return found


def read_picks(process: ProcessReward | None, names: Sequence[str], home: Home) -> Picks:
    """The picks of attempts: no turn is picked in a job without a process reward, and an attempt
    without a judge's verdict is left out.

    Raises JobError for a query that fails or gives other columns.
    """
    turns = turns_of(names, home)
    if process is None:
        return {name: (False,) * len(steps) for name, steps in turns.items()}
    if process.sql is not None:
        steps = _picked_steps(process.sql, names, home)
        return {
            name: tuple((name, step) in steps for step in every) for name, every in turns.items()
        }
    judged = _judged(names, version_of(process), home)
    return {
        name: tuple(nth in detail["picked"] for nth in range(len(turns[name])))
        for name, detail in judged.items()
        if "picked" in detail
    }


def version_of(process: ProcessReward) -> str:
    """The version of a judge's picks: its prompt's content."""
    return hashlib.sha256(prompt_of(process).encode()).hexdigest()[:16]


def prompt_of(process: ProcessReward) -> str:
    """The judge's prompt. Raises JobError where there is none, or it has no place for the
    dialogue."""
    file = process.prompt or PROMPT
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"reward.process.prompt: {file}: cannot be read: {error}") from None
    if DIALOGUE not in text:
        raise JobError(f"reward.process.prompt: {file}: has no {DIALOGUE}, so it shows nothing")
    return text


@dataclass(frozen=True)
class ProcessJudge:
    """A judge that picks turns."""

    process: ProcessReward
    served: ServedModel
    url: str
    """The gateway's."""
    flush: Callable[[], None]
    """Commits the gateway's calls."""
    catalog: Catalog
    pauses_s: Sequence[float] = PAUSES_S

    async def pick_in(self, sweep_id: str, cell_id: str) -> None:
        """Ask about each attempt of a cell that was not judged yet, and store what was picked.

        An attempt whose judge names no turns, or cannot read the dialogue, has no pick: a row with
        the reason. Of an attempt whose judge cannot be reached nothing is stored.
        """
        version, home = version_of(self.process), self.catalog.home
        names = [row["attempt_id"] for row in query(REWARDED, home, {"cell": cell_id})]
        known = _judged(names, version, home)
        missing = [name for name in names if name not in known]
        if not missing:
            return
        found = await self._ask(missing, await asyncio.to_thread(_dialogues, missing, home))
        for pause_s in self.pauses_s:
            if not (left := [name for name in missing if name not in found]):
                break
            await asyncio.sleep(pause_s)
            found |= await self._ask(left, await asyncio.to_thread(_dialogues, left, home))
        key: dict[str, Any] = {"sweep_id": sweep_id, "cell_id": cell_id, "scorer": SCORER}
        rows = [
            key
            | {
                "scorer_version": version,
                "attempt_id": name,
                "value": None if detail.get("picked") is None else float(len(detail["picked"])),
                "detail": json.dumps(detail),
                "judge_call_id": call_id,
                "scored_at": cat.now(),
            }
            for name, (detail, call_id) in found.items()
        ]
        await asyncio.to_thread(self.flush)
        await asyncio.to_thread(commit, self.catalog, {"scores": rows})

    async def _ask(self, names: Sequence[str], said: Mapping[str, str]) -> dict[str, JudgeReply]:
        """What the judge says of the attempts, without those that got no answer."""
        prompt, gate = prompt_of(self.process), asyncio.Semaphore(AT_ONCE)
        async with open_judge(self.url, self.served) as judge_of:

            async def one(name: str) -> JudgeReply | None:
                async with gate:
                    return await _asked(judge_of(name), prompt.replace(DIALOGUE, said[name]))

            replies = await asyncio.gather(*map(one, names))
        return {
            name: reply for name, reply in zip(names, replies, strict=True) if reply is not None
        }


def numbers_in(text: str) -> list[int] | None:
    """The last list of turn numbers in a judge's answer, such as ``[0, 3]``; None without one."""
    found = NUMBERS.findall(text)
    return None if not found else [int(each) for each in re.findall(r"\d+", found[-1])]


async def _asked(judge: Any, prompt: str) -> JudgeReply | None:
    """Ask about one dialogue; None if there is no answer for a reason outside the judge."""
    try:
        text, call_id = await judge.ask(prompt, 0)
    except ModelCallFailed:
        return None  # the gateway has recorded the failed call
    except ContextExceeded:
        return {"failed": ErrorType.CONTEXT_EXCEEDED}, None
    numbers = numbers_in(text)
    return ({"failed": UNREAD} if numbers is None else {"picked": numbers}), call_id


def _dialogues(names: Sequence[str], home: Home) -> dict[str, str]:
    """Dialogues for a judge; the turns of the trained model are numbered from 0."""
    lines: dict[str, list[str]] = {name: [] for name in names}
    turns = dict.fromkeys(names, 0)
    for row in query(MESSAGES, home, {"ids": list(names)}):
        name, text = row["attempt_id"], row["content"] or ""
        for call in row["tool_calls"] or ():
            text += f"\n[calls {call['name']} with {call['arguments']}]"
        who = row["role"]
        if who == "assistant":
            who, turns[name] = f"turn {turns[name]}", turns[name] + 1
        lines[name].append(f"<{who}> {text.strip()}")
    return {name: "\n".join(each) for name, each in lines.items()}


def _picked_steps(sql: str, names: Sequence[str], home: Home) -> set[tuple[str, int]]:
    statement = f"select * from ({sql}) where attempt_id in (select unnest($ids))"
    rows = rows_of(statement, home, "reward.process.sql", {"ids": list(names)})
    if rows and not {"attempt_id", "step"} <= rows[0].keys():
        raise JobError(
            f"reward.process.sql: gives {', '.join(rows[0])}; it must give attempt_id and step"
        )
    return {(row["attempt_id"], row["step"]) for row in rows}


def _judged(names: Sequence[str], version: str, home: Home) -> dict[str, dict[str, Any]]:
    """What the judge said of each attempt that it was asked about."""
    rows = query(JUDGED, home, {"ids": list(names), "version": version})
    found = {row["attempt_id"]: json.loads(row["detail"]) for row in rows}
    return {
        name: detail
        for name, detail in found.items()
        if "picked" in detail or detail["failed"] in FINAL
    }
