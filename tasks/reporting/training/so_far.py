"""What a training shows while it runs: its last steps, and loss, reward and entropy so far."""

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.progress import LiveView
from tutti.tasks.reporting.figures.drawing import png
from tutti.tasks.reporting.training.curves import live_plot

LAST = 15
SHOWN = (
    "step",
    "loss",
    "held_out_loss",
    "reward",
    "entropy",
    "dead_group_share",
    "clip_share",
    "gradient_norm",
    "learning_rate",
    "tokens_per_s",
)


def live_view(steps: Sequence[Mapping[str, Any]]) -> LiveView | None:
    """The steps so far, by the names of `train_steps`, for `live_artifacts`; None before any."""
    known = list(steps)  # it grows meanwhile
    if not known:
        return None
    last = known[-LAST:]
    columns = [name for name in SHOWN if any(row.get(name) is not None for row in last)]
    table = [{name: _short(row.get(name)) for name in columns} for row in reversed(last)]
    return LiveView(table, png(live_plot(known)))


def _short(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else value
