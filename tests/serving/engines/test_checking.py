"""Tests that commands are checked by the servers' own code before anything starts, each once."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.serving.engines.test_commands import model
from tutti.storage import Home
from tutti.tasks.platform.project import POCKET, models_python_path
from tutti.tasks.serving import RegistryError, ServingError
from tutti.tasks.serving.engines.checking import (
    OF_OTHER_DEVICE,
    check_launches,
    needs_check,
    refuse_wrong_commands,
)
from tutti.tasks.serving.engines.commands import Build, Source, build_of, launch_of
from tutti.tasks.serving.engines.flags import VARIABLE, Launch
from tutti.tasks.serving.registry import Model

JUDGE = """
import json, sys
orders = json.load(sys.stdin)
with open({log!r}, "a") as log:
    print(len(orders), file=log)
for order in orders:
    wrong = "no such flag" if "--max-nonsense" in order["arguments"] else None
    print(json.dumps({{"name": order["name"], "stage": "flags", "error": wrong}}))
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "gpus.yaml").write_text("gpus: []\n")
    return Home(tmp_path)


def a_build(tmp_path: Path, judge: str) -> Build:
    """Return an environment whose Python runs `judge` for any script."""
    script = tmp_path / "judge.py"
    script.write_text(judge)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, str(script)])}\n")
    python.chmod(0o755)
    return Build(python, {"vllm": "0.32.0"}, "cuda")


def launched(name: str, given: Model, build: Build, home: Home) -> Launch:
    source = Source(Path("/w/Qwen3-8B"), "Qwen3-8B", {"max_position_embeddings": 40960})
    return launch_of(name, given, source, build, home)


def test_all_of_a_server_are_checked_in_one_process_and_those_that_passed_once(
    home: Home, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    build = a_build(tmp_path, JUDGE.format(log=str(log)))
    wrong = model(gpus=1, args={"max-nonsense": 1})
    launches = [
        launched("good", model(gpus=1), build, home),
        launched("wrong", wrong, build, home),
        launched("fp8", model(gpus=1, kv_cache_dtype="fp8"), build, home),
    ]
    for _ in range(2):
        verdicts = check_launches(launches, build, home)
        assert [each.error for each in verdicts] == [None, "no such flag", None]
    assert log.read_text().split() == ["3", "1"]
    with pytest.raises(RegistryError) as refusal:
        refuse_wrong_commands(launches, build, home)
    assert str(refusal.value) == "models.wrong.engine: no such flag"
    other = launched("good", model(gpus=1, context=4096), build, home)
    assert check_launches([other], build, home)[0].error is None
    assert log.read_text().split() == ["3", "1", "1", "1"], "another command is checked anew"


def test_a_check_that_breaks_is_no_pass(home: Home, tmp_path: Path) -> None:
    build = a_build(tmp_path, "import sys; print('no module vllm', file=sys.stderr); sys.exit(1)")
    with pytest.raises(ServingError, match="could not check its commands:\nno module vllm"):
        check_launches([launched("m", model(gpus=1), build, home)], build, home)


def test_what_another_device_decides_is_named_as_unchecked(home: Home, tmp_path: Path) -> None:
    """A CPU build parses the flags of a GPU's engine but does not know its kernels."""
    build = replace(a_build(tmp_path, JUDGE.format(log=str(tmp_path / "log"))), device="cpu")
    launch = launched("m", model(), build, home)
    on_gpu = replace(launch, device="cuda")
    assert check_launches([launch], build, home)[0].unchecked == ()
    unknown = replace(build, device=None)
    assert check_launches([on_gpu], unknown, home)[0].unchecked == (OF_OTHER_DEVICE,)


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({"kv_blocks": 32, "lora": True}, False),
        ({"kv_tokens": 4096, "start_timeout_s": 9}, False),
        ({"max_sequences": 8192, "max_batched_tokens": 64}, False),
        ({"max_sequences": 8193, "max_batched_tokens": 64}, True),
        ({"args": {"seed": 1}}, True),
        ({"tool_parser": "hermes"}, True),
        ({"device": "cuda"}, True),
    ],
)
def test_sizes_on_the_cpu_are_compared_without_vllm(
    given: dict[str, Any], needed: bool, home: Home
) -> None:
    """The first run of the small model therefore does not wait; a context above the model's is
    refused by vLLM."""
    build = Build(Path("/x/python"), {}, None)
    assert needs_check(launched("m", model(**given), build, home)) is needed
    assert needs_check(launched("m", model(context=50000), build, home))


