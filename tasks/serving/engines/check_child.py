"""Check commands with the server's own parser and configuration, in the models environment.

In: the server's name as argument, on stdin a JSON list of ``{"name", "arguments", "dropped"}``.
Out: on stdout a JSON line of ``{"name", "stage", "error"}`` each; `error` is null if all stages
passed. No model is loaded and no device is touched. vLLM: `dropped` are flags that this build
refuses whatever their values; they are left out of the configuration. SGLang checks flags only.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any


class Refused(Exception):
    """The server's parser rejects the arguments."""


class _Raising:
    """Parser mixin that raises instead of ending the process."""

    def error(self, message: str) -> Any:
        raise Refused(message)


def main() -> None:
    orders = json.load(sys.stdin)
    # The server's own log goes to stdout too: what is said here has a descriptor of its own.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    stages = _of_vllm if sys.argv[1] == "vllm" else _of_sglang
    for order in orders:
        stage, error = _check(stages(order["arguments"], order["dropped"]))
        print(json.dumps({"name": order["name"], "stage": stage, "error": error}), file=said)
        said.flush()


def _check(stages: Iterator[tuple[str, Any]]) -> tuple[str, str | None]:
    stage = ""
    for stage, work in stages:
        try:
            work()
        except (Exception, SystemExit) as error:  # any refusal of the server's is the answer
            return stage, _text(error)
    return stage, None


def _of_sglang(arguments: list[str], dropped: list[str]) -> Iterator[tuple[str, Any]]:
    from sglang.srt.server_args import ServerArgs

    class Parser(_Raising, argparse.ArgumentParser):
        pass

    parser = Parser(prog="sglang", allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    yield "flags", lambda: parser.parse_args(arguments)


def _of_vllm(arguments: list[str], dropped: list[str]) -> Iterator[tuple[str, Any]]:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.cli.serve import make_arg_parser
    from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args
    from vllm.entrypoints.launchers.launcher import validate_api_server_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(_Raising, FlexibleArgumentParser):  # type: ignore[misc]
        pass

    # vLLM resolves abbreviations, which the next version may read as another flag.
    made = make_arg_parser(Parser(prog="vllm", allow_abbrev=False))
    parsed: list[Any] = []
    yield "flags", lambda: parsed.append(made.parse_args(arguments))
    yield "flags", lambda: validate_parsed_serve_args(parsed[0])
    yield "parsers", lambda: _with_plugins(parsed[0], validate_api_server_args)
    kept = [word for word in arguments if word.split("=")[0] not in dropped]
    again: list[Any] = []
    yield "configuration", lambda: again.append(made.parse_args(kept))
    yield (
        "configuration",
        lambda: AsyncEngineArgs.from_cli_args(again[0]).create_engine_config(),
    )


def _with_plugins(parsed: Any, validate: Any) -> None:
    """Read plugin files first, because vLLM knows their parsers only then, as at its start."""
    for name in ("tool_parser_plugin", "reasoning_parser_plugin"):
        if (path := getattr(parsed, name, "")) and not os.path.isfile(path):
            raise Refused(f"--{name.replace('_', '-')}: no file {path}")
    if parsed.tool_parser_plugin:
        from vllm.tool_parsers import ToolParserManager

        ToolParserManager.import_tool_parser(parsed.tool_parser_plugin)
    if parsed.reasoning_parser_plugin:
        from vllm.reasoning import ReasoningParserManager

        ReasoningParserManager.import_reasoning_parser(parsed.reasoning_parser_plugin)
    validate(parsed)


def _text(error: BaseException) -> str:
    """Return the server's error in one line; pydantic's reports have the reason in their third."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        return "; ".join(str(each.get("msg", each)) for each in errors())
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    main()
