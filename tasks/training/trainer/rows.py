"""The rows of a trainer: ids, read from Parquet (recorded) or JSONL (conversations)."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tutti.tasks.training.sets.sequences import NOT_TRAINED, RecordedCall, sequences_of


class BadData(Exception):
    """Training data that cannot be trained on; the message says where and why."""


@dataclass(frozen=True)
class Row:
    """A sequence of n ids."""

    ids: Sequence[int]
    turns: Sequence[int]  # [n] turn of ids that are trained; -1 elsewhere
    values: Sequence[float]  # [n] weight (supervised) or advantage (policy) of trained ids
    logprobs: Sequence[float] = ()  # [n] by the weights that sampled; empty for supervised data
    wanted: bool = True  # KTO's label
    name: str = ""
    pair: int | None = None  # Number of its pair; its other side is the row before or after it

    @property
    def trained(self) -> int:
        """Number of trained ids, never the first of a sequence, which nothing predicts."""
        return sum(turn != NOT_TRAINED for turn in self.turns[1:])


@dataclass(frozen=True)
class RowSet:
    """Rows, and the number left out for each reason."""

    rows: list[Row]
    dropped: dict[str, int] = field(default_factory=dict)


def read_rows(path: Path, tokenizer: Any, max_tokens: int | None) -> RowSet:
    """Return all rows of a file, with both sides of a pair or none. Raises BadData for a file that
    cannot be read, or has no rows to train on."""
    is_recorded = path.suffix == ".parquet"
    rows = list(recorded_rows(path) if is_recorded else _conversations(path, tokenizer))
    sides = Counter((row.pair, row.wanted) for row in rows)
    flaws: dict[int, str] = {}
    for nth, row in enumerate(rows):
        if not row.trained:
            flaws[nth] = "nothing trained"
        elif max_tokens is not None and len(row.ids) > max_tokens:
            flaws[nth] = "too long"
        elif row.pair is not None and sides[row.pair, row.wanted] > 1:
            flaws[nth] = "several sequences for a side of a pair"
    broken = {rows[nth].pair for nth in flaws} - {None}
    for nth, row in enumerate(rows):
        if row.pair in broken:
            flaws.setdefault(nth, "other side of a pair")
    dropped = {"too long": 0, "nothing trained": 0} | Counter(flaws.values())
    kept = [row for nth, row in enumerate(rows) if nth not in flaws]
    if not kept:
        raise BadData(f"{path}: no sequence to train on ({dropped})")
    return RowSet(kept, dropped)


def recorded_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a Parquet file unchanged."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches():
        for each in batch.to_pylist():
            ids, turns, values = each["ids"], each["turns"], each["values"]
            wanted, pair = each.get("wanted") is not False, each.get("pair")
            yield Row(ids, turns, values, each["logprobs"] or (), wanted, each["name"], pair)


def _conversations(path: Path, tokenizer: Any) -> Iterator[Row]:
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                each = json.loads(line)
                rows = conversation_rows(tokenizer, each["messages"], each.get("tools"))
            except BadData as error:
                raise BadData(f"{path}:{number}: {error}") from None
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise BadData(f"{path}:{number}: not a conversation: {error!r}") from None
            label = {"wanted": each.get("wanted") is not False, "pair": each.get("pair")}
            yield from (replace(row, name=each.get("name") or "", **label) for row in rows)


def conversation_rows(
    tokenizer: Any, messages: Sequence[dict[str, Any]], tools: Sequence[Any] | None
) -> list[Row]:
    """Return a conversation as an engine would see it: each assistant turn follows the prompt that
    the template makes of everything before it.

    A template that rewrites earlier turns (strips their thinking) gives several rows, as it would
    give several prompts. `weight` of a message (default 1) applies to its turn. Raises BadData if
    the template does not write a turn after its own prompt.
    """
    calls: list[RecordedCall] = []
    weights, ends = {NOT_TRAINED: 0.0}, ends_of(tokenizer)
    plain = [{k: v for k, v in each.items() if k != "weight"} for each in messages]
    for nth, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, whole = (
            tokenizer.apply_chat_template(
                plain[:end], tools=tools, tokenize=False, add_generation_prompt=end == nth
            )
            for end in (nth, nth + 1)
        )
        if not whole.startswith(before):
            raise BadData(f"messages.{nth}: the template does not write it after its own prompt")
        prompt, answer = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (before, whole[len(before) :])
        )
        end = next((i for i, token in enumerate(answer) if token in ends), len(answer))
        answer = answer[: end + 1]  # the ids after the end are the template's
        weights[len(calls)] = float(message.get("weight", 1.0))
        calls.append(RecordedCall(str(nth), prompt, answer, [0.0] * len(answer)))
    sequences = sequences_of(calls, ends).sequences
    return [Row(e.ids, e.turns, [weights[turn] for turn in e.turns]) for e in sequences]


def ends_of(tokenizer: Any) -> frozenset[int]:
    """The ids that end a turn: the tokenizer's end, and other special tokens of that meaning."""
    names = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|return|>", "<|call|>", "</s>")
    ids = {tokenizer.convert_tokens_to_ids(name) for name in names} - {tokenizer.unk_token_id}
    return frozenset(ids | {tokenizer.eos_token_id}) - {None}
