"""What a trainer trains on: rows of ids, read from Parquet (recorded) or JSONL (conversations)."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tutti.tasks.training.sets.sequences import NOT_TRAINED, RecordedCall, sequences_of


class BadData(Exception):
    """A file of training data cannot be trained on; the message says where and why."""


@dataclass(frozen=True)
class Row:
    """One sequence of n ids."""

    ids: Sequence[int]
    turns: Sequence[int]
    """[n] turn of ids that are trained; -1 elsewhere."""
    values: Sequence[float]
    """[n] weight (supervised) or advantage (policy) of trained ids."""
    logprobs: Sequence[float] = ()
    """[n] by the weights that sampled; empty for supervised data."""
    wanted: bool = True
    """KTO's label."""
    name: str = ""
    pair: int | None = None
    """Number of its pair; its other side is the row before or after it."""

    @property
    def trained(self) -> int:
        """Ids that are trained; the first of a sequence never is, as nothing predicts it."""
        return sum(turn != NOT_TRAINED for turn in self.turns[1:])


@dataclass(frozen=True)
class RowSet:
    """Rows, and how many were left out for each reason."""

    rows: list[Row]
    dropped: dict[str, int] = field(default_factory=dict)


def read_rows(path: Path, tokenizer: Any, max_tokens: int | None) -> RowSet:
    """All rows of a file; of a pair both sides or none.

    Raises BadData for one that cannot be read, or has none to train on.
    """
    made = recorded_rows(path) if path.suffix == ".parquet" else _conversations(path, tokenizer)
    rows = list(made)
    sides = Counter((row.pair, row.wanted) for row in rows if row.pair is not None)
    flaws = [_flaw(row, max_tokens, sides) for row in rows]
    broken = {row.pair for row, flaw in zip(rows, flaws, strict=True) if flaw} - {None}
    kept, dropped = [], Counter({"too long": 0, "nothing trained": 0})
    for row, flaw in zip(rows, flaws, strict=True):
        if flaw is None and row.pair not in broken:
            kept.append(row)
        else:
            dropped[flaw or "other side of a pair"] += 1
    if not kept:
        raise BadData(f"{path}: no sequence to train on ({dict(dropped)})")
    return RowSet(kept, dict(dropped))


def _flaw(row: Row, max_tokens: int | None, sides: Mapping[Any, int]) -> str | None:
    if not row.trained:
        return "nothing trained"
    if max_tokens is not None and len(row.ids) > max_tokens:
        return "too long"
    several = sides.get((row.pair, row.wanted), 1) > 1
    return "several sequences for a side of a pair" if several else None


def recorded_rows(path: Path) -> Iterator[Row]:
    """The rows of a Parquet file, as they are."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches():
        for each in batch.to_pylist():
            wanted = each.get("wanted")
            yield Row(
                each["ids"],
                each["turns"],
                each["values"],
                each["logprobs"] or (),
                True if wanted is None else wanted,
                each["name"],
                each.get("pair"),
            )


def _conversations(path: Path, tokenizer: Any) -> Iterator[Row]:
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                said = json.loads(line)
                messages = said["messages"]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise BadData(f"{path}:{number}: not a conversation: {error!r}") from None
            try:
                rows = conversation_rows(tokenizer, messages, said.get("tools"))
            except BadData as error:
                raise BadData(f"{path}:{number}: {error}") from None
            label = {"wanted": said.get("wanted") is not False, "pair": said.get("pair")}
            yield from (replace(row, name=said.get("name") or "", **label) for row in rows)


def conversation_rows(
    tokenizer: Any, messages: Sequence[dict[str, Any]], tools: Sequence[Any] | None
) -> list[Row]:
    """A conversation as an engine would see it: each assistant turn after the prompt that the
    template makes of all before it.

    A template that rewrites earlier turns (strips their thinking) makes several rows, as it would
    make several prompts. `weight` of a message (default 1) is its turn's. Raises BadData where the
    template does not write a turn after its own prompt.
    """
    calls, weights = [], []
    for nth, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = _rendered(tokenizer, messages[:nth], tools, prompt=True)
        whole = _rendered(tokenizer, messages[: nth + 1], tools, prompt=False)
        if not whole.startswith(before):
            raise BadData(f"messages.{nth}: the template does not write it after its own prompt")
        prompt, said = _ids(tokenizer, before), _ids(tokenizer, whole[len(before) :])
        end = next((i for i, token in enumerate(said) if token in ends_of(tokenizer)), None)
        said = said if end is None else said[: end + 1]  # what follows the end is the template's
        calls.append(RecordedCall(str(nth), prompt, said, [0.0] * len(said)))
        weights.append(float(message.get("weight", 1.0)))
    made = sequences_of(calls, ends_of(tokenizer))
    return [
        Row(
            each.ids,
            each.turns,
            [0.0 if turn == NOT_TRAINED else weights[turn] for turn in each.turns],
        )
        for each in made.sequences
    ]


def ends_of(tokenizer: Any) -> frozenset[int]:
    """Ids that end a turn: the tokenizer's end, and its other special tokens of that meaning."""
    ids = {tokenizer.eos_token_id}
    for name in ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|return|>", "<|call|>", "</s>"):
        found = tokenizer.convert_tokens_to_ids(name)
        if found is not None and found != tokenizer.unk_token_id:
            ids.add(found)
    return frozenset(each for each in ids if each is not None)


def _rendered(tokenizer: Any, messages: Any, tools: Any, prompt: bool) -> str:
    known = [{k: v for k, v in each.items() if k != "weight"} for each in messages]
    text: str = tokenizer.apply_chat_template(
        known, tools=tools, tokenize=False, add_generation_prompt=prompt
    )
    return text


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
