"""Tests of `import tutti`: the names for Python programs, and README's example."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

import tutti
from tests.endpoint_double import endpoint
from tutti.cli.main import app
from tutti.cli.setup.init import contents
from tutti.errors import UsageError
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.sweeps.from_flags import keep_sweep
from tutti.tasks.sweeps.spec import read_suite

EXAMPLE = re.compile(r"```python\n(import tutti\n.*?)```", re.S)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Create an empty folder with questions and a new store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    for name, text in contents(tmp_path, tmp_path / "nowhere").items():
        Path(name).write_text(text)
    yield


@pytest.mark.slow
def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    found = EXAMPLE.search((PROJECT / "README.md").read_text())
    assert found
    with endpoint({"id": "Qwen/Qwen3-8B", "max_model_len": 4096}) as url:
        code = found[1].replace("http://127.0.0.1:8000", url)
        space: dict[str, Any] = {}
        exec(code.replace("data/gsm8k", "first.jsonl"), space)
    assert "passthrough 4 0.1" in capsys.readouterr().out
    assert space["rows"] == [{"status": "ok", "n": 10}]
    assert space["sweep"].unfinished_cells == 0


def test_the_kept_files_repeat_the_sweep(tmp_path: Path) -> None:
    """A second run gives the same; the served name and the context length are the endpoint's."""
    settings: tutti.RunSettings = {"source": "first.jsonl", "concurrency": (2,), "limit": 3}
    with endpoint({"id": "Qwen/Qwen3-8B", "max_model_len": 1000}) as url:
        kept = asyncio.run(keep_sweep("gsm8k", url, settings))
        again = asyncio.run(keep_sweep("gsm8k", f"{url}/v1", settings))
    assert kept.path == again.path and read_suite(kept.path) == kept.suite == again.suite
    (entry,) = yaml.safe_load(kept.models.read_text())["models"].values()
    assert (entry["served_name"], entry["context_tokens"]) == ("Qwen/Qwen3-8B", 1000)
    assert kept.suite.sampling.max_tokens == 500 and not kept.assumed_context


def test_split_and_rule_are_the_suites_own(tmp_path: Path) -> None:
    """The arguments are `data.split` and `data.rule`; an unknown rule is refused."""
    with endpoint({"id": "Qwen/Qwen3-8B", "max_model_len": 1000}) as url:
        settings: tutti.RunSettings = {"source": "data", "split": "live_simple", "rule": "strict"}
        kept = asyncio.run(keep_sweep("bfcl", url, settings))
        with pytest.raises(ValidationError, match=r"data\.rule: bfcl has no rule 'loose'"):
            asyncio.run(keep_sweep("bfcl", url, settings | {"rule": "loose"}))
    assert (kept.suite.data.split, kept.suite.data.rule) == ("live_simple", "strict")
    assert read_suite(kept.path) == kept.suite


def test_a_judge_named_as_the_measured_model_stays_itself(tmp_path: Path) -> None:
    """The registry's entry is kept beside the endpoint's, which gets another name."""
    judge = {"provider": "openai", "endpoint": "http://judge:1/v1", "context_tokens": 4096}
    registry = tmp_path / "models.yaml"
    registry.write_text(yaml.safe_dump({"models": {"qwen3-8b": judge}}))
    settings: tutti.RunSettings = {"source": "first.jsonl", "judge": "qwen3-8b"}
    settings["registry"] = registry
    with endpoint({"id": "Qwen/Qwen3-8B", "max_model_len": 1000}) as url:
        kept = asyncio.run(keep_sweep("simpleqa", url, settings))
    assert (kept.suite.model, kept.suite.roles.judge) == ("qwen3-8b-measured", "qwen3-8b")
    entries = yaml.safe_load(kept.models.read_text())["models"]
    assert entries["qwen3-8b"]["endpoint"] == "http://judge:1/v1"
    assert entries["qwen3-8b-measured"]["endpoint"] == url


