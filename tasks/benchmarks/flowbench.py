"""FlowBench: agents that follow a workflow, turn by turn or in a session.

A turn's target is the call that the gold thought makes, or none; replies are not scored. In a
session a model plays the user, and invents the answers of APIs that the session does not list; a
judge scores it (``flowbench_session``). Rows are parsed as in the published programs.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.agents.models import ChatModel
from tutti.tasks.agents.tools import ToolResult
from tutti.tasks.benchmarks.benchmark import tool
from tutti.tasks.benchmarks.errors import BadRow, BenchmarkError
from tutti.tasks.benchmarks.rows import Row, read_json, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.benchmarks.user import DONE, SimulatedUser
from tutti.tasks.benchmarks.world import CallRefused, PlainWorld, carry_out
from tutti.tasks.scoring import same
from tutti.tasks.task_sets import Task

MAX_CALLS = 10  # of a session, and MAX_MESSAGES of both sides: the reference's limits
MAX_MESSAGES = 40
_ACTION = re.compile(
    r"Action:\s*(?:functions\.)?(?P<name>\w+)\s*(?:\nAction Input:\s*(?P<input>\{.*?\}))?\s*"
    r"(?:\nfunction:\s*(?P<answer>.*?))?(?=\n\s*Action:|\Z)",
    re.DOTALL,
)
_PART = (
    "You are a user who talks to an assistant. Speak as people do, in short sentences; give what is"
    f" asked for; make no new requests. When you have what you wanted, or cannot get it, say {DONE}"
    " and nothing else.\n\n"
)
_ANSWER = (
    "You stand for an API. Answer the call below with one JSON value in the form that is described,"
    " as if it had been carried out; agree with the answers that were given before. Write the JSON"
    " alone.\n\n"
)
KNOWLEDGE = "knowledge.json"


def read_turns(files: Files, form: str) -> Iterator[Task]:
    """One task per row. Raises BadRow, also if the workflow is missing in `form`."""
    for path in files.paths:
        workflow = workflow_of(path, form)
        for row in read_rows(path):
            call = _call(row)
            response = row.text_or("", "gt_response")
            if call is None and not response.strip():
                row.bad("gt_response", "is empty, and gt_thought makes no call")
            yield Task(
                key=f"{path.stem}/{row.name('id')}",
                inputs={"workflow": workflow},
                target={"calls": [] if call is None else [call], "response": response},
                attributes={
                    "scenario": path.stem,
                    "form": form,
                    "step": "reply" if call is None else "call",
                },
                given=_messages(row),
                tools=[described(api) for api in row.objects("apis")],
            )


def workflow_of(path: Path, form: str) -> str:
    """The workflow of the scenario whose turns or sessions are in `path`. Raises BadRow."""
    file = path.with_name(KNOWLEDGE)
    if not file.is_file():
        raise BadRow(file, None, "", f"is missing: it holds the workflow as {form}")
    known = read_json(file)
    if isinstance(known, dict) and isinstance(known.get(path.stem), dict):
        known = known[path.stem]
    if not isinstance(known, dict) or not isinstance(known.get(form), str):
        raise BadRow(file, None, form, f"no such text for {path.stem}")
    return str(known[form])


def _call(row: Row) -> dict[str, Any] | None:
    thought = row.object("gt_thought")
    name = thought.text_or("", "Action").strip()
    if not name:
        return None
    written = thought.value("Action Input") if thought.name_of("Action Input") else ""
    if written == "":
        return {"name": name, "arguments": {}}
    return {"name": name, "arguments": dict(thought.object("Action Input").data)}


def _messages(row: Row) -> list[Mapping[str, Any]]:
    messages: list[Mapping[str, Any]] = [
        {"role": one.text("role"), "content": one.text("content", empty=True)}
        for one in row.objects("messages")
    ]
    if not messages:
        row.bad("messages", "is empty")
    return messages


def described(row: Row) -> dict[str, Any]:
    """Return an API in OpenAI's format, or as the inner object of that format."""
    inner = row.object("function") if row.name_of("function") else row
    parameters: Any = inner.json("parameters") if inner.name_of("parameters") else {}
    if not isinstance(parameters, dict):
        inner.bad("parameters", f"{json.dumps(parameters)[:80]} is not an object")
    if "properties" not in parameters:
        parameters = {"type": "object", "properties": parameters}
    return tool(inner.text("name"), inner.text_or("", "description"), parameters)


