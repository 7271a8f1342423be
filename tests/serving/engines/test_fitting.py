"""Tests of an engine's cache, estimated and reported, and of GPUs for engines that run together."""

import json
import shlex
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import Catalog
from tutti.tasks.platform.gpus import Gpu, Inventory
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.engines import Engine, known_cache
from tutti.tasks.serving.engines.fitting import (
    CacheRecord,
    CacheSize,
    WantedGpus,
    estimated_cache,
    keep_cache,
    place,
    reported_cache,
)
from tutti.tasks.serving.engines.flags import Launch, Parsers
from tutti.tasks.serving.registry import Model
from tutti.tasks.serving.registry.settings import EngineSettings
from tutti.tasks.serving.weights import kv_need

POCKET = PROJECT / "assets" / "pocket"
CONFIG = json.loads((POCKET / "config.json").read_text())
REAL_PAGE = Path(__file__).parents[1] / "metering" / "vllm-0.32.prom"
NO_CARDS = Inventory((), "nothing", "no cards")


def launch(context_tokens: int = 512, **settings: Any) -> Launch:
    made = EngineSettings.model_validate(settings)
    device = "cpu" if made.device == "auto" else made.device
    parsers = Parsers(None, None)
    size = (POCKET / "model.safetensors").stat().st_size
    return Launch(
        "m", POCKET, context_tokens, made, device, parsers, weights_bytes=size, config=CONFIG
    )


def estimate(**settings: Any) -> CacheSize:
    found = estimated_cache(launch(**settings), NO_CARDS)
    assert found is not None
    return found


def test_blocks_and_tokens_that_an_entry_gives_are_what_it_holds() -> None:
    """In the real engine, 32 blocks of 32 tokens are two sequences of 512."""
    wanted = CacheSize(1024, 512, 32, 32)
    assert estimate(kv_blocks=32) == estimate(kv_tokens=1024) == wanted
    assert estimate(context_tokens=500, kv_blocks=32).tokens == 1000, "blocks are whole"


def test_on_the_cpu_the_rest_is_the_memory_that_is_set_aside() -> None:
    """The memory is one GiB or the value in the entry's environment; vLLM counted 8,192 blocks for
    the pocket model."""
    assert estimate().blocks == 8192
    assert estimate(environment={"VLLM_CPU_KVCACHE_SPACE": "2"}).blocks == 16384
    block = kv_need(CONFIG, block_tokens=32).block_bytes
    assert 8192 * block == 1 << 30


@pytest.mark.parametrize(
    "settings",
    [
        {"server": "llama.cpp"},
        {"args": {"block-size": 64}},
        {"dtype": "float32"},
        {"environment": {"VLLM_CPU_KVCACHE_SPACE": "much"}},
        {"server": "sglang"},
        {"device": "cuda"},
    ],
    ids=str,
)
def test_what_cannot_be_told_before_is_not_told(settings: dict[str, Any]) -> None:
    """Examples are other servers' own sizes, sizes in `args` and an unknown GPU."""
    assert estimated_cache(launch(**settings), NO_CARDS) is None


def test_an_upper_bound_of_the_need_is_no_estimate_of_the_cache() -> None:
    """With sliding windows, an engine holds more tokens than the bound says."""
    card = Inventory((Gpu(index=0, memory_mb=8192),), "a list", "")
    for made in (launch(kv_blocks=32), launch(device="cuda")):
        assert estimated_cache(made, card) is not None
        windows = replace(made, config={**CONFIG, "attention_chunk_size": 64})
        assert estimated_cache(windows, card) is None


def test_on_a_gpu_it_is_what_remains_of_the_card() -> None:
    card = Gpu(index=0, memory_mb=8192)
    found = estimated_cache(launch(device="cuda"), Inventory((card,), "a list", ""))
    assert found is not None and found.blocks
    assert (found.block_tokens, found.tokens) == (16, found.blocks * 16)


class Metrics(BaseHTTPRequestHandler):
    """Handler of an engine's pages."""

    pages: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        body = self.pages.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


LISTED = json.dumps({"data": [{"id": "m", "max_model_len": 512}]})
SGLANG = "sglang:max_total_num_tokens 4096.0\nsglang:page_size 64.0\n"


@pytest.mark.parametrize(
    ("pages", "wanted"),
    [
        (
            {"/metrics": REAL_PAGE.read_text(), "/v1/models": LISTED},
            CacheSize(1024, 512, 32, 32),
        ),
        ({"/metrics": SGLANG, "/v1/models": LISTED}, CacheSize(4096, 512, 64, 64)),
        ({"/metrics": SGLANG, "/v1/models": '{"data": []}'}, CacheSize(4096, None, 64, 64)),
        ({"/metrics": "llamacpp:kv 1\n", "/v1/models": LISTED}, None),
        ({"/metrics": SGLANG, "/v1/models": "no JSON"}, None),
        ({"/metrics": "sglang:page_size many\n", "/v1/models": LISTED}, None),
        ({}, None),
    ],
)
def test_what_servers_report(server: str, pages: dict[str, str], wanted: CacheSize | None) -> None:
    """The pages are vLLM 0.32's own, one with SGLang's names, and pages without cache figures."""
    Metrics.pages = pages
    assert reported_cache(server) == wanted


