"""Tests of the flow `serve-models` as a plain function, with a real gateway and fakes of
engines."""

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from typer.testing import CliRunner

from tests.serving.engine_double import EngineDouble
from tests.serving.weights.checkpoints import make_checkpoint
from tutti import storage
from tutti.cli.main import app
from tutti.flows.serve import ServeParameters, serve_models
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving import EngineFailed, RegistryError, ServingError
from tutti.tasks.serving.served import serve_for, served_page

TWO = ("mine", "grader")


class Registry:
    """Two endpoints and the registry file with them."""

    def __init__(self, file: Path) -> None:
        self.file, self.engines = file, {name: EngineDouble() for name in TWO}

    def parameters(self, **fields: Any) -> ServeParameters:
        """Return parameters for a short run without the search service."""
        given = {"models": TWO, "minutes": 0.01, "search": False, "registry": self.file}
        return ServeParameters.model_validate(given | fields)


@pytest.fixture
async def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Registry]:
    """Yield the registry in a new store."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    made = Registry(tmp_path / "models.yaml")
    async with AsyncExitStack() as stack:
        entries = {}
        for name, engine in made.engines.items():
            server = await stack.enter_async_context(TestServer(engine.application()))
            entry = {"provider": "openai", "context_tokens": 4096, "api_key_env": None}
            where = {"endpoint": str(server.make_url("/v1")), "served_name": "org/big"}
            entries[name] = entry | where
        made.file.write_text(yaml.safe_dump({"models": entries}))
        yield made


async def _answers(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as client, client.get(f"{url}/health") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def test_models_are_called_once_served_and_ended(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both models are behind one gateway under their entries' names, although one model serves
    both; the gateway has ended when the minutes are over."""
    served = await serve_models.fn(registry.parameters())
    assert served["models"] == {"mine": "org/big", "grader": "org/big"}
    assert [(each["model"], each["text"]) for each in served["answers"]] == [
        ("mine", "hi"), ("grader", "hi"),
    ]  # fmt: skip
    assert [len(engine.requests) for engine in registry.engines.values()] == [1, 1]
    assert f"mine, grader answers at {served['url']}\n" in capsys.readouterr().out
    assert not await _answers(served["url"].removesuffix("/v1"))
    (run,) = storage.query("select flow, status from runs")
    assert run == {"flow": "serve-models", "status": "completed"}
    assert storage.query("select count(*) as n from calls") == [{"n": 2}]


