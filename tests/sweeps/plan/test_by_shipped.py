"""Tests of suites of a harness shipped with tutti: their requirements and immediate errors."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.benchmarks.test_bigcodebench import write_task
from tests.deployments.tau2_standin import install_into
from tests.deployments.test_tau2_episode import TASKS
from tests.sweeps.conftest import config_of
from tutti.tasks.agents.commands.shipped import TAU2, shipped_harness
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan.plan import plan_of, sweep_content
from tutti.tasks.sweeps.plan.roles import Roles, ServedModel
from tutti.tasks.sweeps.plan.task_set import TaskSet, select_tasks
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return two domains of a checkout, and an environment with a fake of the package."""
    for domain in ("retail", "airline"):
        folder = tmp_path / "checkout" / "data" / "tau2" / "domains" / domain
        folder.mkdir(parents=True)
        (folder / "tasks.json").write_text(json.dumps(TASKS))
        (folder / "db.json").write_text("{}")
        (folder / "split_tasks.json").write_text(json.dumps({"base": ["plain"]}))
    monkeypatch.setenv("TUTTI_HARNESS_TAU2", str(install_into(tmp_path / "environment")))
    return tmp_path / "checkout"


def suite_of(source: Path | None, **more: Any) -> Suite:
    """Return a suite of retail with a user and a judge."""
    fields: dict[str, Any] = {"benchmark": "tau2-retail", "data": {"source": source}}
    return Suite(**fields | {"roles": {"user": "a", "judge": "b"}} | more)


@pytest.mark.parametrize("below", ["", "data/tau2/domains"])
def test_a_checkout_is_the_source(checkout: Path, below: str) -> None:
    """The source may also be its folder of domains; tasks can be selected by tau2's base set and by
    judged parts."""
    _, _, tasks = select_tasks(suite_of(checkout / below))
    assert [(each.attributes["in_base"], each.attributes["judged"]) for each in tasks] == [
        ("true", "false"),
        ("false", "true"),
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"roles": {"judge": "b"}}, "roles.user: tau2-retail needs one"),
        ({"roles": {"user": "a"}}, "roles.judge: a judge decides a part .* of 1 of 2 tasks"),
        ({"harness": {"mcp": "x"}}, "harness.mcp: tau2-retail has the tools"),
        (
            {"roles": {"user": "a", "agent": "pocket", "search_url": "http://x"}},
            "roles.search_url: nobody searches",
        ),
        (
            {"benchmark": "tau2-mock", "harness": {"command": "{tau2}"}},
            "harness.command: {tau2} makes no attempts at tau2-mock",
        ),
    ],
)
def test_what_does_not_fit_is_refused(checkout: Path, fields: dict[str, Any], words: str) -> None:
    """The error names the field and the fix."""
    data = {"data": {"source": checkout} | fields.pop("data", {})}
    with pytest.raises(SuiteError, match=words):
        TaskSet.read(suite_of(checkout, **data | fields))


