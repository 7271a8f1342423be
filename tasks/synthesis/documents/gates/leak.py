"""Gate: the answer is not in the text that is shown: the question, the document's title and name,
the description of the tool. Nor is any of its words of four letters or more, which would give away
the rest."""

from dataclasses import replace

from tutti.tasks.agents.tools import TOOL_SCHEMAS
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, VALVE, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionExamples, QuestionGate
from tutti.tasks.synthesis.gating.wording import spaced, words_of
from tutti.tasks.task_sets import Task, verdict

TELLING = 4
"""Letters of a word that tells the answer."""
TOOL = "{name} {description}".format(**TOOL_SCHEMAS[0]["function"])


def _reason(task: Task) -> str:
    places = {"the question": task.question, "the document's title": task.slots["title"]}
    places |= {"the document's name": task.slots["source"], "the tool's description": TOOL}
    telling = [word for word in words_of(task.answer) if len(word) >= TELLING and word.isalpha()]
    for where, text in places.items():
        shown = spaced(text.replace(".", " ").replace("/", " ")) + spaced(text)
        if spaced(task.answer) in shown:
            return f"the answer {task.answer!r} stands in {where}"
        part = next((word for word in telling if f" {word} " in shown), None)
        if part is not None:
            return f"{part!r}, a part of the answer, stands in {where}"
    return ""


LEAK = QuestionGate(
    "leak",
    "Neither the question, the document's title nor the tool's description has the answer.",
    lambda task, context: verdict(_reason(task)),
    QuestionExamples(
        PASSAGES,
        good=(question(), who(), maker()),
        bad=(  # the answer itself, a part of it, the answer in the title
            question(
                question="Does the pump run for 35 minutes after each rinse of the tank?",
                kind="teacher",
            ),
            who(
                question="Which Ada keeps the spare key of the pump house in the Long corridor?",
                kind="teacher",
            ),
            maker(replace(VALVE, title="Norden's valve")),
        ),
    ),
)
