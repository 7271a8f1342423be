"""Shadow worlds: copies of the corpus with invented identifiers, solved by the same oracle.

A model of a few million parameters memorises real names long before it learns to copy them. In
shadow worlds no name occurs twice, so that copying is the only way to be correct. In: the training
documents, a seed. Out: an endless stream of conversations, as an OpenAI client sends them.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from string import ascii_lowercase
from typing import Any

from tutti.tasks.agents import SYSTEM_PROMPT, ToolUse, boxed
from tutti.tasks.retrieval import Document, Parameter
from tutti.tasks.synthesis import question_task
from tutti.tasks.synthesis.families import FAMILIES
from tutti.tasks.synthesis.families import QUESTIONS as EXPRESSION_QUESTIONS
from tutti.tasks.task_sets import Task

WORLD_DOCUMENTS = 60
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Longer trajectories, and those that copy most, are sampled more often.
FAMILY_WEIGHTS = {
    "module": 2,
    "parameter": 4,
    "default": 5,
    "expression": 3,
    "arithmetic": 4,
    "count_sum": 2,
}


def words_of(documents: Sequence[Document]) -> list[str]:
    """Return the words in the documents' identifiers, lower case, sorted."""
    names = itertools.chain.from_iterable(
        [d.name, *(p.name for p in d.parameters or ())] for d in documents
    )
    return sorted({w.lower() for name in names for w in WORD.findall(name) if len(w) > 1})


class ShadowWorld:
    """One invented corpus with its tools; all random draws use `rng`."""

    def __init__(self, documents: Sequence[Document], words: list[str], rng: Random) -> None:
        self.rng = rng
        self.words = words
        self.modules = [self._identifier(parts=1) for _ in range(WORLD_DOCUMENTS // 5)]
        chosen = rng.sample(documents, min(WORLD_DOCUMENTS, len(documents)))
        renamed = [self._renamed(document) for document in chosen]
        # Invented names can collide; a name must be unique, as in the real corpus.
        self.documents = list({document.short_name: document for document in renamed}.values())

    def tasks(self, family: str) -> list[Task]:
        """Questions of `family` about this world."""
        if family == "expression":
            return [self._expression_task() for _ in range(8)]
        return list(FAMILIES[family].propose(self.documents, self.rng))

    def use_tool(self, use: ToolUse, task: Task) -> str:
        """Return the tool's response in this world: documents, or Python's output."""
        if use.name == "search":
            return self._search(use.arguments["query"])
        if task.family == "expression":
            return str(task.target["answer"])
        code = use.arguments["code"]
        return str(eval(code.removeprefix("print(").removesuffix(")"), {"__builtins__": {}}))

    def _search(self, query: str) -> str:
        wanted = next(d for d in self.documents if query in (d.name, d.short_name))
        siblings = [d for d in self.documents if d.module == wanted.module and d is not wanted]
        others = [d for d in self.documents if d is not wanted]
        near = siblings if siblings and self.rng.random() < 0.6 else others
        hits = [wanted, self.rng.choice(near)]
        if self.rng.random() < 0.15:
            hits.reverse()
        return "\n\n".join(document.text for document in hits)

    def _renamed(self, document: Document) -> Document:
        rng = self.rng
        module = rng.choice(self.modules)
        owner = f".{self._identifier(camel=True)}" if document.kind == "method" else ""
        name = f"{module}{owner}.{self._identifier(camel=document.kind == 'class')}"
        parameters = document.parameters
        if parameters is not None:
            count = rng.randint(0, 8) if rng.random() < 0.25 else len(parameters)
            names = list(dict.fromkeys(self._identifier() for _ in range(count)))
            with_default = rng.randint(0, len(names))
            parameters = tuple(
                Parameter(p, self._default() if i >= with_default else None)
                for i, p in enumerate(names)
            )
        summary = document.summary.split()
        rng.shuffle(summary)
        return Document(name, module, document.kind, parameters, " ".join(summary))

    def _identifier(self, parts: int | None = None, camel: bool = False) -> str:
        rng = self.rng
        words = [self._word() for _ in range(parts or rng.choice((1, 1, 2, 2, 3)))]
        if camel:
            return "".join(word.capitalize() for word in words)
        return rng.choice(("_", "_", "_", "_", "")).join(words)

    def _word(self) -> str:
        rng = self.rng
        if rng.random() < 0.75:
            return rng.choice(self.words)
        return "".join(rng.choices(ascii_lowercase, k=rng.randint(1, 5)))

    def _default(self) -> str:
        rng = self.rng
        word = self._word()
        truth = rng.choice([True, False])
        numbers = [rng.choice([0, 1, -1, 2]), rng.randint(-99, 99), rng.randint(100, 99_999)]
        tenths = rng.randint(0, 50) / 10
        texts = [repr(word), repr(rng.choice(["", " ", "\t", "-", ",", "utf-8", word[:1]]))]
        empty = rng.choice(["()", "[]", "{}", "b''", "b' '"])
        return str(rng.choice([None, truth, *numbers, tenths, *texts, repr(word.encode()), empty]))

    def _expression_task(self) -> Task:
        rng = self.rng
        kinds = [repr(self._word()), str(rng.randint(1, 40)), repr(self._word()[:1])]
        kinds.append(str([rng.randint(1, 40) for _ in range(3)]))
        inside = ", ".join(rng.choices(kinds, k=rng.randint(0, 3)))
        head = repr(self._word()) if rng.random() < 0.4 else self._identifier(parts=1)
        text = f"{head}.{self._identifier()}({inside})"
        values: list[Any] = [rng.choice([True, False, None]), rng.randint(-99, 999), rng.random()]
        values += [round(rng.random() * 100, 2), (rng.randint(0, 9), rng.randint(0, 99))]
        values.append(self._word() + rng.choice(["", "-", ".", "/"]) + self._word())
        values += [[self._word()[:4]], self._word().upper()]
        answer = str(rng.choice(values))
        question = rng.choice(EXPRESSION_QUESTIONS).format(expression=text)
        return question_task("expression", question, answer, {"expression": text}, (), "train")


def conversation(task: Task, use_tool: Callable[[ToolUse], str]) -> list[dict[str, Any]]:
    """Return the oracle's trajectory for `task`: messages, the last one with the boxed answer.
    `use_tool(use)` returns a tool's result. Raises LookupError if the oracle cannot solve it."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": task.inputs["question"]},
    ]
    oracle = FAMILIES[task.family].solve(task.slots)
    try:
        use = next(oracle)
        while True:
            function = {"name": use.name, "arguments": json.dumps(use.arguments)}
            call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
            result = use_tool(use)
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            use = oracle.send(result)
    except StopIteration as finished:
        messages.append({"role": "assistant", "content": boxed(str(finished.value))})
    return messages


def shadow_conversations(
    documents: Sequence[Document], seed: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield oracle conversations endlessly, eight per family from each world."""
    rng = Random(seed)
    words = words_of(documents)
    families, weights = list(FAMILY_WEIGHTS), list(FAMILY_WEIGHTS.values())
    while True:
        world = ShadowWorld(documents, words, rng)
        for family in rng.choices(families, weights, k=8):
            tasks = world.tasks(family)
            for task in rng.sample(tasks, min(8, len(tasks))):
                yield conversation(task, partial(world.use_tool, task=task))