async def test_a_model_that_does_not_answer_fails_the_run(registry: Registry) -> None:
    """The error quotes its response; started processes are ended."""

    async def refuse(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": {"message": "out of memory"}}, status=400)

    registry.engines["grader"].reply = refuse
    with pytest.raises(ServingError, match=r"grader answers no call: HTTP 400: out of memory"):
        await serve_models.fn(registry.parameters())
    (run,) = storage.query("select status from runs")
    assert run["status"] == "failed"


async def test_unknown_models_and_missing_checkpoints_say_what_to_do(registry: Registry) -> None:
    """The error is raised before anything is started."""
    with pytest.raises(RegistryError, match="nobody"):
        await serve_models.fn(registry.parameters(models=("nobody",)))
    entry = {"provider": "vllm", "checkpoint": "gone", "context_tokens": 512}
    models = {"pocket": {**entry, "engine": {"kv_blocks": 8}}}
    registry.file.write_text(yaml.safe_dump({"models": models}))
    with pytest.raises(RegistryError, match=r"gone: no such folder"):
        await serve_models.fn(registry.parameters(models=("pocket",)))


async def test_without_minutes_a_signal_ends_it(registry: Registry) -> None:
    """The signal is the one with which Ctrl-C or `kill` ends `tutti serve`; the run is
    completed."""
    before = signal.getsignal(signal.SIGTERM)
    running = asyncio.create_task(serve_models.fn(registry.parameters(minutes=0, check=False)))
    async with asyncio.timeout(60):
        while signal.getsignal(signal.SIGTERM) == before:
            await asyncio.sleep(0.02)
            assert not running.done()
        os.kill(os.getpid(), signal.SIGTERM)
        served = await running
    assert served["answers"] == [] and served["search"] is None
    assert signal.getsignal(signal.SIGTERM) == before


async def test_the_fit_is_said_before_an_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output names server, device, dtype and GPU; nothing starts if the GPU is too small."""
    python, cards = tmp_path / "python", tmp_path / "gpus.yaml"
    double = shlex.join([sys.executable, "-m", "tests.serving.vllm_double"])
    python.write_text(f'#!/bin/sh\nexec {double} "$@"\n')
    python.chmod(0o755)
    for name, value in (("MODELS_PYTHON", python), ("GPUS", cards), ("GPU_LOCKS", tmp_path / "l")):
        monkeypatch.setenv(f"TUTTI_{name}", str(value))
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("tutti.tasks.serving.engines.engine.refuse_wrong_commands", lambda *_: [])
    weights = make_checkpoint(tmp_path / "weights")
    entry = {"provider": "vllm", "checkpoint": str(weights), "context_tokens": 512}
    entries = {"policy": {**entry, "engine": {"gpus": 1, "kv_tokens": 4096}}}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"models": entries}))
    parameters = ServeParameters(
        models=("policy",), minutes=0.01, search=False, registry=tmp_path / "models.yaml"
    )
    cards.write_text("gpus: [{index: 0, memory_mb: 81920}]\n")
    await serve_models.fn(parameters)
    said = " ".join(capsys.readouterr().err.split())
    line = said.index("engine policy: vllm on cuda; tools by hermes; weights")
    assert "4,090 tokens" in said[line:] and "; GPU 0" in said[line:]
    assert line < said.index("✓ engine"), "before it is started"
    logs = list((tmp_path / "home" / "logs").glob("vllm-*.log"))
    cards.write_text("gpus: [{index: 0, memory_mb: 1024}]\n")
    with pytest.raises(RegistryError, match=r"models\.policy: does not fit: weights"):
        await serve_models.fn(parameters)
    assert list((tmp_path / "home" / "logs").glob("vllm-*.log")) == logs


class _Engine:
    """Engine that dies after a moment."""

    async def watch(self) -> None:
        await asyncio.sleep(0.05)
        raise EngineFailed("the engine died")


async def test_a_dead_engine_ends_the_wait() -> None:
    """The wait ends long before its minutes are over; progress is shown until then."""
    shown: list[tuple[float, float]] = []
    show = lambda *at: shown.append(at)  # noqa: E731
    with pytest.raises(EngineFailed, match="died"):
        await serve_for([_Engine()], 5.0, asyncio.Event(), show)  # type: ignore[list-item]
    assert shown and shown[0][1] == 5.0


class _Idle:
    """Engine that stays alive."""

    async def watch(self) -> None:
        await asyncio.Event().wait()


async def test_kept_engines_end_when_nothing_used_them_for_so_long() -> None:
    """Each use restarts the idle time."""
    answers = iter([True, True])
    started = asyncio.get_running_loop().time()
    await serve_for(
        [_Idle()],  # type: ignore[list-item]
        0.02,
        asyncio.Event(),
        lambda *_: None,
        lambda: next(answers, False),
    )
    assert asyncio.get_running_loop().time() - started >= 2.0, "two busy seconds, then 1.2 idle"


def test_the_page_says_how_models_are_called() -> None:
    """The page has the names in requests, whether each model was called, and commands to copy."""
    page = served_page("http://h:1/v1", {"mine": "org/mine"}, [], "http://h:2")
    assert "| mine | `org/mine` | not called |" in page
    assert "curl -s http://h:1/v1/chat/completions" in page and '"model": "mine"' in page
    assert "curl -s http://h:2/retrieve" in page


@pytest.mark.parametrize(("flags", "how"), [([], "text"), (["--json"], "json")])
def test_the_verb_serves_until_it_is_ended(
    flags: list[str], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verb's flags become the flow's parameters; the flow's output is printed on standard
    output."""

    async def answer(flow: object, prefect: bool, parameters: ServeParameters) -> None:
        assert (flow, prefect) == (serve_models, False)
        given = (parameters.models, parameters.minutes, parameters.port, parameters.check)
        assert given == (("pocket",), 0.0, 8300, False)
        assert parameters.search and parameters.announce_as == how
        print(json.dumps({"model": "pocket"}))

    monkeypatch.setattr("tutti.cli.base.flow.as_flow_run", answer)
    done = CliRunner().invoke(app, ["serve", "pocket", "--port", "8300", *flags])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"model": "pocket"}