def test_llama_cpps_flags_are_those_of_its_help(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = tmp_path / "llama-server"
    flags = "model alias host metrics jinja kv-unified slot-save-path ctx-size parallel threads"
    told = " ".join(f"--{flag}" for flag in (*flags.split(), "n-gpu-layers", "no-webui"))
    server.write_text(f"#!/bin/sh\necho '{told}, x'\n")
    server.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(server))
    build = Build(tmp_path / "python", {}, "cpu")
    good = launched("m", model(server="llama.cpp", device="cpu"), build, home)
    assert check_launches([good], build, home)[0].error is None
    given = model(server="llama.cpp", device="cpu", args={"draft-max": 3})
    (verdict,) = check_launches([launched("m", given, build, home)], build, home)
    assert verdict.error is not None and verdict.error.startswith("--draft-max: no flag of")
    long = launched("m", model(50000, server="llama.cpp", device="cpu"), build, home)
    (verdict,) = check_launches([long], build, home)
    assert verdict.error == "context_tokens: 50000, and the model was made for 40960; lower it"
    server.write_text(f"#!/bin/sh\necho '{told}, --rope-scaling x'\n")
    given = model(50000, server="llama.cpp", device="cpu", args={"rope-scaling": "yarn"})
    (verdict,) = check_launches([launched("m", given, build, home)], build, home)
    assert verdict.error is None, "who stretches the positions knows"


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"args": {"max-nonsense": 5}}, "unrecognized arguments: --max-nonsense"),
    "abbreviated": ({"args": {"max-log": 5}}, "unrecognized arguments: --max-log"),
    "value": ({"args": {"max-logprobs": "many"}}, "--max-logprobs: invalid"),
    "dtype": ({"dtype": "bfloat17"}, "--dtype: invalid choice"),
    "tool parser": ({"tool_parser": "hermès"}, "invalid tool call parser: hermès"),
    "reasoning parser": ({"reasoning_parser": "nope"}, "Reasoning parser 'nope' not found"),
    "plugin": ({"args": {"tool-parser-plugin": "/no.py"}}, "--tool-parser-plugin: no file"),
    "plugin without it": (
        {"tool_parser": "mine", "args": {"tool-parser-plugin": __file__}},
        "invalid tool call parser: mine",
    ),
    "context": ({"context": 4096}, "(4096) is greater than the derived max_model_len"),
    "batch": ({"max_sequences": 4096}, "greater than or equal to max_num_seqs (4096)"),
    "heads": ({"args": {"tensor-parallel-size": 3}}, "must be divisible by tensor parallel"),
    "template": ({"chat_template": "/no/such.jinja"}, "chat template"),
}


@pytest.mark.e2e
def test_real_vllm_refuses_each_fault_and_takes_the_pocket(tmp_path: Path) -> None:
    """All run in one process, in the time of its imports. The test is skipped without vLLM."""
    build = build_of(models_python_path())
    if "vllm" not in build.servers or not (POCKET / "config.json").is_file():
        pytest.skip("needs the models environment with vLLM, and the pocket model")
    home, config = Home(tmp_path), json.loads((POCKET / "config.json").read_text())
    source = Source(POCKET, "pocket", config)
    given = {name: dict(fields) for name, (fields, _) in FAULTS.items()} | {"good": {}}
    contexts = {name: fields.pop("context", 512) for name, fields in given.items()}
    launches = [
        launch_of(name, model(contexts[name], kv_blocks=32, **fields), source, build, home)
        for name, fields in given.items()
    ]
    verdicts = {each.name: each.error for each in check_launches(launches, build, home)}
    assert verdicts.pop("good") is None
    for name, (_, told) in FAULTS.items():
        assert told in str(verdicts[name]), name
