"""Tests of `tutti gateway`: refusals before anything starts, and the whole gateway in front of
fakes of vLLM."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner, Result

from tests.serving.weights.checkpoints import make_checkpoint
from tutti import storage
from tutti.cli.main import app
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.gateway import GatewaySettings
from tutti.tasks.serving.scheduling import POLICIES

DOUBLE = [sys.executable, "-m", "tests.serving.vllm_double"]
OUTSIDE = {"provider": "openai", "endpoint": "http://127.0.0.1:9/v1", "context_tokens": 8192}
CAP = ("--policy", "cap", "--limit", "2", "--port", "0", "--json")


def run(*arguments: str, home: Path, **environment: str) -> Result:
    shown = {"TUTTI_HOME": str(home), "COLUMNS": "200", "TUTTI_GATEWAY_TOKENS": ""}
    return CliRunner().invoke(app, ["gateway", *arguments], env=shown | environment)


def registry(folder: Path, **models: dict[str, Any]) -> str:
    path = folder / "deployments" / "models.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({"models": models}))
    return str(path)


def test_the_help_names_every_policy(tmp_path: Path) -> None:
    shown = run("--help", home=tmp_path)
    assert shown.exit_code == 0 and "--json" in shown.output
    assert all(name in " ".join(shown.output.split()) for name in POLICIES)


def test_both_entry_points_have_the_same_options() -> None:
    """The verb has three more options, which concern the registry and its own output."""
    context = get_command(app).make_context("tutti", ["gateway"], resilient_parsing=True)
    verb = get_command(app).get_command(context, "gateway")  # type: ignore[attr-defined]
    defaults = {each.name: each.default for each in verb.params if each.name != "help"}
    own = {"model", "models", "as_json"}
    parsed = GatewaySettings.parse([])
    flags = [each.name for each in fields(parsed) if "option" in each.metadata]
    module = {name: getattr(parsed, name) for name in flags}
    assert defaults.keys() - own == module.keys() and own < defaults.keys()
    assert {k: v or None for k, v in defaults.items() if k not in own} == {
        k: v or None for k, v in module.items()
    }


def test_the_module_reads_every_kind_of_option() -> None:
    """The module accepts repeated options, numbers within their bounds, and switches."""
    words = "--engine a --engine b --hold-s 1.5 --port 0 --no-journal --prices p.yaml"
    read = GatewaySettings.parse(words.split())
    wanted = GatewaySettings(
        engine=("a", "b"), hold_s=1.5, port=0, no_journal=True, prices=Path("p.yaml")
    )
    assert read == wanted


@pytest.mark.parametrize(
    "words", ["--port 65536", "--limit 0", "--hold-s -1", "--max-held x", "--fast"]
)
def test_the_module_refuses_values_out_of_bounds(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        GatewaySettings.parse(words.split())
    assert refused.value.code == 2 and words.split()[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--engine URL, or --model NAME"),
        (["--engine", "nope"], "--engine number 1: url: not an http(s) URL"),
        (["--engine", "a=http://h:1", "--engine", '{"url": "http://h", "x": 1}'], "number 2: x:"),
        (["--engine", "http://h:1", "--engine", "http://h:1/v1/"], "given twice: http://h:1"),
        (["--engine", "http://h", "--policy", "fifo"], "no policy 'fifo'; known: adaptive"),
        (["--engine", "http://h", "--policy", "cap"], "--limit"),
        (["--engine", "http://h", "--option", "fast"], "NAME=VALUE, not 'fast'"),
        (["--engine", "http://h", "--option", "fast=1"], "adaptive"),
        (["--engine", "http://h", "--host", "0.0.0.0"], "TUTTI_GATEWAY_TOKENS"),
        (["--engine", "http://h", "--prices", "/nowhere.yaml"], "/nowhere.yaml: no such file"),
        (["--model", "nope"], "no model 'nope'; known: pocket"),
    ],
)
def test_bad_usage_is_one_message_and_exit_2(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    done = run(*arguments, "--port", "0", home=tmp_path)
    assert done.exit_code == 2, done.output
    assert words in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (OUTSIDE | {"endpoint": "h:1"}, "models.m.endpoint: not an http(s) URL"),
        (OUTSIDE | {"api_key_env": "NO_SUCH_KEY"}, "m: NO_SUCH_KEY is not set"),
        (OUTSIDE | {"max_calls": 0}, "models.m.max_calls: "),
    ],
)
def test_a_wrong_model_is_named_with_its_field(
    model: dict[str, Any], words: str, tmp_path: Path
) -> None:
    file = registry(tmp_path, m=model)
    done = run("--model", "m", "--models", file, "--port", "0", home=tmp_path / "home")
    assert (done.exit_code, words in done.stderr) == (2, True), done.output


def test_one_gateway_records_tokens_of_all_its_models_or_of_none(tmp_path: Path) -> None:
    """An external endpoint refuses fields that it does not know."""
    file = registry(tmp_path, a=OUTSIDE, b=OUTSIDE | {"record_tokens": True})
    done = run("--model", "a", "--model", "b", "--models", file, home=tmp_path / "home")
    assert done.exit_code == 2 and "models.b.record_tokens" in done.stderr


def test_a_wrong_price_book_stops_the_start_with_its_message(tmp_path: Path) -> None:
    book = tmp_path / "prices.yaml"
    book.write_text("as_of: 2026-01-01\ncurrency: EUR\nmodels: {}\n")
    done = run("--engine", "http://h", "--prices", str(book), home=tmp_path / "home")
    assert done.exit_code == 2
    assert str(book) in done.stderr and "currency" in done.stderr and "'EUR'" in done.stderr


def test_a_taken_port_is_said_before_an_engine_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--model", "pocket", "--port", str(port), home=tmp_path)
    assert done.exit_code == 1 and f"port {port} is taken" in done.stderr
    assert "(`--port 0` takes a free one)" in done.stderr  # left out, it is always the same port
    assert not list(tmp_path.glob("logs/vllm-*"))


def test_an_engine_that_cannot_start_is_one_message(tmp_path: Path) -> None:
    done = run("--model", "pocket", "--port", "0", home=tmp_path, TUTTI_MODELS_PYTHON="/none")
    assert done.exit_code == 1 and "no models environment at /none" in done.stderr


@contextmanager
def process(command: list[str], **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a process and yield it with the first line that it prints; kill it if it does not end
    by itself."""
    own = {**os.environ, "PYTHONPATH": str(PROJECT), **environment}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own, cwd=PROJECT
    ) as child:
        assert child.stdout is not None
        try:
            yield child, child.stdout.readline()
        finally:
            if child.poll() is None:
                child.kill()


