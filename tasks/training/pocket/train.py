"""Train the pocket model from scratch by SFT on oracle trajectories, in the models environment.

In: ``--corpus`` (documents, JSONL), ``--trajectories`` (gated oracle conversations, JSONL).
Out: ``--out`` with weights (bf16), tokenizer and ``training.json`` (steps, tokens, losses, time).
Run: ``python -m tutti.tasks.training.pocket.train --help``.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import queue
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tutti.tasks.agents import TOOL_SCHEMAS
from tutti.tasks.retrieval import Document
from tutti.tasks.training.pocket.shadow import shadow_conversations
from tutti.tasks.training.pocket.tokenizer import train_tokenizer

Sample = tuple[list[int], list[bool]]
BATCHES_PER_POOL = 16  # samples are sorted by length within a pool, so batches carry little padding
FEEDER_TIMEOUT_S = 120.0
SAVE_EVERY = 200  # steps: at most about three minutes of work are lost


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters that determine the weights, besides the data."""

    steps: int = 2600
    tokens_per_batch: int = 8192
    real_share: float = 0.25
    """Share of samples from the gated trajectories; the rest are shadow worlds."""
    prompt_loss_weight: float = 0.2
    """Weight of tokens that the model does not write: an early signal that helps it learn to
    copy."""
    prompt_loss_share: float = 0.1
    """Share of those tokens in the loss; the softmax over all of them would halve the speed."""
    muon_lr: float = 0.02
    adamw_lr: float = 3e-3
    weight_decay: float = 0.01
    warmup: int = 100
    final_lr_share: float = 0.03
    seed: int = 0
    hidden: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 64
    intermediate: int = 640
    compile: int = 1
    """1: compile the decoder (45 s once, then 1.8 times as fast on a CPU); needs a C++ compiler."""


def build_model(recipe: Recipe, vocabulary: int, eos: int, pad: int) -> Any:
    """A Qwen3 decoder with random weights, embeddings tied."""
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.kv_heads,
        head_dim=recipe.head_dim,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=eos,
        bos_token_id=None,
        pad_token_id=pad,
        use_cache=False,
    )
    return Qwen3ForCausalLM(config)


