"""Training the pocket model from scratch by SFT on oracle trajectories, in the models environment.

In: ``--corpus`` (documents, JSONL), ``--trajectories`` (gated oracle conversations, JSONL). Out:
``--out`` with weights (bf16), tokenizer and ``training.json`` (steps, tokens, losses, time). Run:
``python -m tutti.tasks.training.pocket.train --help``.
"""

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Qwen3Config, Qwen3ForCausalLM

from tutti.tasks.agents.tools import TOOL_SCHEMAS
from tutti.tasks.retrieval import Document
from tutti.tasks.training.jobs.settings import OptimizerSettings
from tutti.tasks.training.pocket.shadow import shadow_conversations
from tutti.tasks.training.sets.sequences import NOT_TRAINED
from tutti.tasks.training.trainer.batching import row_groups
from tutti.tasks.training.trainer.rows import Row, conversation_rows

BATCHES_PER_POOL = 16  # samples are sorted by length within a pool, so batches carry little padding
BATCH_TIMEOUT_S = 120.0
SAVE_EVERY = 200  # steps: at most about three minutes of work are lost
VOCABULARY = 4096
MIN_FREQUENCY = 3
# Words of one case, digits one by one, everything else one character at a time.
PIECES = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]|[^A-Za-z0-9]"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SCAFFOLD = [
    "<tools>",
    "</tools>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    '{"name": "search", "arguments": {"query": "',
    '{"name": "python", "arguments": {"code": "',
    '"}}',
    "\\boxed{",
]
CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja")
Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters that determine the weights, besides the data."""

    steps: int = 2600
    tokens_per_batch: int = 8192
    real_share: float = 0.25
    """Share of samples from the gated trajectories; the rest are shadow worlds."""
    prompt_loss_weight: float = 0.2
    """Weight of tokens that the model does not write, which help it learn to copy."""
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


def build_model(recipe: Recipe, tokenizer: Any) -> Any:
    """Return a Qwen3 decoder with random weights and tied embeddings."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.kv_heads,
        head_dim=recipe.head_dim,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
        use_cache=False,
    )
    return Qwen3ForCausalLM(config)