@contextmanager
def gateway(home: Path, *arguments: str, **environment: str) -> Iterator[Any]:
    """Run the verb and yield its JSON output."""
    command = [sys.executable, "-m", "tutti.cli.main", "gateway", *arguments]
    with process(command, TUTTI_HOME=str(home), **environment) as (child, line):
        assert line, child.communicate()[1]
        yield child, json.loads(line)


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    """Return the decoded response; retry a request that is refused as too early."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    for _ in range(100):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            last = error
            error.close()
        time.sleep(0.1)
    raise AssertionError(f"{url}: {last}")


def end(child: subprocess.Popen[str]) -> str:
    """Send Ctrl-C and return the text on standard error."""
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 0, told
    return told


def call(told: dict[str, Any], program: str, model: str) -> Any:
    url = told["base_url"].replace("PROGRAM", program)
    return ask(f"{url}/chat/completions", {"model": model, "messages": []})


@pytest.mark.slow
def test_engines_by_url_are_served_and_recorded(tmp_path: Path) -> None:
    """The price comes from the price file, by the name in the call."""
    home = tmp_path / "home"
    book = tmp_path / "prices.yaml"
    book.write_text(
        "as_of: 2026-01-01\ncurrency: USD\n"
        "models: {double: {prompt: 1, completion: 2, source: me, from: 2026-01-01}}\n"
    )
    with process([*DOUBLE, "--port", "0"]) as (_, port):
        engine = f"one=http://127.0.0.1:{port.strip()}"
        with gateway(home, "--engine", engine, "--prices", str(book), *CAP) as (child, told):
            assert told["policy"] == "cap" and told["ui"] == f"{told['url']}/ui"
            assert call(told, "attempt%3A1", "double")["usage"]["prompt_tokens"] == 1000
            assert ask(f"{told['url']}/health")["policy_options"] == {"limit": 2}
            end(child)
    rows = storage.query(
        "select attempt_id, endpoint, status, policy, cost_usd from calls", storage.Home(home)
    )
    cost = pytest.approx((1000 * 1 + 100 * 2) / 1e6)
    expected = {"attempt_id": "attempt:1", "endpoint": "one", "status": "ok", "policy": "cap"}
    assert rows == [expected | {"cost_usd": cost}]


@pytest.mark.slow
def test_an_outside_model_has_its_key_its_limit_and_its_prices(tmp_path: Path) -> None:
    """The registry's own prices take precedence over the price file's."""
    home = tmp_path / "home"
    with process([*DOUBLE, "--port", "0"]) as (_, port):
        outside = OUTSIDE | {
            "endpoint": f"http://127.0.0.1:{port.strip()}/v1",
            "served_name": "gpt-5",
            "api_key_env": "A_KEY",
            "max_calls": 3,
            "prices": {"prompt": 7.0, "completion": 7.0},
        }
        file = registry(tmp_path, mine=outside)
        with gateway(home, "--model", "mine", "--models", file, *CAP, A_KEY="k1") as (child, told):
            assert told["models"] == ["mine"]
            for name in ("mine", "gpt-5"):
                answer = call(told, f"of-{name}", name)
                assert answer["choices"][0]["message"]["content"] == "Bearer k1"
            (engine,) = ask(f"{told['url']}/engines")
            assert (engine["id"], engine["pool"]) == ("mine", "mine")
            assert engine["served_as"] == {"mine": "gpt-5"}
            end(child)
    rows = storage.query("select model, cost_usd from calls", storage.Home(home))
    assert rows == [{"model": "mine", "cost_usd": pytest.approx(1100 * 7 / 1e6)}] * 2


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return a checkpoint that is never read, with a Python that runs the fake of vLLM."""
    folder = make_checkpoint(tmp_path / "weights")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {" ".join(DOUBLE)} "$@"\n')
    script.chmod(0o755)
    return folder