def test_a_missing_environment_is_told_with_its_command(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised before anything runs."""
    monkeypatch.setenv("TUTTI_HARNESS_TAU2", str(tmp_path / "none"))
    with pytest.raises(SuiteError, match=r"no Python with it at .*none; .* `make tau2 TAU2="):
        TaskSet.read(suite_of(checkout))


def test_a_missing_database_is_told(checkout: Path) -> None:
    """Stored copies of the repository lack some."""
    (checkout / "data/tau2/domains/retail/db.json").unlink()
    with pytest.raises(SuiteError, match=r"data\.source: .*retail holds none of db\.json"):
        TaskSet.read(suite_of(checkout))


def test_a_judge_is_needed_where_one_decides(checkout: Path) -> None:
    """Tasks without a judged part need no judge; of several domains, one may need it."""
    ids = {"source": checkout, "where": "judged = 'false'"}
    assert len(TaskSet.read(suite_of(checkout, roles={"user": "a"}, data=ids)).tasks) == 1
    assert len(TaskSet.read(suite_of(checkout, data=ids)).tasks) == 1


def test_an_agent_and_the_harness_together(checkout: Path) -> None:
    """The suite may name the harness with options, but not another program, which would ignore the
    experts."""
    roles = {"user": "a", "judge": "b", "agent": "pocket"}
    for command in (None, "{tau2} --max-steps 5"):
        suite = suite_of(checkout, roles=roles, harness={"command": command})
        assert len(TaskSet.read(suite).tasks) == 2
    with pytest.raises(ValidationError, match="no `command` of another program"):
        suite_of(checkout, roles=roles, harness={"command": "other"})


def test_a_grid_of_domains_shares_the_checkout(checkout: Path) -> None:
    """A benchmark with its own folder there keeps it; each part keeps user and judge."""
    suite = Suite(
        benchmarks=("tau2-retail", "tau2-airline", "gsm8k"),
        data={"source": checkout},
        roles={"user": "a", "judge": "b"},
    )
    found = [(part.data.source, part.roles.user, part.roles.judge) for part in suite.parts()]
    assert found == [
        (checkout, "a", "b"), (checkout, "a", "b"), (checkout / "gsm8k", None, None)
    ]  # fmt: skip
    (checkout / "tau2-retail").mkdir()
    assert suite.parts()[0].data.source == checkout / "tau2-retail"


def test_the_harness_is_in_the_ids(checkout: Path) -> None:
    """The id has its version but no path; options change it; other suites are not affected."""
    one = sweep_content(suite_of(checkout), config_of([]))
    assert one["harness"] == ["{tau2}", TAU2.version]
    short = suite_of(checkout, harness={"command": "{tau2} --max-steps 5"})
    assert sweep_content(short, config_of([]))["harness"] != one["harness"]
    assert "harness" not in sweep_content(Suite(), config_of([]))


def model_of(**more: Any) -> Model:
    """Return an entry of models.yaml."""
    return Model(provider="openai", endpoint="http://a:1/v1", context_tokens=4000, **more)


@pytest.mark.parametrize("setting", [{"tools": False}, {"dialect": "hermes"}])
@pytest.mark.parametrize("who", ["measured", "expert", "user"])
def test_a_model_that_takes_no_tools_is_refused(setting: dict[str, Any], who: str) -> None:
    """The package sends tools and reads calls, so the model would be measured without the entry's
    setting. Such a model may be the user if users have no tools, and tutti's own agent honours the
    setting."""
    plain, told = model_of(), model_of(**setting)
    of = {each: told if each == who else plain for each in ("measured", "expert", "user")}
    roles = Roles(
        user=ServedModel("customer", "engine:2", of["user"]),
        experts={"strong": ServedModel("strong", "engine:3", of["expert"])},
    )
    config = config_of([], model=of["measured"], roles=roles)
    fields: dict[str, Any] = {"roles": {"user": "a"}}
    name = {"measured": "pocket", "expert": "strong", "user": "customer"}[who]
    ((key, value),) = setting.items()
    words = rf"models\.{name}\.{key}: {str(value).lower()}: tau2's package sends tools .* another"
    with pytest.raises(SuiteError, match=words):
        plan_of(Suite(benchmark="tau2-telecom", **fields), config)
    if who == "user":
        plan_of(Suite(benchmark="tau2-retail", **fields), config)
    plan_of(Suite(benchmark="tau2-mock", **fields), config)


@pytest.mark.parametrize(
    ("benchmark", "fields", "words"),
    [
        ("tau2-retail", {"limits": {"max_turns": 20}}, r'max_turns: .* "{tau2} --max-steps N"'),
        ("bfcl-multi-turn", {"limits": {"max_turns": 20}}, r"max_turns: bfcl's .*command_s"),
        ("tau2-retail", {"limits": {"working_s": 5.0}}, r"limits\.working_s: .*command_s"),
        ("tau2-retail", {"limits": {"attempt_usd": 0.1}}, r"limits\.attempt_usd: tau2's package"),
        (
            "tau2-retail",
            {"data": {"prompt": "plain"}},
            r"data\.prompt: tau2-retail has the prompts",
        ),
    ],
)
def test_what_a_package_does_not_know_is_refused(
    benchmark: str, fields: dict[str, Any], words: str
) -> None:
    """Such an option used to be ignored. In a grid it may belong to another benchmark, and ids are
    unchanged."""
    with pytest.raises(SuiteError, match=words):
        plan_of(Suite(benchmark=benchmark, **fields), config_of([]))
    grid = Suite(benchmarks=(benchmark, "gsm8k"), **fields)
    plan_of(grid.parts()[0], config_of([]), grid)


def test_a_python_for_libraries_is_asked_for_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task or its tests need packages, or the variable names no Python. The value for `--where`
    in the error excludes exactly these tasks."""
    monkeypatch.delenv("TUTTI_CODE_PYTHON", raising=False)
    suite = Suite(benchmark="bigcodebench", data={"source": tmp_path})
    write_task(tmp_path, libs="['numpy', 'json']")
    plain = {"code_prompt": "import json\n", "libs": "['json']", "task_id": "plain"}
    rows = (tmp_path / "BigCodeBench.jsonl").read_text()
    write_task(tmp_path, **plain)
    (tmp_path / "more.jsonl").write_text(rows)
    with pytest.raises(SuiteError, match=r"1 of 2 tasks .*: set .* has numpy: .*install") as told:
        select_tasks(suite)
    fits = re.search('--where "(.*)"', str(told.value))
    assert fits is not None
    fitting = Suite(benchmark="bigcodebench", data={"source": tmp_path, "where": fits[1]})
    assert [task.key for task in select_tasks(fitting)[2]] == ["plain"]
    monkeypatch.setenv("TUTTI_CODE_PYTHON", "/nowhere")
    with pytest.raises(SuiteError, match=r"TUTTI_CODE_PYTHON=/nowhere: is no Python"):
        select_tasks(suite)


def test_only_the_first_word_names_a_harness() -> None:
    """A command starts with the harness's name."""
    assert shipped_harness("{tau2} --save /x") is TAU2
    assert shipped_harness("run {tau2}") is None and shipped_harness(None) is None
    program = Path(TAU2.words[1])
    assert program.is_file() and program.is_absolute()
