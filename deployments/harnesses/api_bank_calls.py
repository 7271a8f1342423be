"""API-Bank's APIs, executed for the scorers ``api_bank`` and ``api_bank_3``:
``python api_bank_calls.py CHECKOUT [words]``.

CHECKOUT is a checkout of AlibabaResearch/DAMO-ConvAI, or its folder ``api-bank``. In: a line for
each call, ``{"gold": {"name", "arguments"}, "made": the same, "timeout_s"}``, of level 3 also
``"wanted"``, the gold result. Out: a line first, ``{"ready": true}``, then one for each call:
``{"correct", "error", "why"}``, or ``{"unscored": why}`` where it cannot be decided. Standard
library only; nothing of the checkout is written.

As `evaluator_by_json.py` does it: the call is written as text and read by the publisher's parser,
executed on a fresh ToolManager, and the API's own check decides. A wrong call has one of the nine
kinds of errors, or ``OTHER`` where the publisher's program stops or counts none. Four APIs use
packages or a network (`PACKAGES`): where a call asks for an absent package, it is unscored.

Level 3 as `lv3_evaluator.py`: APIs of its own (``lv3_apis``), and the gold API's check decides of
what any API returned, also one of another name. With ``words`` the tool searcher's embedding model
is replaced by `Trigrams`, which no package is needed for.
"""

import copy
import functools
import importlib
import importlib.util
import json
import math
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ALARM_S = 1.0  # beyond the time that the parent waits, should it be gone
PACKAGES = "requests numpy nltk nltk.tokenize rank_bm25 googletrans sentence_transformers".split()
SAMPLES = "lv1-lv2-samples/level-*/*.jsonl"
SHOWN = 300
EMBEDDER, SEARCHER = "sentence_transformers", "ToolSearcher"
LEVEL_3 = "./lv3_apis"
LETTERS = 3  # of each piece of a word that `Trigrams` counts

ABSENT: list[str] = []
"""Absent packages and models that the current call has asked for."""


class AbsentPackage(ModuleType):
    """Stands for a package that is not installed; its functions fail, and that is noted."""

    def __getattr__(self, name: str) -> Any:
        """A function of the package."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self._fail

    def _fail(self, *_: Any, **__: Any) -> Any:
        ABSENT.append(f"the package {self.__name__}")
        raise RuntimeError(f"the package {self.__name__} is not installed")


class Trigrams(Counter[str]):
    """A text as the counts of its words' pieces of `LETTERS` letters, in place of an embedding."""

    @classmethod
    def of(cls, text: str) -> "Trigrams":
        """Those of `text`; each word has a blank at both ends."""
        words = [f" {word} " for word in re.findall(r"[a-z0-9]+", text.lower())]
        return cls(w[i : i + LETTERS] for w in words for i in range(len(w) - LETTERS + 1))

    def cosine(self, other: "Trigrams") -> float:
        """The cosine of both; 0 where one has none."""
        lengths = [math.sqrt(sum(n * n for n in one.values())) for one in (self, other)]
        product = sum(n * other[piece] for piece, n in self.items())
        return product / math.prod(lengths) if all(lengths) else 0.0


def use_trigrams() -> None:
    """Have the tool searchers import `Trigrams` as their package of embeddings."""
    module: Any = ModuleType(EMBEDDER)
    module.SentenceTransformer = lambda name: SimpleNamespace(encode=Trigrams.of)
    module.util = SimpleNamespace(
        cos_sim=lambda one, other: SimpleNamespace(item=lambda: one.cosine(other))
    )
    sys.modules[EMBEDDER] = module


def note_absent_models() -> None:
    """Have the package of embeddings load a model once, and note one that cannot be loaded, which
    the tool searcher takes for an error of the call."""
    module: Any = importlib.import_module(EMBEDDER)
    load = functools.cache(module.SentenceTransformer)

    def noted(name: str) -> Any:
        try:
            return load(name)
        except Exception:
            ABSENT.append(f"the model {name}")
            raise

    module.SentenceTransformer = noted


