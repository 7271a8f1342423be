"""Scripted endpoint that plays agent, user, expert and judge of tau2's tasks by the gold actions.

In: tasks in tau2's format. Out: an OpenAI-compatible server. It keeps no state: the user's messages
contain its task and its number of actions, the agent's the agent's number, so that both determine
the next step. A task is recognised by its scenario; tasks that share theirs (telecom's) are played
one at a time.
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MARK = re.compile(r"<(task|user|agent) (.*?)>")
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def read_tasks(folder: Path, ids: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the tasks of a domain's folder by id."""
    file = next(p for p in (folder / "tasks.json", folder / "tasks_small.json") if p.is_file())
    rows = {str(row["id"]): row for row in json.loads(file.read_text())}
    return {name: row for name, row in rows.items() if ids is None or name in ids}


class Players:
    """Scripts of all models; a `lazy` agent omits its last call."""

    def __init__(self, tasks: Mapping[str, Mapping[str, Any]], lazy: bool = False) -> None:
        self._tasks, self._lazy = tasks, lazy
        self.requests: list[tuple[str, dict[str, Any]]] = []
        """(role by the model's name, body) of every request."""
        self.roles: set[tuple[str, str | None]] = set()
        """(role by the model's name, that of the header) of the requests."""
        self.odd: dict[str, Any] = {}
        """By role what answers in place of its part: a message, or the text of an error 400."""
        self.pause_s = 0.0
        """How long each reply takes."""
        self.clock: dict[str, float] = {}
        """What a gateway would say that the attempt waited."""

    def reply(self, role: str, body: dict[str, Any]) -> dict[str, Any] | str:
        """Return the message that answers a request, or the text of an error."""
        self.requests.append((role, body))
        if role in self.odd:
            odd: dict[str, Any] | str = self.odd[role]
            return odd
        if role == "judge" and len(body["messages"]) > 1:
            verdict = {"expectedOutcome": "x", "reasoning": "it was said", "metExpectation": True}
            return _said(json.dumps({"results": [verdict]}))
        messages = body["messages"]
        if len(messages) < 2:  # a sweep's first call of a model
            return _said("Hello.")
        if role == "user":
            return self._user(messages)
        offered = {tool["function"]["name"] for tool in body.get("tools", ())}
        turns = sum(each["role"] == "assistant" for each in messages)
        if "call_expert" in offered and turns % 2:
            return _called("call_expert", {"expert": "expert-1" if turns % 4 == 1 else "nobody"})
        return self._agent(messages)

    def _user(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        task = self._task(messages[0]["content"])
        marks, own = _marks(messages), _calls(messages)
        actions = _actions(task)
        done = own + int(marks.get("agent", 0))
        if done < len(actions) and actions[done].get("requestor") == "user":
            return _called(actions[done]["name"], actions[done]["arguments"])
        if "agent" in marks and done >= len(actions) - self._lazy:
            return _said("Thanks. ###STOP###")
        return _said(f"<task {task['id']}> <user {own}> Please go on.")

    def _agent(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        marks, own = _marks(messages), _calls(messages)
        task = self._tasks[marks["task"]]
        actions, done = _actions(task), own + int(marks["user"])
        if done < len(actions) - self._lazy and actions[done].get("requestor") != "user":
            return _called(actions[done]["name"], actions[done]["arguments"])
        said = (task["evaluation_criteria"] or {}).get("communicate_info") or []
        return _said("; ".join([*said, f"<agent {own}> What else?"]))

    def _task(self, prompt: str) -> Mapping[str, Any]:
        if len(self._tasks) == 1:
            return next(iter(self._tasks.values()))
        flat = " ".join(prompt.split())
        fits = [each for each in self._tasks.values() if all(t in flat for t in _told(each))]
        # A scenario may be contained in another one's.
        return max(fits, key=lambda each: sum(map(len, _told(each))))


def _told(task: Mapping[str, Any]) -> list[str]:
    told = task["user_scenario"]["instructions"]
    texts = [told] if isinstance(told, str) else [text for text in told.values() if text]
    return [" ".join(text.split()) for text in texts]


def _actions(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    return (task["evaluation_criteria"] or {}).get("actions") or []


def _marks(messages: list[dict[str, Any]]) -> dict[str, str]:
    texts = [str(each.get("content") or "") for each in messages[1:]]
    return {kind: value for text in texts for kind, value in MARK.findall(text)}


def _calls(messages: list[dict[str, Any]]) -> int:
    calls = (call for each in messages for call in each.get("tool_calls") or ())
    return sum(call["function"]["name"] != "call_expert" for call in calls)


def _said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _called(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@contextmanager
def serving(players: Players, port: int = 0) -> Iterator[str]:
    """Run the players and yield their base URL; the model of a request is named for its role:
    agent, user and so on."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/programs/clock":
                self._answer(200, json.dumps(players.clock).encode())
                return
            time.sleep(players.pause_s)
            role = body["model"].partition("-")[0]
            players.roles.add((role, self.headers["X-Tutti-Role"]))
            message = players.reply(role, body)
            if isinstance(message, str):
                self._answer(400, json.dumps({"error": {"message": message}}).encode())
                return
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            choice = {"index": 0, "message": message, "finish_reason": reason}
            head = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]}
            whole = head | {"choices": [choice], "usage": USAGE}
            self._answer(200, json.dumps(whole).encode())

        def do_GET(self) -> None:
            self._answer(200, b'{"object": "list", "data": []}')

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *given: Any) -> None:
            """Suppress the log."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
