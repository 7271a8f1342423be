"""BFCL's categories of several turns, Java and JavaScript: our harness beside the package's checks.

In: the Python that has ``bfcl-eval``, and the folder of its data. An endpoint plays the gold calls
of each task, and the gold calls with one left out, with one argument changed, or with one call
doubled, to our harness; the package's checker gets the same calls directly. Out: the agreement.
"""

import ast
import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import OFFICIAL, TIMEOUT_S, Agreement, official
from bench.evaluations.bfcl_player import playing
from bench.evaluations.perturb import Call, changed
from tutti.tasks.platform.project import DEPLOYMENTS

MULTI_TURN = tuple(f"multi_turn_{kind}" for kind in ("base", "miss_func", "miss_param"))
MULTI_TURN += ("multi_turn_long_context",)
LANGUAGES = ("simple_java", "simple_javascript")
KINDS = ("gold", "left_out", "changed", "doubled")


@dataclass(frozen=True)
class Answer:
    """A model's calls in each turn, and the same as Python's text."""

    task: str
    kind: str
    turns: list[list[Call]]
    texts: list[list[str]]

    @property
    def model(self) -> str:
        """The name under which the endpoint plays it."""
        return f"{self.kind}:{self.task}"


def turns(
    python: str, data: Path, categories: Sequence[str] = MULTI_TURN, most: int | None = None
) -> Agreement:
    """The first `most` tasks of each category, each as it is and changed."""
    found = Agreement()
    for category in categories:
        answers = [
            answer
            for row, gold in _tasks(data, category, most)
            for answer in _answers(row, [_parsed(turn, data, row) for turn in gold], gold)
        ]
        asked = [
            {"id": a.task, "kind": a.kind, "turns": [[turn] if turn else [] for turn in a.texts]}
            for a in answers
        ]
        said = official(python, "bfcl_turns.py", [category], asked)
        _compare(found, python, answers, said)
    return found


def code(python: str, data: Path) -> Agreement:
    """Every task of Java and JavaScript, each as it is and changed."""
    found = Agreement()
    for category in LANGUAGES:
        answers = [
            answer
            for row, gold in _tasks(data, category, None)
            for answer in _answers(row, [[_source(call, row, category) for call in gold]], None)
        ]
        asked = [
            {"id": a.task, "calls": [{c["name"]: c["arguments"]} for c in a.turns[0]]}
            for a in answers
        ]
        said = official(python, "bfcl.py", [category], asked)
        _compare(found, python, answers, said)
    return found


def _compare(
    found: Agreement, python: str, answers: Sequence[Answer], said: Sequence[dict[str, Any]]
) -> None:
    ours = _played(python, answers)
    for answer, mine, verdict in zip(answers, ours, said, strict=True):
        what = f"{answer.task} ({mine['detail'].get('error')}, official {verdict['why']})"
        found.add(answer.kind, mine["correct"], verdict["correct"], what)


def _played(python: str, answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """What our harness says. Raises RuntimeError."""
    lines = "".join(
        f"{json.dumps({'id': a.task, 'kind': a.kind, 'model': a.model})}\n" for a in answers
    )
    with playing({answer.model: answer.turns for answer in answers}) as url:
        done = subprocess.run(
            [python, str(OFFICIAL / "bfcl_played.py"), str(DEPLOYMENTS / "harnesses"), url],
            input=lines,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"bfcl_played.py ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _tasks(data: Path, category: str, most: int | None) -> Iterator[tuple[dict[str, Any], Any]]:
    gold = _rows(data / "possible_answer" / f"BFCL_v4_{category}.json")
    answers = {row["id"]: row["ground_truth"] for row in gold}
    for row in _rows(data / f"BFCL_v4_{category}.json")[:most]:
        yield row, answers[row["id"]]


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def _answers(
    row: dict[str, Any], gold: list[list[Call]], texts: list[list[str]] | None
) -> Iterator[Answer]:
    """The gold calls, in the publisher's own words if `texts` has them, and the changed ones."""
    for kind in KINDS:
        made = [list(turn) for turn in gold]
        _change(made, kind, random.Random(row["id"]))
        own = texts if kind == "gold" and texts is not None else _texts(made)
        yield Answer(row["id"], kind, made, own)


def _change(made: list[list[Call]], kind: str, rng: random.Random) -> None:
    """One change of `kind` to one call of one turn that has calls."""
    turn = rng.choice([turn for turn in made if turn])
    place = rng.randrange(len(turn))
    if kind == "left_out":
        del turn[place]
    elif kind == "doubled":
        turn.insert(place, turn[place])
    elif kind == "changed":
        places = [n for n, call in enumerate(turn) if call["arguments"]]
        if places:
            place = rng.choice(places)
            arguments = dict(turn[place]["arguments"])
            name = rng.choice(sorted(arguments))
            arguments[name] = changed(arguments[name])
            turn[place] = {"name": turn[place]["name"], "arguments": arguments}


def _texts(turns: list[list[Call]]) -> list[list[str]]:
    return [[_text(call) for call in turn] for turn in turns]


def _text(call: Call) -> str:
    given = ",".join(f"{name}={value!r}" for name, value in call["arguments"].items())
    return f"{call['name']}({given})"


def _parsed(turn: Sequence[str], data: Path, row: dict[str, Any]) -> list[Call]:
    return [_call(text, data, row) for text in turn]


def _call(text: str, data: Path, row: dict[str, Any]) -> Call:
    """A gold call with all of its arguments by name, as a model's calls have them."""
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name), text
    names = _parameters(data, node.func.id) if node.args else []
    arguments = {name: ast.literal_eval(each) for name, each in zip(names, node.args, strict=False)}
    for keyword in node.keywords:
        assert keyword.arg is not None, f"{row['id']}: {text}"
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return {"name": node.func.id, "arguments": arguments}


def _parameters(data: Path, name: str) -> list[str]:
    for file in sorted((data / "multi_turn_func_doc").iterdir()):
        for row in _rows(file):
            if row["name"] == name:
                return list(row["parameters"]["properties"])
    raise ValueError(f"{name} is no function of multi_turn_func_doc")


def _source(call: dict[str, Any], row: dict[str, Any], category: str) -> Call:
    """A gold call whose values are source text, of accepted values the first."""
    ((name, arguments),) = call.items()
    properties = row["function"][0]["parameters"]["properties"]
    java = category == "simple_java"
    made = {
        argument: _literal(values[0], properties[argument]["type"], java)
        for argument, values in arguments.items()
        if values[0] != ""
    }
    return {"name": name.replace(".", "_"), "arguments": made}


def _literal(value: Any, kind: str, java: bool) -> str:
    """A value as Java or JavaScript writes one of type `kind`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and java:
        members = ", ".join(_member(each) for each in value)
        is_list = kind == "ArrayList"
        return f"new ArrayList<>(Arrays.asList({members}))" if is_list else f"new X[]{{{members}}}"
    if isinstance(value, dict) and java:
        puts = " ".join(f"put({_member(k)}, {_member(_first(v))});" for k, v in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    if isinstance(value, dict):
        return json.dumps({name: _first(each) for name, each in value.items()})
    if isinstance(value, list):
        return json.dumps(value)
    return f"{value}{ {'long': 'L', 'float': 'f'}.get(kind, '') if java else '' }"


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _member(value: Any) -> str:
    return json.dumps(value)