def test_a_domain_without_a_user_is_kept_so(tmp_path: Path) -> None:
    """`--solo` is `data.solo` and valid only for a domain."""
    with endpoint({"id": "m", "max_model_len": 1000}) as url:
        kept = asyncio.run(keep_sweep("task_set:0123456789abcdef", url, {"solo": True}))
        assert read_suite(kept.path).data.solo is True
        with pytest.raises(ValueError, match=r"data\.solo: for a synthesized domain"):
            asyncio.run(keep_sweep("gsm8k", url, {"solo": True}))


def test_a_file_of_ones_own_is_kept_with_its_folder(tmp_path: Path) -> None:
    """The kept suite can be run from any folder."""
    with endpoint({"id": "m", "max_model_len": 1000}) as url:
        kept = asyncio.run(keep_sweep("my_task.py", url, {}))
    assert read_suite(kept.path).benchmark == str(tmp_path / "my_task.py")


def test_a_file_of_questions_names_its_scorer_and_fields(tmp_path: Path) -> None:
    """`tutti run FILE.jsonl` needs no suite file for the fields of a question file."""
    (tmp_path / "mine.jsonl").write_text('{"q": "1 + 1?", "gold": "2"}\n')
    settings: tutti.RunSettings = {"scorer": "numeric", "question_field": "q"}
    with endpoint({"id": "m", "max_model_len": 1000}) as url:
        with pytest.raises(ValidationError, match="needs one: exact"):
            asyncio.run(keep_sweep("mine.jsonl", url, {}))
        kept = asyncio.run(keep_sweep("mine.jsonl", url, settings | {"answer_field": "gold"}))
    data = read_suite(kept.path).data
    assert (data.scorer, data.question_field, data.answer_field) == ("numeric", "q", "gold")


@pytest.mark.parametrize(
    ("names", "flags", "code", "words"),
    [
        ("ab", [], 2, "serves several models: a, b; choose with --served-name"),
        ("", [], 2, "lists no models"),
        ("a", ["--api-key-env", "NOT_SET"], 2, "NOT_SET is not set"),
        ("a", ["--concurrency", "x"], 2, "no list of numbers"),
        ("a", ["--policies", "fastest"], 2, "fastest"),
    ],
)
def test_what_is_left_open_is_one_message(
    names: str, flags: list[str], code: int, words: str
) -> None:
    with endpoint(*({"id": name} for name in names)) as url:
        done = CliRunner().invoke(app, ["run", "gsm8k", "--model", url, *flags])
    assert done.exit_code == code and words in done.stderr


@pytest.mark.parametrize(
    ("keyword", "words"),
    [("temprature", "did you mean 'temperature'?"), ("zzz", "known: registry, name, served_name")],
)
def test_an_unknown_keyword_is_a_type_error(keyword: str, words: str) -> None:
    """The error is that of any function; `temprature=0.7` used to be measured at temperature 0."""
    given: Any = {keyword: 0.7}
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{keyword}'; {words}"):
        tutti.run("gsm8k", "http://127.0.0.1:9/v1", **given)


@pytest.mark.parametrize("name", ["served_name", "api_key_env", "context_tokens"])
def test_what_only_an_endpoint_has_is_refused_of_an_entry(name: str) -> None:
    """Such an argument used to be ignored silently: the entry was measured with its own name, key
    and context."""
    settings: Any = {name: 4096 if name == "context_tokens" else "OTHER"}
    with pytest.raises(UsageError, match=rf"--{name.replace('_', '-')}: for an endpoint's URL"):
        asyncio.run(keep_sweep("gsm8k", "pocket", settings))


def test_an_unknown_context_length_is_told() -> None:
    with endpoint({"id": "a"}) as url:
        kept = asyncio.run(keep_sweep("gsm8k", url, {}))
    assert kept.assumed_context and "8192 tokens are assumed" in kept.words


def test_queries_have_the_views() -> None:
    assert tutti.query("select count(*) as n from results") == [{"n": 0}]
    connection = tutti.connect()
    assert connection.sql("select * from results").fetchall() == []
    connection.close()


def test_the_version_is_printed_and_verbs_are_in_the_order_of_work() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("tutti ")
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    places = [shown.index(f"│ {verb} ") for verb in ("init", "doctor", "models", "run", "sweep")]
    assert places == sorted(places)
