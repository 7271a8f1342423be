"""One attempt at a task of BFCL V4, by its package `bfcl-eval`: the harness ``{bfcl}``.

In: the environment that `harness.command` gives. The package's own loop of turns and steps, its
simulated classes and its checkers run; the calls of the model go to the gateway. Out: the last
line, JSON: the score, the package's kind of error, and the turn in which it was found.

* ``multi_turn_*``: the state after each turn and its results, by `multi_turn_checker`
* ``simple_java``, ``simple_javascript``: one call, by `ast_checker` with its converters
* ``memory_*``: an attempt is a scenario: its conversations fill a memory, then each question is
  asked with that memory. The score is the share of questions that `agentic_checker` accepts

What the measured model does wrong is score 0, also a context that is too long. What fails elsewhere
ends this program with an error, and the sweep makes the attempt again.
"""

import contextlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from importlib import metadata
from pathlib import Path
from typing import Any

from bfcl_model import NAME, Endless, handler_of, use_package

MOST_SHOWN = 500  # characters of an error's description
LANGUAGES = {"simple_java": "JAVA", "simple_javascript": "JAVASCRIPT"}


def main() -> None:
    """Make the attempt and print its result."""
    asked: dict[str, Any] = json.loads(Path(os.environ["TUTTI_TASK"]).read_text())
    use_package(os.getcwd())
    with contextlib.redirect_stdout(io.StringIO()):  # the package reports each step there
        found = attempt(asked, os.environ["OPENAI_BASE_URL"], os.environ["TUTTI_MODEL"])
    print(json.dumps(found))


def attempt(asked: Mapping[str, Any], url: str, model: str, label: str = NAME) -> dict[str, Any]:
    """The result, as the last line says it. Raises ValueError for a task that is not there."""
    category = category_of(asked["id"])
    seed = {"seed": int(os.environ["TUTTI_SEED"])} if "TUTTI_SEED" in os.environ else {}
    server = (url, model, dict(asked["request"]) | seed)
    if category.startswith("memory_"):
        return _memory(asked["id"], category, server, label)
    prompt, entry, gold = _task(asked["id"], category)
    names = _functions(entry)
    handler = handler_of(*server, names, label)
    try:
        result, _ = handler.inference(entry, False, True)
    except Endless as error:
        return _result(category, 0.0, _detail("inference_error", str(error)))
    judged = _judge(handler, category, asked["id"], result, gold, prompt)
    said = result if isinstance(result, str) else json.dumps(result)
    return _result(category, float(judged["valid"]), _error(judged) | _counts(result), said)


def category_of(task: str) -> str:
    """The category that a task's id begins with."""
    return task.rpartition("_")[0]


def _task(task: str, category: str) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """The task as it is judged, as it is asked, and its right answer."""
    from bfcl_eval import utils

    # One row alone: the package's `load_dataset_entry` does the same to all rows of a category.
    rows = utils.load_file(utils.PROMPT_PATH / f"{utils.VERSION_PREFIX}_{category}.json")
    place = next((nth for nth, row in enumerate(rows) if row["id"] == task), None)
    if place is None:
        version = metadata.version("bfcl-eval")
        raise ValueError(f"id: {task} is no task of {category} in bfcl-eval {version}")
    (plain,) = utils.populate_test_cases_with_predefined_functions([rows[place]])
    (shown,) = utils.add_language_specific_hint_to_function_doc([deepcopy(plain)])
    return plain, shown, utils.load_ground_truth_entry(category)[place]["ground_truth"]


def _functions(entry: Mapping[str, Any]) -> list[str]:
    held = [each for turn in entry.get("missed_function", {}).values() for each in turn]
    return [each["name"] for each in [*entry["function"], *held]]


def _judge(
    handler: Any, category: str, task: str, result: Any, gold: Any, prompt: dict[str, Any]
) -> dict[str, Any]:
    """What the package's evaluation says of one entry."""
    from bfcl_eval.constants.enums import Language, ReturnFormat
    from bfcl_eval.eval_checker import eval_runner

    if category in LANGUAGES:
        language = LANGUAGES[category]
        kinds = (getattr(Language, language), getattr(ReturnFormat, language))
        given = (handler, task, result, gold, prompt, NAME, category, *kinds)
        found: dict[str, Any] = eval_runner._evaluate_single_ast_entry(*given)
        return found
    name = handler.model_name_underline_replaced
    found = eval_runner._evaluate_single_multi_turn_entry(
        handler, task, result, gold, prompt, name, category
    )
    return found


