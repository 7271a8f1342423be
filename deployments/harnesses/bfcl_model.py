"""The measured model as BFCL's package asks one: its own handler of OpenAI's tool calls.

In: the endpoint, the model's name there, and the fields of a request. Out: a handler whose loop of
turns and steps is the package's. Two things differ: a request has the suite's fields, and a call
that the package's `eval` would run as anything else than a function of the task is not run.
"""

import keyword
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

NAME = "tutti"
"""The model's name within the package, which makes names of Python variables of it."""
UNKNOWN = "unknown_function_"
"""Before a name that is no function of the task, so that evaluating it finds nothing."""
RETRIES = 2  # of a call that failed at an engine
TOO_LONG = ("context_length_exceeded", "maximum context length", "context window")


class Endless(Exception):
    """The conversation no longer fits the model's context."""


def use_package(folder: str) -> None:
    """Import what the attempts need; the package's files are written below `folder`.

    Its table of models imports the clients of every provider, for one flag; it and the tables of
    results, which need pandas, are replaced.
    """
    os.environ["BFCL_PROJECT_ROOT"] = folder
    models: Any = ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {NAME: _Flags()}
    sys.modules[models.__name__] = models
    tables = ModuleType("bfcl_eval.eval_checker.eval_runner_helper")
    sys.modules[tables.__name__] = tables


class _Flags:
    """An entry of the package's table of models."""

    underscore_to_dot = True


def handler_of(
    url: str, model: str, request: Mapping[str, Any], functions: Sequence[str], label: str = NAME
) -> Any:
    """The handler of `model` at `url`; `functions` are those that the task has.

    `label` is part of the names by which the package keeps the state of a task's classes.
    """
    from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
    from openai import BadRequestError, OpenAI

    class Handler(OpenAICompletionsHandler):  # type: ignore[misc]
        def _build_client_kwargs(self) -> dict[str, Any]:
            return {"base_url": url, "api_key": "none", "max_retries": RETRIES}

        def generate_with_backoff(self, **asked: Any) -> tuple[Any, float]:
            del asked["store"], asked["temperature"]
            client: OpenAI = self.client
            try:
                reply = client.chat.completions.create(
                    **asked | {"model": model}, extra_body=dict(request)
                )
            except BadRequestError as error:
                if any(words in str(error) for words in TOO_LONG):
                    raise Endless(str(error)[:500]) from error
                raise
            return reply, 0.0

        def _parse_query_response_FC(self, api_response: Any) -> dict[str, Any]:
            found: dict[str, Any] = super()._parse_query_response_FC(api_response)
            self._add_reasoning_content_if_available_FC(api_response, found)
            return found

        def decode_execute(self, result: Any, has_tool_call_tag: bool) -> list[str]:
            if not isinstance(result, list):
                raise ValueError("a text, not calls")
            calls = [safe(call, functions) for call in result]
            decoded: list[str] = super().decode_execute(calls, has_tool_call_tag)
            return decoded

    return Handler(label, 0.0, label, True)


def safe(call: Mapping[str, Any], functions: Sequence[str]) -> dict[str, Any]:
    """A call by name that evaluates to a function of the task or to nothing.

    Raises ValueError for arguments that are not an object with names of Python's: the package then
    takes the message for a text.
    """
    import json

    made: dict[str, Any] = {}
    for name, text in call.items():
        arguments = json.loads(text) if isinstance(text, str) else text
        odd = [key for key in arguments if not key.isidentifier() or keyword.iskeyword(key)]
        if odd:
            raise ValueError(f"{name}: {odd[0]!r} is no name of an argument")
        known = name in functions
        made[name if known else UNKNOWN + "".join(filter(str.isalnum, name))] = arguments
    return made
