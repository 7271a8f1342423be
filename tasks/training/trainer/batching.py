"""Cutting a step's rows into micro-batches, padded or packed.

In neither layout does a token see another sequence. In `rows`, padding comes last and attention
looks back only. In `packed`, positions begin at 0 with each sequence and no attention mask is
given, so that transformers detects where sequences start (a mask of ones would mix them).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tutti.tasks.training.sets.sequences import NOT_TRAINED
from tutti.tasks.training.trainer.rows import Row

Tensor = Any


@dataclass(frozen=True)
class MicroBatch:
    """T trained tokens of S rows, and the model's input."""

    ids: Tensor  # [B, L] int64
    positions: Tensor | None  # [B, L] int64 where packed; None: 0 to L - 1
    places: tuple[Tensor, Tensor]
    """([T] row, [T] column) of the hidden states that predict the trained tokens."""
    targets: Tensor  # [T] the trained tokens
    sequence: Tensor  # [T] 0 to S - 1
    turn: Tensor  # [T] 0 to K - 1, over the micro-batch
    turns: int
    values: Tensor  # [T] weights or advantages
    behaviour: Tensor  # [T] recorded log probabilities; 0 where there are none
    rows: tuple[Row, ...]

    def to(self, device: Any) -> "MicroBatch":
        """Return a copy on a device."""
        moved = {name: v.to(device) for name, v in vars(self).items() if torch.is_tensor(v)}
        places = (self.places[0].to(device), self.places[1].to(device))
        return replace(self, places=places, **moved)


def row_groups(
    rows: Sequence[Row], most_tokens: int, packed: bool, unit: int
) -> Iterator[list[Row]]:
    """The rows of each micro-batch: at most `most_tokens` ids (a single unit may have more)."""
    units = [rows[first : first + unit] for first in range(0, len(rows), unit)]
    units.sort(key=lambda each: max(len(row.ids) for row in each))
    batch: list[Row] = []
    for each in units:
        lengths = [len(row.ids) for row in (*batch, *each)]
        size = sum(lengths) if packed else max(lengths) * len(lengths)
        if batch and size > most_tokens:
            yield batch
            batch = []
        batch = [*batch, *each]
    if batch:
        yield batch


def collate(rows: Sequence[Row], packed: bool) -> MicroBatch:
    """Make one micro-batch of all rows."""
    lengths = [len(row.ids) for row in rows]
    if packed:
        ids = torch.tensor([[each for row in rows for each in row.ids]])
        positions = torch.cat([torch.arange(length) for length in lengths])[None]
        starts = [(0, sum(lengths[:nth])) for nth in range(len(rows))]
    else:
        ids, positions = torch.zeros(len(rows), max(lengths), dtype=torch.int64), None
        for nth, row in enumerate(rows):
            ids[nth, : lengths[nth]] = torch.tensor(row.ids)
        starts = [(nth, 0) for nth in range(len(rows))]
    trained = [
        (nth, place)
        for nth, row in enumerate(rows)
        for place, turn in enumerate(row.turns)
        if turn != NOT_TRAINED and place > 0
    ]
    sequence = torch.tensor([nth for nth, _ in trained])
    turn = torch.tensor([rows[nth].turns[place] for nth, place in trained])
    most = int(turn.max()) + 1
    number = torch.unique_consecutive(sequence * most + turn, return_inverse=True)[1]
    places = [(starts[nth][0], starts[nth][1] + place - 1) for nth, place in trained]
    behaviour = [rows[nth].logprobs[place] if rows[nth].logprobs else 0.0 for nth, place in trained]
    return MicroBatch(
        ids=ids,
        positions=positions,
        places=torch.tensor(places).unbind(1),
        targets=torch.tensor([rows[nth].ids[place] for nth, place in trained]),
        sequence=sequence,
        turn=number,
        turns=int(number.max()) + 1,
        values=torch.tensor([rows[nth].values[place] for nth, place in trained]),
        behaviour=torch.tensor(behaviour),
        rows=tuple(rows),
    )
