"""Fakes of the parts of `bfcl-eval` and of OpenAI's client that `bfcl_episode` uses.

There are two tasks: `multi_turn_base_0`, two turns that call `add`, and the scenario `customer` of
a memory, with a conversation and two questions. `test_bfcl_real` runs the real package.
"""

import importlib.metadata
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

VERSION = "2026.3.23"
ADD = {"name": "add", "description": "Adds.", "parameters": {"type": "dict", "properties": {}}}
TURNS = [[{"role": "user", "content": "Add 1."}], [{"role": "user", "content": "Add 2."}]]
GOLD = [["add(n=1)"], ["add(n=2)"]]


def install_into(folder: Path) -> Path:
    """Write a Python program into `folder` that has the fake, and return its path."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    (packages / "sitecustomize.py").write_text(
        "from tests.deployments.bfcl_standin import install; install()\n"
    )
    root = Path(__file__).parents[2]
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages}:{root} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


class BadRequestError(Exception):
    """OpenAI's error for status 400."""


class Client:
    """OpenAI's client with one method."""

    def __init__(self, base_url: str, **_: Any) -> None:
        self._url = base_url
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, extra_body: dict[str, Any], **asked: Any) -> Any:
        body = json.dumps(asked | extra_body).encode()
        request = urllib.request.Request(
            f"{self._url}/chat/completions", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.loads(reply.read())["choices"][0]["message"]
        except urllib.error.HTTPError as error:
            raise BadRequestError(error.read().decode()) from error


class Handler:
    """The package's handler: in each turn it makes steps until a reply without calls."""

    def __init__(self, model: str, *_: Any) -> None:
        self.model_name_underline_replaced = model
        self.client = Client(**self._build_client_kwargs())  # type: ignore[attr-defined]

    def inference(self, entry: dict[str, Any], *_: Any) -> tuple[list[Any], None]:
        """Return all replies, by turn and step."""
        messages, result = list[Any](), list[Any]()
        for turn in entry["question"]:
            messages += turn
            result.append([])
            while True:
                made, _s = self.generate_with_backoff(  # type: ignore[attr-defined]
                    messages=messages, model="x", store=False, temperature=0.0
                )
                said = self._parse_query_response_FC(made)
                result[-1].append(said["model_responses"])
                messages.append(made)
                try:
                    results = self.decode_execute(said["model_responses"], False)
                except ValueError:
                    break
                messages += [{"role": "tool", "content": each} for each in results]
        return result, None

    def _parse_query_response_FC(self, reply: Any) -> dict[str, Any]:
        calls = [
            {call["function"]["name"]: call["function"]["arguments"]}
            for call in reply.get("tool_calls") or ()
        ]
        return {"model_responses": calls or reply["content"]}

    def _add_reasoning_content_if_available_FC(self, *_: Any) -> None:
        """Do nothing: there is no reasoning content."""

    def decode_execute(self, result: Any, _: bool) -> list[str]:
        """Return calls as Python source text."""
        return [
            f"{name}({','.join(f'{k}={v!r}' for k, v in given.items())})"
            for call in result
            for name, given in call.items()
        ]


def judge_turns(handler: Handler, _: str, result: Any, gold: Any, *__: Any) -> dict[str, Any]:
    """Return whether each turn made the gold calls."""
    for place, (steps, right) in enumerate(zip(result, gold, strict=True)):
        made = [c for step in steps[:-1] for c in handler.decode_execute(step, False)]
        if made != right:
            said = f"results so far do not contain all for turn {place}."
            return {"valid": False, "error": {"error_message": said, "error_type": "mismatch"}}
    return {"valid": True}


def judge_answer(_: Handler, __: str, result: Any, gold: Any, *___: Any) -> dict[str, Any]:
    """Return whether the last text has the answer."""
    if gold[0] in result[-1][-1]:
        return {"valid": True}
    return {"valid": False, "error": {"error_message": "none", "error_type": "not_found"}}


def _memory() -> list[dict[str, Any]]:
    asked = {"prereq_0": "I am Ann.", "0": "Name?", "1": "Age?"}
    return [
        {
            "id": f"memory_kv_{name}-customer-{n}",
            "scenario": "customer",
            "function": [ADD],
            "question": [[{"role": "user", "content": text}]],
        }
        for n, (name, text) in enumerate(asked.items())
    ]


def install() -> None:
    """Register the fakes as the packages' modules."""
    task = {"id": "multi_turn_base_0", "question": TURNS, "function": [ADD]}
    answers = [{"id": "memory_0-customer-1", "ground_truth": ["Ann"]}]
    answers.append({"id": "memory_1-customer-2", "ground_truth": ["35"]})
    utils = {
        "PROMPT_PATH": Path("data"),
        "VERSION_PREFIX": "BFCL_v4",
        "load_file": lambda _: [task],
        "populate_test_cases_with_predefined_functions": list,
        "add_language_specific_hint_to_function_doc": list,
        "load_ground_truth_entry": lambda category: (
            answers if "memory" in category else [{"id": task["id"], "ground_truth": GOLD}]
        ),
        "load_dataset_entry": lambda _: _memory(),
        "populate_initial_settings_for_memory_test_cases": lambda entries, _: entries,
        "sort_key": lambda entry: "prereq" not in entry["id"],
    }
    runner = {
        "_evaluate_single_multi_turn_entry": judge_turns,
        "_evaluate_single_agentic_entry": judge_answer,
    }
    enums = {name: SimpleNamespace(JAVA=1) for name in ("Language", "ReturnFormat")}
    checker = {"eval_runner": SimpleNamespace(**runner)}
    _module("openai", BadRequestError=BadRequestError, OpenAI=Client)
    _module("bfcl_eval", utils=_module("bfcl_eval.utils", **utils))
    _module("bfcl_eval.constants")
    _module("bfcl_eval.constants.enums", **enums)
    _module("bfcl_eval.eval_checker", **checker)
    _module("bfcl_eval.model_handler")
    _module("bfcl_eval.model_handler.api_inference")
    path = "bfcl_eval.model_handler.api_inference.openai_completion"
    _module(path, OpenAICompletionsHandler=Handler)
    importlib.metadata.version = lambda distribution_name: VERSION


def _module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(contents)
    sys.modules[name] = made
    return made