def read_sessions(files: Files, form: str) -> Iterator[Task]:
    """Yield one task per session. Raises BadRow, also if the workflow is missing in `form`."""
    for path in files.paths:
        workflow = workflow_of(path, form)
        for number, row in enumerate(read_rows(path)):
            apis = row.objects("apis")
            user, function = row.object("user_agent"), row.object("function_agent")
            persona = [user.text_or("", "first_turn_hint"), user.text_or("", "every_turn_hint")]
            now = row.text_or("", "datetime")
            persona += [f"Your aim: {row.text('user_target')}", f"It is {now}." if now else ""]
            calls = _actions(row, "gt_actions_string")
            answers = _actions(function, "function_prompt")
            yield Task(
                key=f"{path.stem}/{row.name('id') if row.name_of('id') else number}",
                inputs={"workflow": f"{workflow}\n\nIt is {now}." if now else workflow},
                target={
                    "calls": [{n: one[n] for n in ("name", "arguments")} for one in calls],
                    "persona": "\n".join(filter(None, persona)),
                    "aim": row.text("user_target"),
                    "workflow": workflow,
                    "answers": [one for one in answers if one["answer"]],
                    "responses": _responses(function),
                },
                attributes={"scenario": path.stem, "form": form, "calls": str(len(calls))},
                tools=[described(api) for api in apis],
            )


def _actions(row: Row, field: str) -> list[dict[str, Any]]:
    """The calls that a text lists, each with its recorded answer; empty for an empty text."""
    found = []
    for match in _ACTION.finditer(row.text_or("", field)):
        try:
            arguments = json.loads(match["input"] or "{}")
        except (ValueError, RecursionError) as error:
            row.bad(field, f"{match['name']}: its input is not JSON: {error}")
        answer = (match["answer"] or "").strip()
        found.append({"name": match["name"], "arguments": arguments, "answer": answer})
    return found


def _responses(function: Row) -> dict[str, str]:
    if not function.name_of("functions_with_response"):
        return {}
    apis = function.objects("functions_with_response")
    return {
        api.text("name"): json.dumps(api.data.get("response"), ensure_ascii=False) for api in apis
    }


class FlowSession(PlainWorld):
    """One attempt at one session."""

    def __init__(self, task: Task, user: ChatModel | None) -> None:
        """Raises BenchmarkError without a model."""
        if user is None:
            raise BenchmarkError("a simulated user needs a model: the suite names none for it")
        self.schemas = task.tools
        self._target, self._model = task.target, user
        self._user = SimulatedUser(user, _PART + task.target["persona"])
        self._answers: list[Mapping[str, Any]] = list(task.target["answers"])
        self._invented = self._calls = self._messages = 0

    async def begin(self) -> str | None:
        self._messages += 1
        return await self._user.say(None)

    async def use(self, name: str, arguments: str) -> ToolResult:
        self._calls += 1
        return await carry_out(self._answer, self.schemas, name, arguments)

    async def reply(self, said: str) -> str | None:
        self._messages += 2
        return None if self._messages >= MAX_MESSAGES else await self._user.say(said)

    def over(self) -> bool:
        return self._user.done or self._calls >= MAX_CALLS

    async def _answer(self, name: str, arguments: dict[str, Any]) -> str:
        for one in self._answers:
            if one["name"] == name and same(one["arguments"], arguments):
                return str(one["answer"])
        answer = await self._invent(name, arguments)
        self._answers.append({"name": name, "arguments": arguments, "answer": answer})
        return answer

    async def _invent(self, name: str, arguments: dict[str, Any]) -> str:
        """Let the model invent an answer. Raises CallRefused if it does not return JSON, and the
        model's own errors."""
        before = "\n".join(
            f"{one['name']}({json.dumps(one['arguments'])}) gave {one['answer']}"
            for one in self._answers
        )
        form = self._target["responses"].get(name, "null")
        call = f"Call: {name}({json.dumps(arguments)})\nForm of its answer: {form}"
        prompt = f"{_ANSWER}Before:\n{before or 'nothing'}\n\n{call}"
        self._invented += 1
        messages = [{"role": "user", "content": prompt}]
        reply = await self._model.complete(messages, (), self._invented)
        text = (
            str(reply.message["content"] or "").strip().removeprefix("```json").strip("`").strip()
        )
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CallRefused("the API did not answer; call it again") from error
        return text