def encode(tokenizer: Any, messages: list[dict[str, Any]]) -> Sample:
    """Token ids of a conversation, and a mask of those that the model has to write itself."""
    text = tokenizer.apply_chat_template(messages, tools=TOOL_SCHEMAS, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    header = tokenizer("assistant\n", add_special_tokens=False)["input_ids"]
    mask = [False] * len(ids)
    position = 0
    while position < len(ids):
        if ids[position] != start or ids[position + 1 : position + 1 + len(header)] != header:
            position += 1
            continue
        first = position + 1 + len(header)
        position = _after_next(ids, end, first)
        mask[first:position] = [True] * (position - first)
    return ids, mask


def _after_next(ids: list[int], token: int, start: int) -> int:
    """The position after the next `token` from `start` on; the end if there is none."""
    try:
        return ids.index(token, start) + 1
    except ValueError:
        return len(ids)


def batches(samples: Iterator[Sample], recipe: Recipe, rng: Random) -> Iterator[list[Sample]]:
    """Endless batches of similar lengths, at most `tokens_per_batch` tokens with padding."""
    while True:
        pool: list[Sample] = []
        tokens = 0
        while tokens < recipe.tokens_per_batch * BATCHES_PER_POOL:
            pool.append(next(samples))
            tokens += len(pool[-1][0])
        pool.sort(key=lambda sample: len(sample[0]))
        made: list[list[Sample]] = [[]]
        for sample in pool:
            if len(sample[0]) * (len(made[-1]) + 1) > recipe.tokens_per_batch:
                made.append([])
            made[-1].append(sample)
        rng.shuffle(made)
        yield from made


def feed(
    out: Any, tokenizer_dir: str, corpus: str, trajectories: str, recipe: Recipe, first_step: int
) -> None:
    """The feeder process: put batches as (ids, mask) lists into the queue `out`, forever."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    seed = recipe.seed + first_step  # a resumed training must not see the same worlds again
    rng = Random(seed)
    documents = read_documents(Path(corpus))
    real = read_conversations(Path(trajectories))
    shadow = shadow_conversations(documents, seed)

    def samples() -> Iterator[Sample]:
        while True:
            use_real = real and rng.random() < recipe.real_share
            yield encode(tokenizer, rng.choice(real) if use_real else next(shadow))

    for batch in batches(samples(), recipe, rng):
        out.put(batch)


def read_documents(path: Path) -> list[Document]:
    """Documents from JSONL, one per line."""
    return [Document.from_row(json.loads(line)) for line in path.read_text().splitlines()]


def read_conversations(path: Path) -> list[list[dict[str, Any]]]:
    """Conversations from JSONL, ``{"messages": [...]}`` per line."""
    return [json.loads(line)["messages"] for line in path.read_text().splitlines()]


def collate(batch: list[Sample], pad: int, recipe: Recipe) -> tuple[Any, Any, Any]:
    """(ids [B, T], targets [B, T], weights [B, T]); padding and the first token weigh nothing."""
    width = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), width), pad)
    weights = torch.zeros(len(batch), width)
    for row, (sample, mask) in enumerate(batch):
        ids[row, : len(sample)] = torch.tensor(sample)
        prompt = (torch.rand(len(sample)) < recipe.prompt_loss_share) * recipe.prompt_loss_weight
        weights[row, : len(sample)] = torch.where(torch.tensor(mask), 1.0, prompt)
    targets = torch.cat([ids[:, 1:], torch.full((len(batch), 1), pad)], 1)
    weights = torch.cat([weights[:, 1:], torch.zeros(len(batch), 1)], 1)
    return ids, targets, weights


def optimizers_for(model: Any, recipe: Recipe) -> list[Any]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return [
        torch.optim.Muon(
            matrices, lr=recipe.muon_lr, weight_decay=recipe.weight_decay, momentum=0.95
        ),
        torch.optim.AdamW(others, lr=recipe.adamw_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def lr_share(step: int, recipe: Recipe) -> float:
    """Linear warm-up, then cosine down to `final_lr_share`."""
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    progress = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return recipe.final_lr_share + (1 - recipe.final_lr_share) * cosine


def loss_of(model: Any, ids: Any, targets: Any, weights: Any) -> tuple[Any, float]:
    """Weighted mean cross-entropy, and the share of written tokens predicted exactly."""
    hidden = model.model(input_ids=ids, attention_mask=None).last_hidden_state
    counted = weights.flatten() > 0
    logits = model.lm_head(hidden.flatten(0, 1)[counted])
    wanted, weight = targets.flatten()[counted], weights.flatten()[counted]
    losses = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="none")
    written = weight >= 1.0
    hits = (logits[written].argmax(-1) == wanted[written]).float().mean().item()
    return (losses * weight).sum() / weight.sum(), hits


def save_state(state: Path, model: Any, optimizers: list[Any], progress: dict[str, Any]) -> None:
    """Write weights, optimizers and progress, whole or not at all."""
    temporary = state.with_suffix(".tmp")
    parts = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers]}
    torch.save(parts | {"progress": progress}, temporary)
    os.replace(temporary, state)


def load_state(state: Path | None, model: Any, optimizers: list[Any]) -> dict[str, Any]:
    """Restore what `save_state` wrote; without such a file, start at the beginning."""
    if state is None or not state.is_file():
        return {"step": 0, "tokens": 0, "seconds": 0.0, "log": []}
    saved = torch.load(state)
    model.load_state_dict(saved["model"])
    for optimizer, kept in zip(optimizers, saved["optimizers"], strict=True):
        optimizer.load_state_dict(kept)
    progress: dict[str, Any] = saved["progress"]
    return progress


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not in this environment
def exact_share(model: Any, samples: list[Sample], pad: int) -> float:
    """Share of conversations in which every written token is the model's first choice."""
    if not samples:
        return float("nan")
    model.eval()
    exact = 0
    for first in range(0, len(samples), 24):
        batch = samples[first : first + 24]
        width = max(len(ids) for ids, _ in batch)
        ids = torch.tensor([sample + [pad] * (width - len(sample)) for sample, _ in batch])
        with torch.autocast(model.device.type, dtype=torch.bfloat16):
            choices = model(input_ids=ids.to(model.device)).logits.argmax(-1).cpu()
        for row, (sample, mask) in enumerate(batch):
            written = torch.tensor(mask)[1:]
            wanted = torch.tensor(sample)[1:]
            got = choices[row, : len(sample) - 1]
            exact += int((got[written] == wanted[written]).all())
    model.train()
    return exact / len(samples)


@dataclass(frozen=True)
class SampleSource:
    """The source of samples for `fit`."""

    stream: Any
    """The feeder's queue: one batch of samples per entry."""
    held_out: list[Sample]
    """Samples never trained on."""
    pad: int
    """The padding token."""


def fit(
    model: Any,
    samples: SampleSource,
    recipe: Recipe,
    report_every: int,
    state: Path | None,
) -> dict[str, Any]:
    """Run `recipe.steps` steps; returns tokens seen, seconds, and the log of losses.

    Progress is saved to `state` regularly; if that file exists, training resumes from it.
    """
    device = next(model.parameters()).device
    optimizers = optimizers_for(model, recipe)
    base = [group["lr"] for o in optimizers for group in o.param_groups]
    saved = load_state(state, model, optimizers)
    log: list[dict[str, float]] = saved["log"]
    tokens, started = saved["tokens"], time.monotonic() - saved["seconds"]
    model.train()
    if recipe.compile:
        model.model.compile(dynamic=True)
    for step in range(saved["step"], recipe.steps):
        drawn = samples.stream.get(timeout=FEEDER_TIMEOUT_S)
        ids, targets, weights = (part.to(device) for part in collate(drawn, samples.pad, recipe))
        share = lr_share(step, recipe)
        for group, lr in zip((g for o in optimizers for g in o.param_groups), base, strict=True):
            group["lr"] = lr * share
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss, accuracy = loss_of(model, ids, targets, weights)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        tokens += sum(len(sample) for sample, _ in drawn)
        if step % report_every == 0 or step == recipe.steps - 1:
            elapsed = time.monotonic() - started
            row = {"step": step, "tokens": tokens, "seconds": round(elapsed, 1)}
            row |= {"loss": round(loss.item(), 4), "token_accuracy": round(accuracy, 4)}
            if step % (report_every * 10) == 0 or step == recipe.steps - 1:
                row["held_out_exact"] = round(exact_share(model, samples.held_out, samples.pad), 4)
            log.append(row)
            print(json.dumps(row | {"tokens_per_s": int(tokens / elapsed)}), flush=True)
        if state is not None and (step + 1) % SAVE_EVERY == 0:
            elapsed = time.monotonic() - started
            done = {"step": step + 1, "tokens": tokens, "seconds": elapsed, "log": log}
            save_state(state, model, optimizers, done)
    return {"tokens": tokens, "seconds": time.monotonic() - started, "log": log}


def main() -> None:
    """Train and save; see ``--help``."""
    parser = argparse.ArgumentParser(description="Train the pocket model from scratch.")
    parser.add_argument("--corpus", required=True, help="training documents, JSONL")
    parser.add_argument("--trajectories", required=True, help="oracle conversations, JSONL")
    parser.add_argument("--held-out", required=True, help="conversations never trained on, JSONL")
    parser.add_argument("--out", required=True, help="folder for the checkpoint")
    parser.add_argument("--state", default="", help="file that lets a stopped training go on")
    parser.add_argument("--report-every", type=int, default=50, help="steps between log lines")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    given = vars(parser.parse_args())
    out = Path(given.pop("out"))
    corpus, trajectories = given.pop("corpus"), given.pop("trajectories")
    held_out = read_conversations(Path(given.pop("held_out")))
    report_every = given.pop("report_every")
    state = Path(given["state"]) if given["state"] else None
    del given["state"]
    recipe = Recipe(**given)

    torch.manual_seed(recipe.seed)
    out.mkdir(parents=True, exist_ok=True)
    documents = read_documents(Path(corpus))
    real = read_conversations(Path(trajectories))
    shadow = itertools.islice(shadow_conversations(documents, recipe.seed + 1), 4000)
    texts = [m["content"] for conversation in [*real, *shadow] for m in conversation]
    tokenizer = train_tokenizer([*texts, *(document.text for document in documents)])
    tokenizer.save_pretrained(out)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    model = build_model(recipe, len(tokenizer), eos, pad).to(device)
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"parameters": parameters, "vocabulary": len(tokenizer)}), flush=True)

    unseen = [encode(tokenizer, messages) for messages in held_out]
    context = multiprocessing.get_context("spawn")
    first_step = 0
    if state is not None and state.is_file():
        first_step = torch.load(state)["progress"]["step"]
    stream = context.Queue(maxsize=64)
    feeder = context.Process(
        target=feed, args=(stream, str(out), corpus, trajectories, recipe, first_step), daemon=True
    )
    feeder.start()
    try:
        result = fit(model, SampleSource(stream, unseen, pad), recipe, report_every, state)
    except queue.Empty:
        raise SystemExit("the feeder process gave no batch in time; its error is above") from None
    finally:
        feeder.terminate()
        feeder.join()
    model.to(torch.bfloat16).save_pretrained(out)
    record = {"recipe": asdict(recipe), "parameters": parameters, **result}
    (out / "training.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