def train_tokenizer(texts: Iterable[str]) -> Any:
    """Train the tokenizer on `texts`: a transformers `PreTrainedTokenizerFast` with a Hermes chat
    template, byte-level BPE in which an identifier always has the same tokens.

    The pocket model must learn to copy. Two choices make this easy. Spaces and punctuation are
    never merged with letters, so ``iterable`` is the same tokens after a space, a quote or a brace;
    and the JSON around a tool call is one token, so a call is little more than a name.

    Rare merges are left out, because training would hardly see such tokens.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY - len(SCAFFOLD),
        min_frequency=MIN_FREQUENCY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in SCAFFOLD])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE.read_text().removesuffix("\n")
    return wrapped


def encode(tokenizer: Any, messages: Messages) -> Row:
    """Tokenise a conversation into one sequence; the template rewrites no turn."""
    (row,) = conversation_rows(tokenizer, messages, TOOL_SCHEMAS)
    return row


class Batches(IterableDataset[list[Row]]):  # type: ignore[misc]  # torch is not in this environment
    """Endless batches of similar sequence lengths, at most `tokens_per_batch` tokens with
    padding."""

    def __init__(
        self, tokenizer: Any, documents: list[Document], real: list[Messages], recipe: Recipe
    ) -> None:
        self.tokenizer, self.documents, self.real = tokenizer, documents, real
        self.recipe, self.seed = recipe, recipe.seed

    def __iter__(self) -> Iterator[list[Row]]:
        recipe, rng = self.recipe, Random(self.seed)
        shadow = shadow_conversations(self.documents, self.seed)
        while True:
            pool: list[Row] = []
            tokens = 0
            while tokens < recipe.tokens_per_batch * BATCHES_PER_POOL:
                use_real = self.real and rng.random() < recipe.real_share
                pool.append(
                    encode(self.tokenizer, rng.choice(self.real) if use_real else next(shadow))
                )
                tokens += len(pool[-1].ids)
            batches = list(row_groups(pool, recipe.tokens_per_batch, packed=False, unit=1))
            rng.shuffle(batches)
            yield from batches

    def loader(self) -> Any:
        """Return the batches, prepared by another process."""
        return DataLoader(
            self,
            None,
            num_workers=1,
            collate_fn=list,
            prefetch_factor=64,
            timeout=BATCH_TIMEOUT_S,
            # A spawned process would look for the main module, which is not in the search path.
            multiprocessing_context="fork",
            generator=torch.Generator(),  # else it would draw from the training's own
        )


def collate(batch: list[Row], pad: int, recipe: Recipe) -> tuple[Any, Any, Any]:
    """(ids [B, T], targets [B, T], weights [B, T]); padding and the first token have weight 0."""
    ids, written = _padded(batch, pad)
    drawn = (torch.rand(ids.shape) < recipe.prompt_loss_share) * recipe.prompt_loss_weight
    lengths = torch.tensor([len(row.ids) for row in batch])
    prompt = torch.where(torch.arange(ids.shape[1]) < lengths[:, None], drawn, 0.0)
    weights = torch.where(written, 1.0, prompt).roll(-1, 1)
    weights[:, -1] = 0.0
    return ids, ids.roll(-1, 1), weights


def _padded(batch: list[Row], pad: int) -> tuple[Any, Any]:
    """Return ([B, T] ids, [B, T] whether the model writes them)."""
    ids = [torch.tensor(row.ids) for row in batch]
    written = [torch.tensor(row.turns) != NOT_TRAINED for row in batch]
    padded = torch.nn.utils.rnn.pad_sequence
    return padded(ids, True, pad), padded(written, True, False)


def optimizers_for(model: Any, recipe: Recipe) -> list[Any]:
    """Return Muon for the matrices inside the layers, AdamW for embeddings and norms."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    inside = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in inside]
    return [
        torch.optim.Muon(
            matrices, lr=recipe.muon_lr, weight_decay=recipe.weight_decay, momentum=0.95
        ),
        torch.optim.AdamW(others, lr=recipe.adamw_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def loss_of(model: Any, ids: Any, targets: Any, weights: Any) -> tuple[Any, float]:
    """Return the weighted mean cross-entropy, and the share of written tokens predicted exactly."""
    hidden = model.model(input_ids=ids, attention_mask=None).last_hidden_state
    counted = weights.flatten() > 0
    logits = model.lm_head(hidden.flatten(0, 1)[counted])
    wanted, weight = targets.flatten()[counted], weights.flatten()[counted]
    losses = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="none")
    written = weight >= 1.0
    hits = (logits[written].argmax(-1) == wanted[written]).float().mean().item()
    return (losses * weight).sum() / weight.sum(), hits


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not in this environment
def exact_share(model: Any, samples: list[Row]) -> float:
    """Share of conversations in which every written token is the model's first choice."""
    model.eval()
    exact = 0
    for first in range(0, len(samples), 24):
        ids, written = _padded(samples[first : first + 24], model.config.pad_token_id)
        with torch.autocast(model.device.type, dtype=torch.bfloat16):
            choices = model(input_ids=ids.to(model.device)).logits.argmax(-1).cpu()
        right = (choices[:, :-1] == ids[:, 1:]) | ~written[:, 1:]
        exact += int(right.all(1).sum())
    model.train()
    return exact / len(samples) if samples else float("nan")


def fit(
    model: Any, data: Batches, held_out: list[Row], state: Path, report_every: int
) -> dict[str, Any]:
    """Run `recipe.steps` steps; return tokens seen, seconds, and the log of losses.

    `held_out` samples are never trained on. Progress is saved to `state` regularly; if that file
    exists, training resumes from it.
    """
    device, recipe = model.device, data.recipe
    schedule = OptimizerSettings(
        learning_rate=1.0,
        warmup_share=min(1.0, recipe.warmup / recipe.steps),
        final_share=recipe.final_lr_share,
    )
    optimizers = optimizers_for(model, recipe)
    groups = [(group, group["lr"]) for each in optimizers for group in each.param_groups]
    progress: dict[str, Any] = {"step": 0, "tokens": 0, "seconds": 0.0, "log": []}
    if state.is_file():
        saved = torch.load(state)
        model.load_state_dict(saved["model"])
        for optimizer, known in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(known)
        progress = saved["progress"]
    first, tokens, log = progress["step"], progress["tokens"], progress["log"]
    data.seed += first  # a resumed training must not see the same worlds again
    batches = data.loader()
    began = time.monotonic() - progress["seconds"]
    model.train()
    if recipe.compile:
        model.model.compile(dynamic=True)
    for step, drawn in zip(range(first, recipe.steps), batches, strict=False):
        ids, targets, weights = (
            part.to(device) for part in collate(drawn, model.config.pad_token_id, recipe)
        )
        share = schedule.rate(step / recipe.steps)
        for group, lr in groups:
            group["lr"] = lr * share
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss, accuracy = loss_of(model, ids, targets, weights)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        tokens += sum(len(row.ids) for row in drawn)
        last, elapsed = step == recipe.steps - 1, time.monotonic() - began
        if step % report_every == 0 or last:
            row = {"step": step, "tokens": tokens, "seconds": round(elapsed, 1)}
            row |= {"loss": round(loss.item(), 4), "token_accuracy": round(accuracy, 4)}
            if step % (report_every * 10) == 0 or last:
                row["held_out_exact"] = round(exact_share(model, held_out), 4)
            log.append(row)
            print(json.dumps(row | {"tokens_per_s": int(tokens / elapsed)}), flush=True)
        if (step + 1) % SAVE_EVERY == 0:
            progress = {"step": step + 1, "tokens": tokens, "seconds": elapsed, "log": log}
            save_state(state, model, optimizers, progress)
    return {"tokens": tokens, "seconds": time.monotonic() - began, "log": log}


def save_state(state: Path, model: Any, optimizers: list[Any], progress: dict[str, Any]) -> None:
    """Write weights, optimizers and progress, completely or not at all."""
    temporary = state.with_suffix(".tmp")
    parts = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers]}
    torch.save(parts | {"progress": progress}, temporary)
    os.replace(temporary, state)


