"""Tests of registry entries of real models for GPUs, without a GPU: their commands, and where they
fit.

The configurations are facts of the models' own config.json; each file names its source.
"""

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutti.storage import Home
from tutti.tasks.platform.gpus import Gpu, Inventory
from tutti.tasks.platform.project import POCKET, models_python_path
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.engines.checking import OF_OTHER_DEVICE, check_launches
from tutti.tasks.serving.engines.commands import Build, Source, build_of, launch_of
from tutti.tasks.serving.engines.fitting import fit_of, refuse_what_does_not_fit
from tutti.tasks.serving.engines.flags import Launch
from tutti.tasks.serving.registry import Model

CONFIGS = Path(__file__).parents[1] / "weights" / "configs"
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
SPECULATIVE = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
UNKNOWN = Build(Path("/env/bin/python"), {}, None)
CARD_MB = 81559
"""An H100 of 80 GB, as nvidia-smi says."""

BITS = {"bfloat16": 16.0, "fp8": 8.0, "mxfp4": 4.25, "awq": 4.16}
"""Of a parameter, with its part of the scales."""

# Parameters in billions and dtype of the weights, as the models' pages say; then the entry.
MODELS: dict[str, tuple[float, str, dict[str, Any]]] = {
    "qwen3-1.7b": (2.03, "bfloat16", {"gpus": 1}),
    "qwen3-8b": (8.19, "bfloat16", {"gpus": 1, "speculative": SPECULATIVE}),
    "qwen3-30b-a3b": (30.5, "bfloat16", {"gpus": 1, "max_sequences": 64}),
    "qwen3-32b": (32.8, "bfloat16", {"gpus": 1, "kv_cache_dtype": "fp8"}),
    "qwen3-32b-awq": (32.8, "awq", {"gpus": 4, "kv_tokens": 65536}),
    "qwen3-235b-a22b-fp8": (235.0, "fp8", {"gpus": 4, "memory_share": 0.9}),
    "qwen3-embedding-0.6b": (0.6, "bfloat16", {"gpus": 1, "args": {"runner": "pooling"}}),
    "llama-3.1-8b": (8.03, "bfloat16", {"gpus": 1, "lora": True}),
    "llama-3.3-70b-fp8": (70.6, "fp8", {"gpus": 4, "kv_offload_gb": 64}),
    "gpt-oss-120b": (117.0, "mxfp4", {"gpus": 2}),
    "mistral-small-devstral": (23.6, "bfloat16", {"gpus": 1, "sleep": True}),
    "nemotron-3-nano-30b": (31.6, "bfloat16", {"gpus": 1, "reasoning_parser": "none"}),
    "deepseek-v3.2": (671.0, "fp8", {"gpus": 8}),
    "deepseek-v3": (671.0, "fp8", {"gpus": 8, "pipeline_parallel": 2}),
}
COMPLETED: dict[str, dict[str, Any]] = {
    "qwen3-32b-awq": {"quantization_config": AWQ},
    "qwen3-235b-a22b-fp8": {"quantization_config": FP8},
    "deepseek-v3": {"quantization_config": FP8},
    "deepseek-v3.2": {"index_topk": 2048, "quantization_config": FP8},
}
"""What the facts leave out, since no size follows from it, and vLLM's configuration asks for."""
NO_TOOLS = ("qwen3-embedding-0.6b",)


def launch(name: str, folder: Path, build: Build, home: Home) -> Launch:
    params, dtype, engine = MODELS[name]
    facts = json.loads((CONFIGS / f"{name}.json").read_text())
    size = round(params * 1e9 * BITS[dtype] / 8)
    entry = {"provider": "vllm", "checkpoint": folder, "context_tokens": 8192}
    entry |= {"engine": {"device": "cuda", **engine}, "tools": name not in NO_TOOLS}
    source = Source(folder, facts["model"], facts["config"], size)
    return launch_of(name, Model.model_validate(entry), source, build, home)


def machine(cards: int) -> Inventory:
    host = socket.gethostname()
    gpus = [Gpu(host=host, index=n, uuid=f"GPU-{n}", memory_mb=CARD_MB) for n in range(cards)]
    return Inventory(tuple(gpus), "a list")


@pytest.mark.parametrize("cards", [1, 4, 8])
def test_they_fit_or_are_refused_with_the_arithmetic(cards: int, tmp_path: Path) -> None:
    """On 1, 4 and 8 GPUs all fit but DeepSeek's 671 GB, which exceed eight GPUs of 80 GB."""
    launches = [launch(name, tmp_path, UNKNOWN, Home(tmp_path)) for name in MODELS]
    small = [each for each in launches if each.settings.parallel <= cards]
    fits = {each.name: fit_of(each, machine(cards)) for each in small}
    assert {name for name, fit in fits.items() if fit is not None and not fit.fits} == {
        name for name in fits if name.startswith("deepseek")
    }
    for name, fit in fits.items():
        assert fit is not None and fit.text.removeprefix("does not fit: ").startswith("weights"), (
            name
        )
    if cards == 8:
        with pytest.raises(RegistryError) as refusal:
            refuse_what_does_not_fit(small, machine(cards))
        lines = str(refusal.value).splitlines()
        assert [line.split(":")[0] for line in lines] == [
            "models.deepseek-v3.2",
            "models.deepseek-v3",
        ]


def test_an_entry_on_too_few_cards_is_told_how_many_it_takes(tmp_path: Path) -> None:
    """The model is Llama 3.3 70B in 8 bits on one GPU of 80 GB; nothing is loaded for the check."""
    whole = launch("llama-3.3-70b-fp8", tmp_path, UNKNOWN, Home(tmp_path))
    settings = whole.settings.model_copy(update={"gpus": 1})
    alone = replace(whole, settings=settings, context_tokens=131072)
    fit = fit_of(alone, machine(1))
    assert fit is not None and not fit.fits
    assert "tensor_parallel: 2" in fit.text, fit.text


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_vllm_takes_the_command_of_each(tmp_path: Path) -> None:
    """vLLM's parser, parser registry and configuration are used; what a CPU build cannot check is
    named. The test is skipped without vLLM."""
    real = build_of(models_python_path())
    if "vllm" not in real.servers or not (POCKET / "tokenizer.json").is_file():
        pytest.skip("needs the models environment with vLLM, and the pocket model's tokenizer")
    home, launches = Home(tmp_path / "home"), []
    for name in MODELS:
        folder = tmp_path / name
        folder.mkdir()
        made = launch(name, folder, real, home)
        whole = {**made.config, **COMPLETED.get(name, {})}
        (folder / "config.json").write_text(json.dumps(whole))
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(POCKET / file, folder / file)
        launches.append(made)
    verdicts = check_launches(launches, real, home)
    assert {each.name: each.error for each in verdicts} == dict.fromkeys(MODELS)
    assert {each.unchecked for each in verdicts} == {(OF_OTHER_DEVICE,)}