def served(folder: Path, weights: Path, **change: Any) -> str:
    own = {"provider": "vllm", "checkpoint": str(weights), "context_tokens": 512}
    return registry(folder, own=own | {"engine": {"kv_blocks": 8}} | change)


@pytest.mark.slow
def test_a_checkpoint_is_started_served_and_ended(tmp_path: Path, weights: Path) -> None:
    home, file = tmp_path / "home", served(tmp_path, weights)
    python = str(tmp_path / "python")
    with gateway(home, "--model", "own", "--models", file, *CAP, TUTTI_MODELS_PYTHON=python) as (
        child,
        told,
    ):
        assert call(told, "p", "own")["usage"]["prompt_tokens"] == 1000
        (engine,) = ask(f"{told['url']}/engines")
        assert engine["id"].startswith("engine:") and engine["models"] == ["own"]
        assert "starting vLLM for own" in end(child)
    port = int(engine["url"].rsplit(":", 1)[1])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)), "the engine outlived its gateway"


@pytest.mark.slow
def test_the_end_of_the_only_engine_is_told_and_exit_5(tmp_path: Path, weights: Path) -> None:
    home, file = tmp_path / "home", served(tmp_path, weights)
    python = str(tmp_path / "python")
    with gateway(home, "--model", "own", "--models", file, *CAP, TUTTI_MODELS_PYTHON=python) as (
        child,
        _,
    ):
        for pid in _doubles_of(child.pid):
            os.kill(pid, signal.SIGKILL)
        _, told = child.communicate(timeout=60)
    assert child.returncode == 5
    assert "the engine died while serving (exit code 137)" in told and "Traceback" not in told


def _doubles_of(pid: int) -> list[int]:
    """Return the pids of the fakes; a fake runs below its supervisor, which runs below the verb."""
    found = []
    for line in subprocess.check_output(["ps", "-eo", "pid,ppid,args"], text=True).splitlines()[1:]:
        own, parent, command = line.split(None, 2)
        if "vllm_double" in command and "supervise.py" not in command:
            above = subprocess.check_output(["ps", "-o", "ppid=", "-p", parent], text=True)
            found += [int(own)] if int(above) == pid else []
    return found