def _rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    """Train and save the model; see ``--help``."""
    parser = argparse.ArgumentParser(description="Train the pocket model from scratch.")
    parser.add_argument("--corpus", required=True, type=Path, help="training documents, JSONL")
    parser.add_argument("--trajectories", required=True, type=Path, help="conversations, JSONL")
    parser.add_argument("--held-out", required=True, type=Path, help="never trained on, JSONL")
    parser.add_argument("--out", required=True, type=Path, help="folder for the checkpoint")
    parser.add_argument("--state", type=Path, help="file that lets a stopped training go on")
    parser.add_argument("--report-every", type=int, default=50, help="steps between log lines")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    given = parser.parse_args()
    recipe = Recipe(**{name: getattr(given, name) for name in asdict(Recipe())})

    torch.manual_seed(recipe.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    documents = [Document.from_row(row) for row in _rows(given.corpus)]
    real, held_out = (
        [row["messages"] for row in _rows(file)] for file in (given.trajectories, given.held_out)
    )
    shadow = itertools.islice(shadow_conversations(documents, recipe.seed + 1), 4000)
    texts = [m["content"] for conversation in [*real, *shadow] for m in conversation]
    tokenizer = train_tokenizer([*texts, *(document.text for document in documents)])
    tokenizer.save_pretrained(given.out)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build_model(recipe, tokenizer).to(device)
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"parameters": parameters, "vocabulary": len(tokenizer)}), flush=True)
    unseen = [encode(tokenizer, messages) for messages in held_out]
    data = Batches(tokenizer, documents, real, recipe)
    state = given.state or given.out / "state.pt"
    result = fit(model, data, unseen, state, given.report_every)
    model.to(torch.bfloat16).save_pretrained(given.out)
    record = {"recipe": asdict(recipe), "parameters": parameters, **result}
    (given.out / "training.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