def test_a_server_that_is_gone_reports_nothing() -> None:
    assert reported_cache("http://127.0.0.1:9") is None


@pytest.mark.parametrize(
    ("estimated", "reported", "text"),
    [
        (None, None, ""),
        (1024, None, "KV cache: estimated 1,024 tokens"),
        (None, 1024, "KV cache: engine reported 1,024 tokens"),
        (1024, 1024, "KV cache: estimated 1,024 tokens, engine reported 1,024"),
        (1000, 1090, "KV cache: estimated 1,000 tokens, engine reported 1,090"),
        (
            1000,
            800,
            "KV cache: estimated 1,000 tokens, engine reported 800, 20% less than estimated",
        ),
        (
            1000,
            1500,
            "KV cache: estimated 1,000 tokens, engine reported 1,500, 50% more than estimated",
        ),
    ],
)
def test_both_are_said_and_a_large_difference_is_remarked_upon(
    estimated: int | None, reported: int | None, text: str
) -> None:
    sizes = [tokens and CacheSize(tokens, 512) for tokens in (estimated, reported)]
    record = CacheRecord(*sizes)  # type: ignore[arg-type]
    assert record.text == text
    assert bool(record.remark) == ("than" in text)


def test_an_engine_that_runs_keeps_both_in_its_artifact(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values are stored beside the artifact's inputs, which stay; the next start replaces the
    values."""
    python = tmp_path / "python"
    double = shlex.join([sys.executable, "-m", "tests.serving.vllm_double"])
    python.write_text(f'#!/bin/sh\nexec {double} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(python))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    entry: dict[str, Any] = {"provider": "vllm", "checkpoint": POCKET, "context_tokens": 512}
    entry |= {"engine": {"kv_blocks": 32, "device": "cpu"}}
    engine = Engine("pocket", Model.model_validate(entry), catalog)
    assert known_cache(catalog, engine.engine_id) == CacheRecord(), "it has not run"
    with engine:
        wanted = CacheRecord(CacheSize(1024, 512, 32, 32), CacheSize(1600, 512, 100, 16))
        assert engine.cache == known_cache(catalog, engine.engine_id) == wanted
    artifact = catalog.artifact(engine.engine_id)
    assert artifact is not None and artifact["detail"]["server"] == "vllm"
    assert artifact["detail"]["cache"].keys() == {"host", "at", "estimated", "reported"}
    keep_cache(catalog, engine.engine_id, CacheRecord(None, CacheSize(7, 512)))
    assert engine.cache == CacheRecord(None, CacheSize(7, 512))
    assert Engine("pocket", engine.model, catalog).engine_id == engine.engine_id
    assert engine.cache.reported == CacheSize(7, 512), "entering it again changes nothing"


def machine(count: int) -> Inventory:
    host = socket.gethostname()
    gpus = tuple(Gpu(host=host, index=n, uuid=f"GPU-{n:02d}") for n in range(count))
    return Inventory(gpus, "gpus.yaml", "" if count else "gpus.yaml lists none")


def test_named_cards_are_kept_free_for_those_that_name_them() -> None:
    """The setting is ToolOrchestra's: a measured model on one GPU, an expert on four."""
    asked: list[tuple[str, WantedGpus]] = [("policy", 1), ("expert", (0, 1, 2, 3))]
    policy, expert = place([*asked, ("api", None)], machine(8))[:2]
    assert policy.text == "policy on GPU 4"
    assert expert.text == "expert on GPU 0, 1, 2, 3"


@pytest.mark.parametrize(
    ("asked", "cards", "told"),
    [
        ([1, 4], 4, "5 GPUs are needed at the same time (m0 1 + m1 4) and this machine has 4"),
        ([1], 0, "this machine has none (gpus.yaml lists none)"),
        (
            [(0,), ("GPU-00",)],
            2,
            "models.m1.engine.gpus: another engine that runs at the same time is on GPU 0",
        ),
        ([("GPU-9",)], 2, "models.m0.engine.gpus: no gpu 'GPU-9'; this machine has 2"),
        ([("GPU-",)], 2, "models.m0.engine.gpus: 'GPU-' begins the uuid of 2 GPUs"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_arithmetic(
    asked: list[WantedGpus], cards: int, told: str
) -> None:
    engines = [(f"m{n}", gpus) for n, gpus in enumerate(asked)]
    with pytest.raises(RegistryError) as refusal:
        place(engines, machine(cards))
    assert told in str(refusal.value)


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 12))
def test_each_gets_its_number_and_no_card_is_given_twice(asked: list[int], cards: int) -> None:
    engines = [(f"m{n}", count) for n, count in enumerate(asked)]
    if sum(asked) > cards:
        with pytest.raises(RegistryError):
            place(engines, machine(cards))
        return
    places = place(engines, machine(cards))
    assert [len(each.gpus) for each in places] == asked
    taken = [gpu.index for each in places for gpu in each.gpus]
    assert len(set(taken)) == len(taken)
