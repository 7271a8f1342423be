"""A store with recorded attempts, for tests of training sets.

Ids: a prompt of two, a reply of two of which the last is `END`, and so on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.storage import Catalog, TokenHistory, commit

END = 0
ENDS = frozenset([END])
Turns = Sequence[tuple[Sequence[int], Sequence[int]]]
ONE: Turns = (([1, 2], [3, END]),)
TWO: Turns = (([1, 2], [3, END]), ([1, 2, 3, END, 7], [4, END]))
CUT: Turns = (([1, 2], [3, 4]), ([1, 2, 3, 4, 7], [5, END]))
REWRITTEN: Turns = (([1, 2], [9, 3, END]), ([1, 2, 3, END, 7], [4, END]))


@dataclass(frozen=True)
class Attempt:
    """One attempt and its calls, each (prompt, completion)."""

    attempt_id: str
    task_id: str = "t1"
    turns: Turns = ONE
    status: str = "ok"
    said: Sequence[dict[str, Any]] = ()
    """Rows of `messages`."""
    more: dict[str, Any] = field(default_factory=dict)
    """Other columns."""


def task(task_id: str, split: str, question: str = "", task_set: str = "task_set:1") -> Any:
    row = {"task_set_id": task_set, "task_id": task_id, "split": split, "status": "accepted"}
    return row | {"question": question or f"what is {task_id}"}


def enter(catalog: Catalog, attempts: Iterable[Attempt], tasks: Iterable[Any] = ()) -> None:
    """Commit attempts with their calls and messages, and tasks; the task t1 is for training."""
    rows: dict[str, list[Any]] = {"attempts": [], "calls": [], "messages": []}
    rows["tasks"] = [task("t1", "train"), *tasks]
    for each in attempts:
        known = {"sweep_id": "sweep:1", "cell_id": "cell:1", "attempt_id": each.attempt_id}
        known |= {key: value for key, value in each.more.items() if key == "cell_id"}
        outcome = {"task_id": each.task_id, "status": each.status}
        rows["attempts"].append(known | outcome | each.more)
        history = TokenHistory()
        for step, (prompt, completion) in enumerate(each.turns):
            name = f"{each.attempt_id}-{step}"
            call = {"call_id": name, "step": step, "role": "orchestrator", "status": "ok"}
            call["prompt_token_ids"] = history.observe(name, prompt, completion)
            call |= {"token_ids": [*completion], "logprobs": [-0.5] * len(completion)}
            rows["calls"].append(known | call)
        rows["messages"] += [known | {"position": n} | m for n, m in enumerate(each.said)]
    commit(catalog, {name: these for name, these in rows.items() if these})


def unrecorded(catalog: Catalog, attempt_id: str, task_id: str = "t1") -> None:
    """Store an attempt whose endpoint gave no token ids."""
    known = {"sweep_id": "sweep:1", "cell_id": "cell:1", "attempt_id": attempt_id}
    call = {"call_id": f"{attempt_id}-0", "step": 0, "role": "orchestrator", "status": "ok"}
    attempt = {"task_id": task_id, "status": "ok"}
    commit(catalog, {"attempts": [known | attempt], "calls": [known | call]})