def _error(judged: Mapping[str, Any]) -> dict[str, Any]:
    """The error's kind and text, the turn from 1, and the attributes that differ."""
    if judged["valid"]:
        return {"error": None}
    error = judged.get("error")
    if not isinstance(error, Mapping):
        said = "; ".join(map(str, error or ()))
        return _detail(judged.get("error_type", "unknown"), said)
    said = error.get("error_message", "")
    said = "; ".join(said) if isinstance(said, list) else said
    found = _detail(error["error_type"], said)
    details = error.get("details", {})
    done = error.get("execution_result") or details.get("execution_result")
    if (named := re.search(r"for turn (\d+)", said)) is not None:
        found["turn"] = int(named.group(1)) + 1
    elif done:
        found["turn"] = len(done)
    if details.get("differences"):
        found["differing"] = sorted(details["differences"])
    return found


def _detail(kind: str, said: str) -> dict[str, Any]:
    return {"error": kind, "why": said[:MOST_SHOWN]}


def _counts(result: Any) -> dict[str, Any]:
    """Turns and steps that were made, where there are turns."""
    if not isinstance(result, list) or not all(isinstance(turn, list) for turn in result):
        return {}
    return {"turns": len(result), "steps": sum(map(len, result))}


def _memory(
    scenario: str, category: str, server: tuple[str, str, dict[str, Any]], label: str
) -> dict[str, Any]:
    """Fill the memory of a scenario, then ask its questions."""
    from bfcl_eval.utils import (
        load_dataset_entry,
        load_ground_truth_entry,
        populate_initial_settings_for_memory_test_cases,
        sort_key,
    )

    gold = {each["id"]: each["ground_truth"] for each in load_ground_truth_entry(category)}
    name = scenario.rpartition("_")[2]
    entries = [each for each in load_dataset_entry(category) if each["scenario"] == name]
    if not entries:
        raise ValueError(f"id: {scenario} is no scenario of {category}")
    folder = Path.cwd() / label
    entries = populate_initial_settings_for_memory_test_cases(entries, folder)
    wrong: list[dict[str, Any]] = []
    questions = 0
    for entry in sorted(entries, key=sort_key):
        is_question = "prereq" not in entry["id"]
        questions += is_question
        key = entry["id"].replace(category, "memory")
        error = _one(entry, gold[key] if is_question else None, server, label)
        if error is not None and is_question:
            wrong.append({"id": key} | error)
    right = questions - len(wrong)
    detail = {"right": right, "questions": questions, "wrong": wrong}
    return _result(category, right / questions, detail, f"{right} of {questions}")


def _one(
    entry: dict[str, Any], gold: Sequence[str] | None, server: tuple[Any, ...], label: str
) -> dict[str, Any] | None:
    """A conversation or a question of a memory; returns a question's error."""
    from bfcl_eval.eval_checker import eval_runner

    task, category = entry["id"], category_of(entry["id"])
    handler = handler_of(*server, _functions(entry), label)
    try:
        result, _ = handler.inference(entry, False, True)
    except Endless as error:
        return _detail("inference_error", str(error))
    if gold is None:
        return None
    judged = eval_runner._evaluate_single_agentic_entry(
        handler, task, result, gold, entry, NAME, category
    )
    return None if judged["valid"] else _error(judged)


def _result(
    category: str, score: float, detail: Mapping[str, Any], answer: str = ""
) -> dict[str, Any]:
    kind = "ast" if category in LANGUAGES else category.rpartition("_")[0]
    kind = "multi_turn" if category.startswith("multi_turn_") else kind
    kind = "memory" if category.startswith("memory_") else kind
    return {
        "answer": answer,
        "score": score,
        "correct": score == 1.0,
        "scorer": f"bfcl_{kind}" if kind != "ast" else "bfcl_ast_package",
        "version": metadata.version("bfcl-eval"),
        "detail": {"category": category} | dict(detail),
    }


if __name__ == "__main__":
    main()
