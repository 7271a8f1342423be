"""The load bench's peers on the same mock: how each is run and how its records are read.

`vllm bench serve` comes with the models' environment, AIPerf and GuideLLM from the package registry
into environments of their own (`bench.scheduling.peers`). Each is asked for a closed loop of
streams with its defaults, and writes a record a call; the rule that judges them is ours
(`bench.load.calls`). A peer that cannot be had, or ends badly, is a PeerMissing.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.load.calls import Call
from bench.load.wire import CHUNKS, DELAY_S, PROMPT
from bench.scheduling.peers import PeerMissing, Peers
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.engines import models_python
from tutti.tasks.serving.processes import ModelsEnvironmentMissing

START_S = 240.0
"""Time for a peer to load its packages and write its results."""
NS, MS = 1e-9, 1e-3


@dataclass(frozen=True)
class Job:
    """A peer's load."""

    url: str
    sessions: int
    seconds: float
    folder: Path
    """An empty folder for its input and output."""

    @property
    def calls(self) -> int:
        """The number of calls that a perfect generator makes in that time."""
        return round(self.sessions / DELAY_S * self.seconds)


def vllm_bench_serve(job: Job, peers: Peers) -> list[Call]:
    """vLLM's own. Raises PeerMissing."""
    try:
        python = models_python()
    except ModelsEnvironmentMissing as error:
        raise PeerMissing(str(error)) from error
    options = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
    options += ["--base-url", job.url, "--model", "mock", "--skip-tokenizer-init"]
    options += ["--num-prompts", str(job.calls), "--max-concurrency", str(job.sessions)]
    options += ["--dataset-name", "custom", "--disable-tqdm"]
    options += ["--save-result", "--save-detailed", "--result-filename", "result.json"]
    # Not as a file: beside it lies a `statistics` that is not the standard library's.
    command = [str(python), "-P", "-m", "bench.load.vllm", PROMPT, str(CHUNKS), *options]
    _run(job, command, {"PYTHONPATH": str(PROJECT)})
    said = orjson.loads((job.folder / "result.json").read_bytes())
    each = zip(said["start_times"], said["ttfts"], said["latencies"], strict=True)
    return [Call(start, start, start + ttft, start + took) for start, ttft, took in each]


def aiperf(job: Job, peers: Peers) -> list[Call]:
    """NVIDIA's AIPerf. Raises PeerMissing."""
    program = peers.aiperf()
    _write_lines(job.folder / "prompts.jsonl", {"text": PROMPT}, job.sessions)
    _write_tokenizer(job.folder / "tokenizer")
    options = ["--model", "mock", "--url", job.url, "--endpoint-type", "chat", "--streaming"]
    options += ["--concurrency", str(job.sessions), "--benchmark-duration", str(job.seconds)]
    options += ["--input-file", "prompts.jsonl", "--custom-dataset-type", "single-turn"]
    options += ["--extra-inputs", f"max_tokens:{CHUNKS}", "--artifact-dir", "out"]
    options += ["--tokenizer", str(job.folder / "tokenizer"), "--use-server-token-count"]
    options += ["--ui-type", "none", "--no-gpu-telemetry", "--no-server-metrics"]
    _run(job, [str(program), "profile", *options])

    def calls() -> Iterator[Call]:
        for line in (job.folder / "out" / "profile_export.jsonl").read_bytes().splitlines():
            record = orjson.loads(line)
            about, metrics = record["metadata"], record["metrics"]
            if "time_to_first_token" not in metrics:
                continue  # cut off at the end
            sent = about["request_start_ns"] * NS
            first = sent + metrics["time_to_first_token"]["value"] * MS
            yield Call(sent, sent, first, about["request_end_ns"] * NS)

    return list(calls())


def guidellm(job: Job, peers: Peers) -> list[Call]:
    """GuideLLM. Raises PeerMissing."""
    program = peers.guidellm()
    line = {"prompt": PROMPT, "output_tokens": CHUNKS}
    _write_lines(job.folder / "prompts.json", line, job.calls)
    options = ["--backend", f"kind=openai_http,target={job.url},model=mock,max_tokens={CHUNKS}"]
    options += ["--profile", f"kind=concurrent,streams={job.sessions}"]
    options += ["--constraint", f"kind=max_duration,seconds={job.seconds}"]
    options += ["--data", "kind=json_file,path=prompts.json"]
    options += ["--output", "kind=json,path=result.json", "--disable-console"]
    _run(job, [str(program), "run", *options], {"HF_HUB_OFFLINE": "1"})
    (said,) = orjson.loads((job.folder / "result.json").read_bytes())["benchmarks"]

    def calls() -> Iterator[Call]:
        for record in said["requests"]["successful"]:
            sent = record["request_start_time"]
            first = sent + record["time_to_first_token_ms"] * MS
            yield Call(sent, sent, first, record["request_end_time"])

    return list(calls())


PEERS: Mapping[str, Callable[[Job, Peers], list[Call]]] = {
    "vllm_bench_serve": vllm_bench_serve,
    "aiperf": aiperf,
    "guidellm": guidellm,
}


def _write_lines(path: Path, line: Mapping[str, Any], count: int) -> None:
    path.write_bytes((orjson.dumps(line) + b"\n") * count)


def _write_tokenizer(folder: Path) -> None:
    """Write a tokenizer: AIPerf loads one though it does not count with it; any other would have to
    be downloaded."""
    folder.mkdir()
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "word": 1}, "unk_token": "[UNK]"}
    empty = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    split = {"type": "Whitespace"}
    tokenizer: dict[str, Any] = dict.fromkeys(empty) | {"version": "1.0", "added_tokens": []}
    tokenizer |= {"pre_tokenizer": split, "model": model}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


def _run(job: Job, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run to the end in the job's folder. Raises PeerMissing."""
    name = Path(command[0]).name
    with subprocess.Popen(
        command,
        cwd=job.folder,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as ran:
        try:
            told, _ = ran.communicate(timeout=START_S + 4 * job.seconds)
        except subprocess.TimeoutExpired:
            raise PeerMissing(f"{name} took too long") from None
        finally:
            if ran.poll() is None:
                os.killpg(ran.pid, signal.SIGKILL)  # with its child processes
    if ran.returncode:
        raise PeerMissing(f"{name} ended with {ran.returncode}: {told.strip()[-300:]}")
