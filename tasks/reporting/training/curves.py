"""Figures of a training: its steps' figures over the steps, and held-out tasks.

In: rows of `train_steps`, scores. Out: `Plot`s. A figure without values is left out, because
objectives differ in their figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti.tasks.platform.progress import LiveView
from tutti.tasks.reporting.figures import drawing
from tutti.tasks.reporting.figures.drawing import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]
POINTS = 240
"""A curve of more steps is drawn as means of so many groups: more is not seen."""
STYLES: tuple[Row, ...] = (
    {"color": drawing.POLICIES["cap"], "linestyle": "-"},
    {"color": drawing.POLICIES["adaptive"], "linestyle": "--"},
    {"color": drawing.OTHERS[1], "linestyle": "-."},
)


@dataclass(frozen=True)
class Curve:
    """Columns of `train_steps` in one figure."""

    name: str
    title: str
    columns: Mapping[str, str]
    unit: str = ""
    caption: str = ""
    is_share: bool = False
    from_zero: bool = False
    """Whether the axis begins at 0: what is compared by its size."""


CURVES = (
    Curve("loss", "Loss", {"loss": "of the step", "held_out_loss": "held-out tasks"}, "loss",
          "Of the step's sequences, before its update. Objectives are not comparable."),
    Curve("reward", "Reward", {"reward": "mean"}, "reward",
          "Mean of the step's attempts, those of dead groups included. Each step has other tasks."),
    Curve("preference", "Rewards of preferences",
          {"chosen_reward": "chosen", "rejected_reward": "rejected", "margin": "margin"}, "nats",
          "beta x gain over the base, a mean over the step's answers."),
    Curve("preference-accuracy", "Preference accuracy", {"preference_accuracy": "pairs"}, "pairs",
          "Share of the step's pairs whose chosen answer gained more.", is_share=True),
    Curve("entropy", "Entropy", {"entropy": "mean"}, "nats a token",
          "Of the model's distribution at trained tokens. Near 0 it has stopped exploring.",
          from_zero=True),
    Curve("kl", "KL to the reference", {"kl": "mean"}, "nats a token"),
    Curve("mismatch", "Trainer against engine", {"mismatch_kl": "mean KL"}, "nats a token",
          "Of recorded log probabilities, before the step; with a staleness of 1 an update is in "
          "it."),
    Curve("clip", "Clipped tokens", {"clip_share": "tokens"}, "tokens", from_zero=True,
          is_share=True),
    Curve("dead", "Dead groups", {"dead_group_share": "groups"}, "groups",
          "Groups of equal rewards, which teach nothing and are left out.", is_share=True),
    Curve("staleness", "Staleness", {"staleness": "mean"}, "updates",
          "Updates between the weights that sampled and those that were trained.", from_zero=True),
    Curve("gradient", "Gradient norm", {"gradient_norm": "norm"}, "norm", "Before it was clipped.",
          from_zero=True),
    Curve("rate", "Learning rate", {"learning_rate": "rate"}, "learning rate", from_zero=True),
    Curve("speed", "Speed", {"tokens_per_s": "trained"}, "tokens/s",
          "Of the step's sequences, prompts included.", from_zero=True),
    Curve("mfu", "Model FLOPs utilisation", {"mfu": "share of peak"}, "of the peak",
          "Of the device's dense bf16 peak.", from_zero=True, is_share=True),
)  # fmt: skip
LIVE = ("loss", "reward", "entropy")
LAST = 15  # steps in the table of a training that runs
SHOWN = (
    *("step", "loss", "held_out_loss", "reward", "entropy", "dead_group_share", "clip_share"),
    *("gradient_norm", "learning_rate", "tokens_per_s"),
)


def curve_plots(steps: Sequence[Row]) -> list[Plot]:
    """Return a figure for each of CURVES for which the steps have values."""
    return [_curve_plot(each, steps) for each in CURVES if _has_values(each.columns, steps)]


def live_plot(steps: Sequence[Row]) -> Plot:
    """Plot loss, reward and entropy of the steps so far, side by side."""
    shown = [each for each in CURVES if each.name in LIVE and _has_values(each.columns, steps)]
    if not shown:
        return Plot("training", "Training", "", missing="No step has ended.")
    with drawing.drawing(3.6 * len(shown), 2.8) as figure:
        axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for ax, curve in zip(axes, shown, strict=True):
            _draw(ax, curve, steps)
            ax.set_title(curve.title)
            if len(curve.columns) > 1:
                ax.legend(fontsize=8)
    return Plot("training", "Training", "", figure)


def live_view(steps: Sequence[Mapping[str, Any]]) -> LiveView | None:
    """The steps so far, by the names of `train_steps`, for `live_artifacts`; None before any."""
    known = list(steps)  # it grows meanwhile
    if not known:
        return None
    last = known[-LAST:]
    columns = [name for name in SHOWN if any(row.get(name) is not None for row in last)]
    table = [{name: _short(row.get(name)) for name in columns} for row in reversed(last)]
    return LiveView(table, drawing.png(live_plot(known)))


def held_out_plot(scores: Sequence[tuple[int, Row]]) -> Plot:
    title = "Held-out tasks"
    if not scores:
        return Plot("held-out", title, "", missing="No held-out tasks were measured.")
    caption = "Bars: Wilson's 95 % interval. n: attempts that count; the same tasks each time."
    with drawing.drawing(5.0, 3.1) as figure:
        ax = figure.subplots()
        at, values = [a for a, _ in scores], [s["accuracy"] for _, s in scores]
        ends = [s["wilson_95"] for _, s in scores]
        low = [max(0.0, v - e[0]) for v, e in zip(values, ends, strict=True)]
        high = [max(0.0, e[1] - v) for v, e in zip(values, ends, strict=True)]
        label = f"n = {', '.join(str(s['n']) for _, s in scores)}"
        style: Row = {"color": STYLES[0]["color"], "markersize": 5, "linewidth": 1.5}
        ax.errorbar(at, values, [low, high], fmt="o-", capsize=3, label=label, **style)
        ax.set(xlabel="steps", ylabel="accuracy", ylim=(0, 1.02), xticks=at)
        ax.yaxis.set_major_formatter(drawing.percent())
        drawing.with_grid(ax, "y")
        drawing.legend_above(figure, ax, 1)
    return Plot("held-out", title, caption, figure)


def thinned(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return at most POINTS of (step, value); if there are more, means of neighbours."""
    size = -(-len(points) // POINTS)
    groups = [points[first : first + size] for first in range(0, len(points), size or 1)]
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]


