"""One optimizer step: micro-batches, objective, gradient and update, and the resulting figures."""

import math
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from tutti.tasks.training.jobs.settings import TrainerSettings
from tutti.tasks.training.objectives import PAIRS, SUPERVISED, reads_reference
from tutti.tasks.training.objectives.losses import Loss, Objective, StepSizes, Tokens, objective
from tutti.tasks.training.trainer.batching import MicroBatch, collate, row_groups
from tutti.tasks.training.trainer.flops import peak_flops, size_of, step_flops
from tutti.tasks.training.trainer.model import Policy
from tutti.tasks.training.trainer.rows import Row
from tutti.tasks.training.trainer.world import whole

FAR = 0.1
"""Nats: a token whose log probabilities differ by more counts in `mismatch_share`."""
FARTHEST = "mismatch_max"
Tensor = Any


class Diverged(Exception):
    """A step's loss or gradient is not finite; the message has the values."""


class Stepper:
    """Takes steps with one policy, objective and optimizer. All processes of the policy's world
    must make the same calls with the same rows."""

    def __init__(self, policy: Policy, settings: TrainerSettings) -> None:
        """Raises ValueError for an unknown objective or setting, or a peak that is not a number."""
        self.policy, self.settings, self.world = policy, settings, policy.world
        self.objective: Objective = objective(settings.objective, settings.objective_settings)
        self._asks_reference = reads_reference(settings.objective, settings.objective_settings)
        layout = settings.batch.layout
        on_gpu = policy.device.type == "cuda"
        self.packed = layout == "packed" or (layout == "auto" and on_gpu)
        self.optimizer = optimizer_of(policy, settings)
        self._size = size_of(policy.model)
        name = str(torch.cuda.get_device_name(policy.device)) if on_gpu else None
        self._peak_flops = peak_flops(name, os.environ)

    def take(self, rows: Sequence[Row], rate: float) -> dict[str, float | None]:
        """Train on rows at a learning rate and return the step's figures, named as in
        `train_steps`. Raises Diverged, and then leaves the weights as before the step."""
        began = time.monotonic()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sizes = sizes_of(rows, self.settings)
        totals: defaultdict[str, float] = defaultdict(float, loss=0.0)
        baseline = self._mismatched_gain(rows) if self.settings.objective == "kto" else 0.0
        for batch, counts in self.cut(rows):
            loss, logp, entropy = self._loss(batch, sizes, baseline)
            (loss.value if counts else loss.value * 0.0).backward()
            if not counts:
                continue
            totals["loss"] += loss.value.item()
            totals["entropy"] += entropy.item() / sizes.tokens
            for name, value in loss.figures.items():
                totals[name] += value.item()
            if self.settings.objective not in SUPERVISED:
                _mismatch(totals, logp - batch.behaviour, sizes.tokens)
        figures = self.world.total(totals, largest=FARTHEST)
        clip = self.settings.optimizer.gradient_clip
        norm = whole(torch.nn.utils.clip_grad_norm_(self.policy.parameters, clip)).item()
        if not (math.isfinite(figures["loss"]) and math.isfinite(norm)):
            self.optimizer.zero_grad(set_to_none=True)
            seen = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
            raise Diverged(f"gradient norm {norm:.4g}, {seen}, learning rate {rate:.3g}")
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        seconds, lengths = time.monotonic() - began, [len(row.ids) for row in rows]
        flops, peak = step_flops(self._size, lengths, sizes.tokens), self._peak_flops
        mfu = None if peak is None else flops / seconds / (peak * self.world.size)
        peak_mb = max(self.world.all_values(self.policy.peak_mb))
        cost = {"seconds": seconds, "tokens_per_s": sum(lengths) / seconds, "sequences": len(rows)}
        known = {"gradient_norm": norm, "learning_rate": rate, "mfu": mfu, "peak_mb": peak_mb}
        return figures | cost | known

    def cut(self, rows: Sequence[Row]) -> list[tuple[MicroBatch, bool]]:
        """Return this process's micro-batches of a step, on the device, and whether each counts."""
        unit = 2 if self.settings.objective in PAIRS else 1
        groups = list(row_groups(rows, self.settings.batch.tokens, self.packed, unit))
        return [
            (collate(group, self.packed).to(self.policy.device), counts)
            for group, counts in self.world.deal(groups)
        ]

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not in this environment
    def held_out_loss(self, rows: Sequence[Row]) -> float:
        """Mean negative log probability of the trained tokens, in nats."""
        total = 0.0
        for batch, counts in self.cut(rows):
            found = self.policy.log_probs(batch).sum().item()
            total -= found if counts else 0.0
        return sum(self.world.all_values(total)) / max(1, sum(row.trained for row in rows))

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not in this environment
    def _mismatched_gain(self, rows: Sequence[Row]) -> float:
        """KTO's baseline: mean gain over the reference of answers to other rows' prompts."""
        total = 0.0
        for batch, counts in self.cut(mismatched(rows)):
            gain = self.policy.log_probs(batch) - self.policy.reference_log_probs(batch)
            total += gain.sum().item() if counts else 0.0
        return sum(self.world.all_values(total)) / len(rows)

    def _loss(
        self, batch: MicroBatch, sizes: StepSizes, baseline: float
    ) -> tuple[Loss, Tensor, Tensor]:
        logp, entropy = self.policy.measured(batch)
        reference = self.policy.reference_log_probs(batch) if self._asks_reference else None
        wanted = torch.tensor([row.wanted for row in batch.rows], device=logp.device)
        tokens = Tokens(
            batch.sequence,
            len(batch.rows),
            batch.behaviour,
            advantage=batch.values,
            reference=reference,
            weight=batch.values,
            turn=batch.turn,
            turns=batch.turns,
            extra={"wanted": wanted, "baseline": torch.tensor(baseline, device=logp.device)},
        )
        return self.objective(logp, tokens, sizes), logp.detach(), entropy


