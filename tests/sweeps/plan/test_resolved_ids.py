"""Tests that ids are computed from resolved settings: a default may be stated or left out, and
files count by content."""

import json
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.plan.test_identity import BASE, NEEDS, config, planned
from tests.sweeps.spec.test_groups import nested
from tutti.tasks.serving.registry.models import Model
from tutti.tasks.serving.registry.settings import EngineSettings
from tutti.tasks.serving.scheduling import POLICIES, make_policy, policy_options
from tutti.tasks.sweeps.plan.plan import Plan, grid_id_of, plan_of
from tutti.tasks.sweeps.spec.groups import ParallelThinking
from tutti.tasks.sweeps.spec.load import Load
from tutti.tasks.sweeps.spec.marks import RUN, marks_of, places_of
from tutti.tasks.sweeps.spec.policy import Policy
from tutti.tasks.sweeps.spec.suite import Suite

DEFAULTS = json.loads(Path(__file__).with_name("stored_defaults.json").read_text())
"""Of each setting that ids leave out where it is at its default, that default."""
OTHER: dict[str, Any] = {"rule": "ttl", "growth": 3}
"""Another value of options for which half the default is none."""
OPTIONS_OF = [(name, each) for name in POLICIES for each in signature(POLICIES[name]).parameters]


def cells_of(plan: Plan) -> list[str]:
    """Return the ids of its cells."""
    return [cell.cell_id for cell in plan.cells]


def of_policy(name: str, **options: Any) -> list[str]:
    """Return the ids of the cells of a policy."""
    given = {"name": name, **options}
    if name == "cap":
        given.setdefault("limit", 8)
    return cells_of(planned(Suite.model_validate({"policies": [given], "concurrency": [2]})))


def default_of(policy: str, option: str) -> Any:
    default = signature(POLICIES[policy]).parameters[option].default
    return 8 if default is Parameter.empty else default  # `cap` has the suite's


@pytest.mark.parametrize(("policy", "option"), OPTIONS_OF)
def test_each_option_of_a_policy_is_in_its_cells_ids(policy: str, option: str) -> None:
    """The default value is not part of the id; another value is, in one normalised form."""
    default = default_of(policy, option)
    assert of_policy(policy, **{option: default}) == of_policy(policy)
    other = not default if isinstance(default, bool) else OTHER.get(option)
    other = default / 2 if other is None else other
    changed = of_policy(policy, **{option: other})
    assert changed != of_policy(policy)
    if isinstance(other, str | bool):
        return
    for written in (float(other), str(other)):
        assert of_policy(policy, **{option: written}) == changed


