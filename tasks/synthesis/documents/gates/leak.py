"""Gate: the answer does not stand in what is shown: the question, the document's title and name,
the description of the tool. Nor does a word of it of four letters or more, which tells the rest.
"""

from collections.abc import Sequence
from dataclasses import replace

from tutti.tasks.agents import TOOL_SCHEMAS
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, VALVE, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext, QuestionExamples
from tutti.tasks.synthesis.gating.wording import spaced, words_of
from tutti.tasks.task_sets import Task, Verdict, verdict

TELLING = 4
"""Letters of a word that tells the answer."""
TOOL = " ".join(
    [
        str(TOOL_SCHEMAS[0]["function"]["name"]),
        str(TOOL_SCHEMAS[0]["function"]["description"]),
    ]
)


class Leak:
    """Searches what is shown for the answer."""

    name = "leak"
    about = "Neither the question, the document's title nor the tool's description has the answer."

    async def judge(self, tasks: Sequence[Task], context: QuestionContext) -> list[Verdict]:
        """The first place that has the answer rejects a question."""
        return [verdict(_reason(each)) for each in tasks]

    def examples(self) -> QuestionExamples:
        """The answer said outright, a part of it, the answer in the title."""
        said = "Does the pump run for 35 minutes after each rinse of the tank?"
        part = "Which Ada keeps the spare key of the pump house in the Long corridor?"
        return QuestionExamples(
            PASSAGES,
            good=(question(), who(), maker()),
            bad=(
                question(question=said, kind="teacher"),
                who(question=part, kind="teacher"),
                maker(replace(VALVE, title="Norden's valve")),
            ),
        )


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