class Bank:
    """The APIs and the gold results of a checkout."""

    def __init__(self, checkout: str, by_words: bool = False) -> None:
        """`by_words`: tools are searched by `Trigrams`. Raises ValueError for another folder."""
        given = Path(checkout).resolve()
        folders = [f for f in (given, given / "api-bank") if (f / "tool_manager.py").is_file()]
        if not folders:
            raise ValueError(f"{given} has no tool_manager.py: it is no checkout of API-Bank")
        os.chdir(folders[0])  # its programs open ./apis and ./init_database
        sys.path.insert(0, str(folders[0]))
        find = importlib.util.find_spec
        absent = [name for name in PACKAGES if find(name.partition(".")[0]) is None]
        sys.modules.update({name: AbsentPackage(name) for name in absent})
        if by_words:
            use_trigrams()
        elif EMBEDDER not in absent:
            note_absent_models()
        self.manager = importlib.import_module("tool_manager").ToolManager
        self.parser = importlib.import_module("api_call_extraction")
        self.results = _gold_results(folders[0])

    def verdict(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What the publisher's program says of a call."""
        gold, of_level_3 = asked["gold"], "wanted" in asked
        wanted = asked.get("wanted") or self.results.get(_key(gold["name"], gold["arguments"]))
        if wanted is None:
            return {"unscored": f"no dialogue of {Path.cwd()} has the gold call {gold['name']}"}
        text = self.parser.get_api_call(_written(asked["made"]))
        if not text:
            return _wrong("NO_API_CALL", "")
        try:
            name, arguments = self.parser.parse_api_call(text)
        except Exception as error:
            return _wrong("FAILED_PARSE_API_CALL", error)
        if name != gold["name"] and not of_level_3:
            return _wrong("API_NAME_MISMATCH", f"{name}, not {gold['name']}")
        if of_level_3 and name == SEARCHER and "keywords" in arguments:
            arguments["keywords"] = _spaced(arguments["keywords"])
        ABSENT.clear()
        manager = self.manager(LEVEL_3) if of_level_3 else self.manager()
        wanted = copy.deepcopy(wanted)  # some checks change it
        told = _executed(manager, (name, arguments), gold["name"], wanted)
        if ABSENT:
            return {"unscored": f"{name} needs {ABSENT[0]}"}
        return told


def _executed(
    manager: Any, call: tuple[str, dict[str, Any]], gold: str, wanted: Any
) -> dict[str, Any]:
    """The check of the API `gold` on what the call returned."""
    name, arguments = call
    try:
        result = manager.api_call(name, **arguments)
    except Exception as error:
        return _wrong(_kind_of(error), error)
    try:
        correct = manager.init_tool(gold).check_api_call_correctness(result, wanted)
    except KeyError as error:
        return _wrong("KEY_ERROR", error)
    except Exception as error:  # the publisher's program stops here, at level 3 not of assertions
        kind = "OTHER" if name == gold else "API_NAME_MISMATCH"
        return _wrong(kind, f"{type(error).__name__}: {error}")
    if correct:
        return {"correct": True, "error": None, "why": ""}
    if name != gold:
        return _wrong("API_NAME_MISMATCH", f"{name}, not {gold}")
    if result["exception"]:
        return _wrong("HAS_EXCEPTION", result["exception"])
    for part, kind in (("output", "OUTPUT_MISMATCH"), ("input", "INPUT_MISMATCH")):
        if result[part] != wanted[part]:
            return _wrong(kind, result[part])
    return _wrong("OTHER", "input and output are the gold ones, and the check fails")


def _spaced(keywords: str) -> str:
    """A blank before each capital, as level 3's program has it."""
    return "".join(f" {c}" if c.isupper() else c for c in keywords).strip()


def _kind_of(error: Exception) -> str:
    text = str(error)
    if text == "invalid tool name.":  # at level 3
        return "API_NAME_MISMATCH"
    if isinstance(error, AssertionError):
        return "INVALID_INPUT_PARAMETER" if "invalid parameter name" in text else "OTHER"
    missing = "missing" in text and "required positional argument" in text
    return "MISS_INPUT_ARGUMENT" if missing else "OTHER"


def _wrong(kind: str, why: object) -> dict[str, Any]:
    return {"correct": False, "error": kind, "why": str(why)[:SHOWN]}


def _written(call: dict[str, Any]) -> str:
    """A call as the publisher's prompt asks for it."""
    inside = ", ".join(f"{name}='{value}'" for name, value in call["arguments"].items())
    return f"[{call['name']}({inside})]"


def _gold_results(folder: Path) -> dict[str, Any]:
    """By each gold call its result; the dialogues have no two for the same call."""
    found = {}
    for file in sorted(folder.glob(SAMPLES)):
        for line in file.read_text("utf-8").splitlines():
            turn = json.loads(line)
            if turn["role"] == "API":
                found[_key(turn["api_name"], turn["param_dict"])] = turn["result"]
    return found


def _key(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps([name, arguments], sort_keys=True)


def main(checkout: str, searched: str = "") -> None:
    """Answer calls until standard input closes."""
    sys.dont_write_bytecode = True
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the APIs print
    bank = None
    _reply(replies, {"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, asked["timeout_s"] + ALARM_S)  # its default: kill
        try:
            bank = bank or Bank(checkout, searched == "words")
            told = bank.verdict(asked)
        except Exception as error:
            told = {"unscored": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        _reply(replies, told)


def _reply(replies: Any, told: dict[str, Any]) -> None:
    replies.write(json.dumps(told) + "\n")
    replies.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