def test_a_number_is_the_same_cell_however_it_is_written() -> None:
    """An omitted `interval_s`, 5 and 5.0 used to be three cells."""
    written: list[dict[str, Any]] = [{}, {"interval_s": 5}, {"interval_s": 5.0}]
    assert len({tuple(of_policy("thunderagent", **each)) for each in written}) == 1
    assert of_policy("thunderagent", interval_s=7) == of_policy("thunderagent", interval_s=7.0)
    twice = {"policies": ["thunderagent", {"name": "thunderagent", "interval_s": 5}]}
    with pytest.raises(ValueError, match="names a policy twice with the same options"):
        Suite.model_validate(twice)
    assert Policy.model_validate({"name": "thunderagent", "interval_s": 7.0}).options == {
        "interval_s": 7
    }


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        ("cap", {"limit": 2.5}, "policy cap: limit: Input should be a valid integer"),
        ("cap", {}, "policy cap: limit: Field required"),
        ("thunderagent", {"decay": "perhaps"}, "policy thunderagent: decay: Input should be a"),
        ("adaptive", {"max_wait_s": float("inf")}, "max_wait_s: Input should be a finite number"),
        ("adaptive", {"wait_s": 1}, "policy adaptive: wait_s: Extra inputs are not permitted"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused(
    policy: str, options: dict[str, Any], words: str
) -> None:
    """The gateway refuses it, too."""
    for read in (make_policy, policy_options):
        with pytest.raises(ValueError, match=words):
            read(policy, options)


@pytest.mark.parametrize("name", [n for n, mark in marks_of(Suite).items() if mark != RUN])
def test_a_field_stated_at_its_default_is_the_same_sweep(name: str) -> None:
    """The field may be in the file or left out."""
    content = {"policies": ["passthrough", "cap"], "concurrency": [2]} | NEEDS.get(name, {})
    default: Any = Suite().model_dump()
    for part in places_of(Suite)[name]:
        default = default[part]
    both = (nested(each) for each in (content, {name: default} | content))
    omitted, stated = map(Suite.model_validate, both)
    assert planned(stated).sweep_id == planned(omitted).sweep_id
    assert cells_of(planned(stated)) == cells_of(planned(omitted))


@pytest.mark.parametrize(
    ("needs", "stated"),
    [
        ({}, {"max_tokens": 96}),
        ({}, {"python": "once"}),
        ({}, {"split": "test"}),
        ({}, {"tasks": {}}),
        ({"benchmark": "bfcl"}, {"rule": "published"}),
        ({"benchmark": "bfcl-multi-turn"}, {"command": "{bfcl}"}),
        ({"benchmark": "./shop"}, {"solo": False}),
    ],
)
def test_what_an_omitted_field_comes_to_may_be_stated(
    needs: dict[str, Any], stated: dict[str, Any]
) -> None:
    """The sweep, the cells and, with several models, the grid are the same."""
    base = BASE.with_fields(needs)
    changed = base.with_fields(stated)
    one, other = plan_of(base, config(base)), plan_of(changed, config(base))
    assert one.sweep_id == other.sweep_id and cells_of(one) == cells_of(other)
    grids = [each.with_fields({"models": ("a", "b")}) for each in (base, changed)]
    assert grid_id_of(grids[0]) == grid_id_of(grids[1]) is not None


@pytest.mark.parametrize(
    ("benchmarks", "same", "others"),
    [
        (("gsm8k",), {"split": "test", "prompt": "number"}, {"split": "train", "prompt": "math"}),
        (("gsm8k", "stdlib"), {"split": "test", "prompt": "number"}, {"prompt": "math"}),
        (("gsm8k", "math-500"), {"split": "test"}, {"prompt": "number"}),
        (("mine.jsonl",), {"split": "test", "prompt": "plain"}, {"prompt": "{question}"}),
        (("mine.jsonl",), {"question_field": "problem"}, {"question_field": "asked"}),
        (("mine.jsonl", "gsm8k"), {"answer_field": "target"}, {"answer_field": "gold"}),
    ],
)
def test_a_grid_may_state_what_its_benchmarks_have_as_their_own(
    benchmarks: tuple[str, ...], same: dict[str, str], others: dict[str, str], tmp_path: Path
) -> None:
    """The value is that of every benchmark in the grid that uses the field; it used to be another
    grid."""
    (tmp_path / "mine.jsonl").write_text('{"problem": "1 + 1?", "target": "2"}')
    paths = [str(tmp_path / each) if "." in each else each for each in benchmarks]
    base = BASE.with_fields({"benchmarks": paths, "models": ("a", "b")})
    if "mine.jsonl" in benchmarks:
        base = base.with_fields({"scorer": "exact"})
    grid = grid_id_of(base)
    stated = [grid_id_of(base.with_fields({name: each})) for name, each in same.items()]
    assert stated == [grid] * len(same)
    assert all(grid_id_of(base.with_fields({n: each})) != grid for n, each in others.items())


def test_each_field_of_a_load_and_of_parallel_thinking_is_in_ids(tmp_path: Path) -> None:
    """A trace counts by its arrivals, not by its path."""
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for file in (first, second):
        file.write_text("[0, 1, 2, 3]")
    loads: list[dict[str, Any]] = [
        {"kind": "ramp", "over_s": 2}, {"kind": "ramp", "over_s": 3}, {"kind": "closed"},
        {"kind": "poisson", "session_s": 2}, {"kind": "trace", "file": first},
        {"kind": "trace", "file": first, "speed": 2},
    ]  # fmt: skip
    assert {name for each in loads for name in each} == set(Load.model_fields)
    ids = [cells_of(planned(BASE.with_fields({"load": each})))[0] for each in loads]
    assert len(set(ids)) == len(loads)
    moved = BASE.with_fields({"load": {"kind": "trace", "file": second, "speed": 1}})
    assert cells_of(planned(moved))[0] == ids[4] and cells_of(planned(BASE))[0] == ids[2]
    thoughts: list[dict[str, Any]] = [
        {"solutions": 4}, {"solutions": 5}, {"solutions": 4, "combine": "synthesis"},
        {"solutions": 4, "most_chars": 9},
    ]  # fmt: skip
    assert {name for each in thoughts for name in each} == set(ParallelThinking.model_fields)
    of_questions = BASE.with_fields(NEEDS["parallel"])
    found = {planned(of_questions.with_fields({"parallel": each})).sweep_id for each in thoughts}
    assert len(found) == len(thoughts)
    stated = {"solutions": 4, "combine": "select", "most_chars": 16384}
    assert planned(of_questions.with_fields({"parallel": stated})).sweep_id in found


def test_replicas_of_the_entry_are_the_suites_engines() -> None:
    """An entry of two replicas used to reuse the cells of one."""
    entry = {"provider": "vllm", "checkpoint": "w", "context_tokens": 64}

    def ids(replicas: int, engines: int) -> list[str]:
        suite = BASE.with_fields({"engines": engines})
        model = Model.model_validate(entry | {"engine": {"replicas": replicas}})
        return cells_of(plan_of(suite, replace(config(suite), model=model)))

    assert ids(1, 1) != ids(2, 1) == ids(1, 2) == ids(5, 2)


@pytest.mark.parametrize("field", ["command", "mcp"])
def test_the_files_that_a_command_names_are_in_ids(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files count by content; another `agent.py` used to reuse the cells of the old one."""
    outside = tmp_path / "outside.py"
    folder = tmp_path / "here"
    (folder / "bin").mkdir(parents=True)
    monkeypatch.chdir(folder)
    agent = folder / "agent.py"
    agent.write_text("one")
    outside.write_text("one")
    (folder / "bin" / "python").symlink_to(outside)

    def sweep(line: str) -> str:
        suite = BASE.with_fields({"benchmark": "gsm8k", field: line})
        return planned(suite).sweep_id

    lines = {"relative": "bin/python agent.py --x", "absolute": f"python {agent}"}
    lines |= {"up": f"../{outside.name} x", "elsewhere": f"python {outside}", "none": "run it"}
    before = {name: sweep(line) for name, line in lines.items()}
    agent.write_text("two")
    moved = {name for name, line in lines.items() if sweep(line) != before[name]}
    assert moved == {"relative", "absolute"}
    agent.write_text("one")
    outside.write_text("two")
    moved = {name for name, line in lines.items() if sweep(line) != before[name]}
    assert moved == {"up"}, "an absolute path elsewhere is a program of the machine"


def test_a_default_is_as_it_was_when_ids_began_to_leave_it_out() -> None:
    """An id does not contain default values, so a changed default would match cells that were
    measured with the old one. Raise LOOP_VERSION, or name the old default, and store the new one in
    stored_defaults.json."""
    assert json.loads(json.dumps(current_defaults())) == DEFAULTS


def current_defaults() -> dict[str, dict[str, Any]]:
    suite = Suite().model_dump(mode="json")
    found: dict[str, dict[str, Any]] = {"suite": {}, "engine": {}}
    for name, place in places_of(Suite).items():
        value: Any = suite
        for part in place:
            value = value[part]
        if marks_of(Suite)[name] != RUN:
            found["suite"][name] = value
    found["engine"] = EngineSettings().model_dump(mode="json")
    for name in POLICIES:
        own = [each for policy, each in OPTIONS_OF if policy == name]
        found[name] = {each: default_of(name, each) for each in own}
    return found