def optimizer_of(policy: Policy, settings: TrainerSettings) -> Any:
    """Return an AdamW optimizer; weight decay applies to matrices only."""
    optimizer = settings.optimizer
    matrices = [each for each in policy.parameters if each.ndim >= 2]
    others = [each for each in policy.parameters if each.ndim < 2]
    groups = [{"params": matrices, "weight_decay": optimizer.weight_decay}]
    groups += [{"params": others, "weight_decay": 0.0}] if others else []
    fused = policy.device.type == "cuda"
    return torch.optim.AdamW(groups, lr=optimizer.learning_rate, betas=optimizer.betas, fused=fused)


def mismatched(rows: Sequence[Row]) -> list[Row]:
    """Pair each row's prompt with the next row's answer."""
    mixed = []
    for row, other in zip(rows, [*rows[1:], *rows[:1]], strict=True):
        end, first = (next(n for n, turn in enumerate(e.turns) if turn >= 0) for e in (row, other))
        ids = [*row.ids[:end], *other.ids[first:]]
        mixed.append(Row(ids, [*row.turns[:end], *other.turns[first:]], [0.0] * len(ids)))
    return mixed


def sizes_of(rows: Sequence[Row], settings: TrainerSettings) -> StepSizes:
    """Return the sizes of a step, summed over its rows."""
    weight = math.fsum(
        value
        for row in rows
        for value, turn in zip(row.values[1:], row.turns[1:], strict=True)
        if turn >= 0
    )
    tokens = sum(row.trained for row in rows)
    wanted = sum(row.wanted for row in rows)
    return StepSizes(tokens, len(rows), weight, settings.batch.max_tokens or 0, wanted)


def _mismatch(totals: defaultdict[str, float], difference: Tensor, tokens: int) -> None:
    """Add the difference between the trainer's log probabilities and the engine's recorded ones."""
    totals["mismatch_kl"] += (torch.exp(difference) - difference - 1).sum().item() / tokens
    totals["mismatch_share"] += (difference.abs() > FAR).float().sum().item() / tokens
    totals[FARTHEST] = max(totals[FARTHEST], difference.abs().max().item())