def _curve_plot(curve: Curve, steps: Sequence[Row]) -> Plot:
    size = -(-len(steps) // POINTS)
    many = f" Means of {size} steps each." if size > 1 else ""
    shown = [c for c in curve.columns if _has_values([c], steps)]
    with drawing.drawing(5.0, 2.7) as figure:
        ax = figure.subplots()
        _draw(ax, curve, steps)
        if len(shown) > 1:
            drawing.legend_above(figure, ax, 3)
    return Plot(curve.name, curve.title, (curve.caption + many).strip(), figure)


def _draw(ax: "Axes", curve: Curve, steps: Sequence[Row]) -> None:
    from matplotlib.ticker import MaxNLocator

    for (column, label), style in zip(curve.columns.items(), STYLES, strict=False):
        points = thinned([(r["step"], v) for r in steps if (v := r.get(column)) is not None])
        # Where few steps have a value, a line alone would hide which.
        mark = "o" if len(points) < len(steps) / 2 or len(points) < 3 else None
        x, y = [p[0] for p in points], [p[1] for p in points]
        ax.plot(x, y, label=label, linewidth=1.5, marker=mark, markersize=4, **style)
    ax.set(xlabel="step", ylabel=curve.unit)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if curve.from_zero:
        ax.set_ylim(bottom=0)
        # Small rates as 0.0002 would take half of the figure.
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif curve.is_share:
        ax.set_ylim(0, 1.02)
    if curve.is_share:
        small = curve.from_zero and ax.get_ylim()[1] < 0.1
        ax.yaxis.set_major_formatter(
            (lambda value, _: f"{value * 100:.2g} %") if small else drawing.percent()
        )
    drawing.with_grid(ax, "y")
    drawing.keep_whole(ax)


def _has_values(columns: Sequence[str] | Mapping[str, str], steps: Sequence[Row]) -> bool:
    return any(row.get(column) is not None for row in steps for column in columns)


def _short(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else value
