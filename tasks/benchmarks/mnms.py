"""m&m's: a request, 33 tools, and the plan of calls that fulfils it. Nothing is executed.

Prompts ask for the same as the publisher's, in other words, in one turn without feedback and
without worked examples. Rule ``best_match`` accepts the alternative plans too.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from tutti.tasks.benchmarks.rows import Row, shown
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.scoring.published import PlanUnreadable, code_of, steps_of
from tutti.tasks.task_sets import ExcludedRow, Task

Format = Literal["json", "code"]
JSON_FORM = """Answer with one JSON object and nothing else, in this form:
{"nodes": [{"id": 0, "name": "image captioning", "args": {"image": "a.jpg"}}, \
{"id": 1, "name": "text generation", "args": {"text": "a poem about <node-0>.text"}}]}
Steps have ids from 0, in the order of their execution. Each argument that the tool lists is \
given, as the request words it, or as a result of an earlier step: <node-0>.text is the text of \
step 0."""
CODE_FORM = """Answer with one Python program in a code block, in this form:
```python
def solve():
    output0 = image_captioning(image="a.jpg")
    output1 = text_summarization(text=output0['text'])
    return output1
```
Each step is one line: a call of one tool, with all of its arguments by name, assigned to output0, \
output1 and so on. A result is taken by its name, output0['text']."""


class PlanTool(NamedTuple):
    """A tool of a plan."""

    name: str
    """As plans in JSON have it; programs have ``_`` for a space."""
    arguments: str
    results: str
    description: str

    @property
    def function(self) -> str:
        """Its name in programs."""
        return self.name.replace(" ", "_")


OBJECTS = "image, objects"
TOOLS = tuple(
    PlanTool(*row)
    for row in (
        ("text generation", "text", "text", "continues a text, or writes what a prompt asks for"),
        ("text summarization", "text", "text", "shortens a text"),
        ("text classification", "text", "text", "a text's class, such as its sentiment"),
        ("question answering", "text, question", "text", "answers a question from a text"),
        ("image generation", "text", "image", "draws an image of what a text describes"),
        ("image captioning", "image", "text", "describes an image"),
        ("optical character recognition", "image", "text", "reads the words in an image"),
        ("image classification", "image", "text", "the class of an image's subject"),
        ("image editing", "image, prompt", "image", "changes an image as a text asks"),
        ("object detection", "image", OBJECTS, "finds objects, each with a label and a box"),
        ("image segmentation", "image", OBJECTS, "finds objects, each with a label and a mask"),
        (
            "automatic speech recognition",
            "audio",
            "text",
            "writes down recorded speech",
        ),
        ("visual question answering", "image, question", "text", "answers a question on an image"),
        ("image crop", "image, object", "image", "keeps the box of one object"),
        ("image crop left", "image", "image", "keeps the left part of an image"),
        ("image crop right", "image", "image", "keeps the right part of an image"),
        ("image crop top", "image", "image", "keeps the upper part of an image"),
        ("image crop bottom", "image", "image", "keeps the lower part of an image"),
        ("background blur", "image, object", "image", "blurs all but an object"),
        ("color pop", "image, object", "image", "keeps the colours of an object alone"),
        ("count", "objects", "number", "the number of objects in a list"),
        ("tag", "image, objects", "image", "draws boxes and labels of objects"),
        ("select object", "objects, object_name", "object", "takes the named object of a list"),
        ("emoji", "image, object, emoji", "image", "covers an object with the named emoji"),
        ("get date fact", "date", "text", "a fact about a date, month/day"),
        ("get year fact", "year", "text", "a fact about a year"),
        ("get math fact", "number", "text", "a mathematical fact about a number"),
        ("get trivia fact", "number", "text", "some other fact about a number"),
        ("love calculator", "first_name, second_name", "number", "how well two names match"),
        ("get location", "city", "lon, lat", "the coordinates of a city or an address"),
        ("search movie", "movie_title, movie_year", "text", "facts about a film"),
        ("get weather", "lon, lat", "objects", "the weather forecast at coordinates"),
        ("wikipedia simple search", "text", "text", "the summary of the best page for a query"),
    )
)
FUNCTIONS = [tool.function for tool in TOOLS]


def read(files: Files, form: Format) -> Iterator[Task | ExcludedRow]:
    """Yield one task per row; a row whose gold plan the publisher's program cannot read is left
    out. Raises BadRow."""
    tools = "\n".join(
        f"- {tool.name if form == 'json' else tool.function}({tool.arguments}) -> {tool.results}: "
        f"{tool.description}"
        for tool in TOOLS
    )
    for row in files.rows():
        plan = _plan(row, "plan_str", row.literal("plan_str"))
        try:
            steps = steps_of(code_of(plan))
        except PlanUnreadable as error:
            yield ExcludedRow(row.name("id"), f"the gold plan is none that can be scored: {error}")
            continue
        target: dict[str, Any] = {"plan": plan, "alternatives": _alternatives(row)}
        target |= {"format": form, "tools": FUNCTIONS}
        if form == "code":
            target["code"] = row.text("code_str")
        yield Task(
            key=row.name("id"),
            inputs={
                "question": row.text("user_request"),
                "tools": tools,
                "form": JSON_FORM if form == "json" else CODE_FORM,
            },
            target=target,
            attributes={
                "steps": str(len(plan)),
                "tools": " ".join(step.tool for step in steps),
                "unread_steps": str(len(plan) - len(steps)),
            },
        )


def gold(task: Task) -> str:
    """Return the gold plan in the form of an answer."""
    if task.target["format"] == "code":
        return f"```python\n{task.target['code']}\n```"
    return json.dumps({"nodes": task.target["plan"]}, ensure_ascii=False)


def _alternatives(row: Row) -> list[Any]:
    """Return the other plans that fulfil the request; none if the field is empty."""
    if row.name_of("alt_plans_str") is None:
        return []
    found = row.literal("alt_plans_str")
    if not isinstance(found, list):
        row.wrong(("alt_plans_str",), found, "a list of plans")
    return [_plan(row, f"alt_plans_str.{nth}", plan) for nth, plan in enumerate(found)]


def _plan(row: Row, field: str, found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not found:
        row.bad(field, f"{shown(found)} is not a list of steps")
    for nth, step in enumerate(found):
        if not isinstance(step, dict):
            row.bad(f"{field}.{nth}", f"{shown(step)} is not an object")
        one = row.inner(f"{field}.{nth}", step)
        one.whole("id")
        one.text("name")
        if not isinstance(one.value("args"), dict):
            one.wrong(("args",), step["args"], "an object")
        try:
            json.dumps(step)
        except (TypeError, ValueError) as error:
            one.bad("args", f"{shown(step['args'])}: {error}")
    return found
