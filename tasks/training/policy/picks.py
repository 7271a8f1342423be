"""Turns of an attempt with an extra reward, picked by a query or by a judge.

A judge is called once per dialogue, through the gateway, with role `judge`; its picks are a row of
`scores`, so a resumed job does not call it again.
"""

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, ErrorType, Home, commit, query
from tutti.storage import catalog as cat
from tutti.tasks.agents.models import ContextExceeded, ModelCallFailed
from tutti.tasks.sweeps.plan import ServedModel
from tutti.tasks.sweeps.run import open_judge
from tutti.tasks.training.jobs.job import JobError, rows_of
from tutti.tasks.training.policy.job import ProcessReward

Picks = Mapping[str, tuple[bool, ...]]
"""By attempt: whether each turn is picked. An attempt without a verdict is not among them."""
AT_ONCE = 8
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
"""Reasons for which the judge is not asked again: it would answer the same."""
JudgeReply = tuple[dict[str, Any], str | None]
"""The turns that are picked, or why none could be read; and the judge's call."""
NUMBERS = re.compile(r"\[\s*(?:\d+\s*(?:,\s*\d+\s*)*)?\]")


def read_picks(process: ProcessReward | None, names: Sequence[str], home: Home) -> Picks:
    """Return the picks of attempts. Without a process reward no turn is picked; an attempt without
    a judge's verdict is left out. The nth turn is the nth call of the trained model.

    Raises JobError for a query that fails or returns other columns.
    """
    turns: dict[str, list[int]] = {name: [] for name in names}
    for row in query(TURNS, home, {"ids": list(names)}):
        turns[row["attempt_id"]].append(row["step"])
    if process is None:
        return {name: (False,) * len(steps) for name, steps in turns.items()}
    if process.sql is None:
        judged = _judged(names, version_of(process), home)
        return {
            name: tuple(nth in detail["picked"] for nth in range(len(turns[name])))
            for name, detail in judged.items()
            if "picked" in detail
        }
    statement = f"select * from ({process.sql}) where attempt_id in (select unnest($ids))"
    rows = rows_of(statement, home, "reward.process.sql", {"ids": list(names)})
    if rows and not {"attempt_id", "step"} <= rows[0].keys():
        raise JobError(
            f"reward.process.sql: gives {', '.join(rows[0])}; it must give attempt_id and step"
        )
    picked = {(row["attempt_id"], row["step"]) for row in rows}
    return {name: tuple((name, each) in picked for each in steps) for name, steps in turns.items()}


def version_of(process: ProcessReward) -> str:
    """Return the version of a judge's picks: the content hash of its prompt."""
    return hashlib.sha256(prompt_of(process).encode()).hexdigest()[:16]


def prompt_of(process: ProcessReward) -> str:
    """Return the judge's prompt. Raises JobError if there is none, or it has no placeholder for the
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
    flush: Callable[[], None]
    catalog: Catalog
    pauses_s: Sequence[float] = PAUSES_S

    async def pick_in(self, sweep_id: str, cell_id: str) -> None:
        """Judge each attempt of a cell that was not judged yet, and store the picks.

        If the judge names no turns, or cannot read the dialogue, the row has no pick but the
        reason. An unreachable judge is tried again after each of `pauses_s`; if it remains
        unreachable, nothing is stored for the attempt.
        """
        version, home = version_of(self.process), self.catalog.home
        names = [row["attempt_id"] for row in query(REWARDED, home, {"cell": cell_id})]
        known, replies = _judged(names, version, home), dict[str, JudgeReply]()
        for pause_s in (0.0, *self.pauses_s):
            if not (left := [name for name in names if name not in known.keys() | replies]):
                break
            await asyncio.sleep(pause_s)
            dialogues = await asyncio.to_thread(_dialogues, left, home)
            replies |= await self._ask(dialogues)
        if not replies:
            return
        key: dict[str, Any] = {"sweep_id": sweep_id, "cell_id": cell_id, "scorer": SCORER}
        key |= {"scorer_version": version, "scored_at": cat.now()}
        rows = []
        for name, (detail, call_id) in replies.items():
            value = float(len(detail["picked"])) if "picked" in detail else None
            row = {"attempt_id": name, "value": value, "detail": json.dumps(detail)}
            rows.append(key | row | {"judge_call_id": call_id})
        await asyncio.to_thread(self.flush)
        await asyncio.to_thread(commit, self.catalog, {"scores": rows})

    async def _ask(self, dialogues: Mapping[str, str]) -> dict[str, JudgeReply]:
        """Return the judge's replies by attempt; attempts without a reply are left out."""
        prompt, gate = prompt_of(self.process), asyncio.Semaphore(AT_ONCE)
        replies: dict[str, JudgeReply] = {}
        async with open_judge(self.url, self.served) as judge_of:

            async def ask(name: str, dialogue: str) -> None:
                async with gate:
                    try:
                        request = prompt.replace(DIALOGUE, dialogue)
                        text, call_id = await judge_of(name).ask(request, 0)
                    except ModelCallFailed:
                        return  # the gateway has recorded the failed call
                    except ContextExceeded:
                        replies[name] = {"failed": ErrorType.CONTEXT_EXCEEDED}, None
                        return
                numbers = numbers_in(text)
                detail = {"failed": UNREAD} if numbers is None else {"picked": numbers}
                replies[name] = detail, call_id

            await asyncio.gather(*(ask(*each) for each in dialogues.items()))
        return replies


def numbers_in(text: str) -> list[int] | None:
    """The last list of turn numbers in a judge's answer, such as ``[0, 3]``; None without one."""
    lists = NUMBERS.findall(text)
    return [int(each) for each in re.findall(r"\d+", lists[-1])] if lists else None


def _dialogues(names: Sequence[str], home: Home) -> dict[str, str]:
    """Return dialogues for a judge; the turns of the trained model are numbered from 0."""
    lines: dict[str, list[str]] = {name: [] for name in names}
    turns = Counter[str]()
    for row in query(MESSAGES, home, {"ids": list(names)}):
        name, who, text = row["attempt_id"], row["role"], row["content"] or ""
        for call in row["tool_calls"] or ():
            text += f"\n[calls {call['name']} with {call['arguments']}]"
        if who == "assistant":
            who = f"turn {turns[name]}"
            turns[name] += 1
        lines[name].append(f"<{who}> {text.strip()}")
    return {name: "\n".join(each) for name, each in lines.items()}


def _judged(names: Sequence[str], version: str, home: Home) -> dict[str, dict[str, Any]]:
    """Return the judge's verdict on each attempt that was judged."""
    rows = query(JUDGED, home, {"ids": list(names), "version": version})
    details = {row["attempt_id"]: json.loads(row["detail"]) for row in rows}
    return {n: each for n, each in details.items() if each.get("failed", UNREAD) in FINAL}
