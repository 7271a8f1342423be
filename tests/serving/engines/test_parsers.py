"""The table of parsers: what vLLM's recipes name is what an entry gets that names none."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.project import PROJECT
from tutti.tasks.serving.engines.launch import parsers_of
from tutti.tasks.serving.registry.settings import EngineSettings

DATA = Path(os.environ.get("TUTTI_TEST_DATA", PROJECT.parent / "shared" / "data"))
PLUGINS = {"nano_v3", "nemotron_json"}
"""Files in checkpoints, which a table cannot name."""
MISSING_IN_RECIPES = {"openai/gpt-oss-120b", "openai/gpt-oss-20b"}
"""Their recipes leave the reasoning parser to vLLM, which takes openai_gptoss."""


def test_each_model_of_the_recipes_gets_its_recipes_parsers() -> None:
    """132 models. Skips where the facts are absent."""
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
    """Llama's kind alone says nothing: three formats of calls go by it."""
    settings = EngineSettings.model_validate({"server": server})
    found = parsers_of(settings, name, {"model_type": kind})
    assert (found.tools, found.reasoning) == (tools, reasoning)


def test_an_entry_overrides_the_table_and_can_say_none() -> None:
    """Each of the two by itself."""
    settings = EngineSettings(tool_parser="pythonic", reasoning_parser="none")
    found = parsers_of(settings, "Qwen/Qwen3-8B", {})
    assert (found.tools, found.reasoning, found.why) == ("pythonic", None, "the entry")
