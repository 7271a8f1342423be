"""The report's figures of outcomes: against concurrency, by family, accuracy against cost.

In: summaries and efficiencies. Out: `Plot`s, or a sentence that says which data is missing; `svg`
and `png` render one. matplotlib is imported only when something is drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.figures import drawing
from tutti.tasks.reporting.figures.drawing import Plot
from tutti.tasks.reporting.measures.efficiency import Efficiency, place
from tutti.tasks.reporting.measures.families import FamilyScore, all_families
from tutti.tasks.reporting.measures.numbers import MEAN_SCORE, count
from tutti.tasks.scoring.statistics import Interval, Point, pareto_front
from tutti.tasks.sweeps import results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_IN, PAGE_IN = 4.4, 12.0  # inches: a panel where there is room, and the page
FAMILIES_SHOWN = 24
MODEL_COLOURS = (drawing.INK, *drawing.OTHERS)  # no policy's
MOST_PANELS = 4
MOST_NAMED = 24  # marks with their load beside them
Style = Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A figure that is drawn against concurrency."""

    plot: Plot
    label: str
    value: Callable[[results.LoadPoint], float | None]
    interval: Callable[[results.LoadPoint], Interval | None]
    n: Callable[[results.LoadPoint], int]
    is_share: bool = False


RINGED = "A ringed mark has no interval: its window is too short."
MEASURES = (
    Measure(
        Plot(
            "throughput",
            "Steps per minute",
            f"Bars: 95 % interval (batch means in one cell's window; t over repeats). {RINGED} "
            "n: steps, by rising concurrency.",
            missing="No cell has a window with requests in it: no rates.",
        ),
        "steps per minute",
        lambda p: p.rate,
        lambda p: p.rate_interval,
        lambda p: p.steps,
    ),
    Measure(
        Plot(
            "accuracy",
            "Accuracy",
            "Bars: Wilson's 95 % interval, attempts at one task counted as what they are worth. "
            "n: scored attempts, by rising concurrency.",
            missing="No attempt was scored: no accuracy.",
        ),
        "accuracy",
        lambda p: p.score,
        lambda p: p.accuracy_interval,
        lambda p: p.n,
        is_share=True,
    ),
    Measure(
        Plot(
            "step_latency",
            "Step latency, 95th percentile",
            "Bars: 95 % interval (batches of one cell's steps; t over repeats). A ringed mark has "
            "no interval: fewer than 200 steps. n: steps, by rising concurrency.",
            missing="No finished steps: no latencies.",
        ),
        "seconds",
        lambda p: p.latency,
        lambda p: p.latency_interval,
        lambda p: p.steps,
    ),
    Measure(
        Plot(
            "cost",
            "Cost of an attempt",
            "Bars: 95 % interval (t over attempts in one cell; t over repeats). "
            "n: scored attempts, by rising concurrency.",
            missing="No attempt has a known cost above 0 USD.",
        ),
        "USD",
        lambda p: p.cost or None,  # a local model's attempts cost 0 each
        lambda p: p.cost_interval,
        lambda p: p.n,
    ),
)


def load_plots(cells: Sequence[results.CellSummary]) -> list[Plot]:
    points = results.load_points(results.with_known_load(cells))
    return [load_plot(measure, points, cells) for measure in MEASURES]


def family_plot(scores: Sequence[FamilyScore]) -> Plot:
    caption = (
        "Bars' whiskers: Wilson's 95 % interval, attempts at one task counted as what they are "
        "worth. n: scored attempts."
    )
    title = "Accuracy by family"
    if not scores:
        return Plot("families", title, caption, missing="No attempt was scored: no accuracy.")
    models = list(dict.fromkeys(score.model for score in scores))
    named = sorted({score.family for score in scores})
    if len(named) > FAMILIES_SHOWN:
        caption += f" The first {FAMILIES_SHOWN} of {len(named)} families; the table has all."
    families = named if len(named) == 1 else ["all families", *named[:FAMILIES_SHOWN]]
    found = {(s.family, s.model): s for s in [*scores, *all_families(scores)]}
    thick = 0.8 / len(models)
    with drawing.drawing(7.6, 1.0 + 0.3 * len(families) * max(1.0, 0.6 * len(models))) as figure:
        ax = figure.subplots()
        for i, model in enumerate(models):
            tone = MODEL_COLOURS[i % len(MODEL_COLOURS)]
            scored = [(y, found.get((family, model))) for y, family in enumerate(families)]
            bars = [(y, score) for y, score in scored if score]
            for y, score in bars:
                _bar(ax, score, y - 0.4 + thick * (i + 0.5), thick, tone)
            ax.plot([], [], "s", color=tone, label=model)  # the legend's entry
        ax.set(yticks=range(len(families)), yticklabels=families, xlim=(0, 1), xlabel="accuracy")
        ax.set_ylim(len(families) - 0.5, -0.5)
        ax.xaxis.set_major_formatter(drawing.percent())
        drawing.with_grid(ax, "x")
        drawing.keep_whole(ax)
        drawing.legend_above(figure, ax, 2)
    return Plot("families", title, caption, figure)


def series_name(
    item: results.CellSummary | results.LoadPoint, cells: Sequence[results.CellSummary]
) -> str:
    """Return the policy, with benchmark and model in front if the cells differ in them."""
    return " / ".join([*results.differing(item, cells), item.policy])


def series_styles(cells: Sequence[results.CellSummary]) -> dict[str, Style]:
    """Colour and marker by policy, dashes by benchmark and model, distinct also without colour."""
    policies = drawing.policy_styles(cell.policy for cell in cells)
    settings = list(dict.fromkeys(tuple(results.differing(cell, cells)) for cell in cells))
    nth = {cell.cell_id: settings.index(tuple(results.differing(cell, cells))) for cell in cells}
    return {
        series_name(cell, cells): {
            "color": policies[cell.policy][0],
            "marker": policies[cell.policy][1],
            "linestyle": drawing.DASHES[nth[cell.cell_id] % len(drawing.DASHES)],
            "fillstyle": "none" if nth[cell.cell_id] % 2 else "full",
        }
        for cell in cells
    }


def first_repeats(cells: Sequence[results.CellSummary]) -> list[results.CellSummary]:
    """The cells of the first repeat, one of each point, for figures that show single cells."""
    first = min((cell.repeat for cell in results.without_a_a(cells)), default=0)
    return [cell for cell in cells if cell.repeat == first]


def _named(measure: Measure, points: Sequence[results.LoadPoint]) -> Measure:
    named = {point.measure for point in points}
    if measure.plot.name != "accuracy" or MEAN_SCORE not in named:
        return measure
    title = "Mean score" if len(named) == 1 else "Accuracy or mean score"
    caption = (
        "Bars: 95 % interval over tasks. n: scored attempts, by rising concurrency. A mean score "
        "is in its scorer's unit."
    )
    plot = replace(measure.plot, title=title, caption=caption)
    return replace(measure, plot=plot, label=title.lower(), is_share=False)


def load_plot(
    measure: Measure, points: Sequence[results.LoadPoint], cells: Sequence[results.CellSummary]
) -> Plot:
    """Plot one measure of the points against concurrency; `cells` are all cells of the report."""
    points = [point for point in points if measure.value(point) is not None]
    measure = _named(measure, points)
    plot = measure.plot
    if not points:
        return plot
    styles = series_styles(cells)  # of all cells: a policy looks the same in every figure
    columns = 1 if len(styles) > 2 else 2
    with drawing.drawing(5.0, 3.5 + drawing.legend_height(len(styles), columns)) as figure:
        ax = figure.subplots()
        for i, (name, style) in enumerate(styles.items()):
            mine = [point for point in points if series_name(point, cells) == name]
            if not mine:
                continue
            shift = 2 ** (0.09 * (i - (len(styles) - 1) / 2))  # bars side by side, not on another
            n = ", ".join(count(measure.n(point)) for point in mine)
            _load_line(ax, measure, mine, shift, dict(style) | {"label": f"{name} (n = {n})"})
        drawing.load_axis(ax, sorted({point.concurrency for point in points}))
        ax.set(xlabel="sessions at once", ylabel=measure.label)
        ax.set_ylim(bottom=0)
        if measure.is_share:
            ax.set_ylim(0, 1.02)
            ax.yaxis.set_major_formatter(drawing.percent())
        drawing.with_grid(ax, "y")
        drawing.keep_whole(ax)
        drawing.legend_above(figure, ax, columns)
    return Plot(plot.name, plot.title, plot.caption, figure)


def _load_line(
    ax: "Axes", measure: Measure, points: Sequence[results.LoadPoint], shift: float, style: Style
) -> None:
    x = [point.concurrency * shift for point in points]
    values = [measure.value(point) or 0.0 for point in points]
    ax.plot(x, values, markersize=5, linewidth=1.5, **style)
    for at, value, point in zip(x, values, points, strict=True):
        interval = measure.interval(point)
        if interval is None:
            ax.plot(at, value, marker="o", markersize=9, fillstyle="none", color=style["color"])
        else:
            bar = {"color": style["color"], "capsize": 3, "linewidth": 1.4}
            ax.errorbar(at, value, yerr=drawing.arms(value, interval), **bar)


def _bar(ax: "Axes", score: FamilyScore, y: float, thick: float, tone: str) -> None:
    ends = (score.accuracy if end is None else end for end in (score.low, score.high))
    spread = [[abs(score.accuracy - end)] for end in ends]
    ax.barh(y, score.accuracy, thick * 0.86, color=tone, alpha=0.35, linewidth=0)
    ax.errorbar(score.accuracy, y, xerr=spread, fmt="s", markersize=4, color=tone, capsize=2.5)
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
    ax.text(1.02, y, f"n = {count(score.n)}", color=drawing.INK, **place)


def pareto_plot(found: Sequence[Efficiency], cells: Sequence[results.CellSummary]) -> Plot:
    """Accuracy against cost, seconds where nothing costs, a panel a benchmark."""
    title = "Accuracy against cost"
    caption = (
        "A mark a set-up, its load beside it; bars: 95 % intervals. The line joins those that no "
        "other beats in both. Hollow: surely beaten by another, as far as the intervals go."
    )
    benchmarks = dict.fromkeys(each.point.benchmark for each in found)
    panels = {
        name: placed
        for name in benchmarks
        if (placed := place([each for each in found if each.point.benchmark == name]))
    }
    if not panels:
        missing = "No set-up has an accuracy with a cost or a duration: no front."
        return Plot("pareto", title, caption, missing=missing)
    if not any(each.pays for each in found):
        title = "Accuracy against time"
        caption += " Nothing costs money here, so time is what it costs."
    if len(panels) > MOST_PANELS:
        caption += f" The first {MOST_PANELS} of {len(panels)} benchmarks; the table has all."
    shown = list(panels.items())[:MOST_PANELS]
    series = len({series_name(each.point, cells) for each in found})
    height = 3.5 + drawing.legend_height(series, 2)
    with drawing.drawing(5.0 if len(shown) == 1 else PAGE_IN, height) as figure:
        axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for ax, (name, placed) in zip(axes, shown, strict=True):
            _front(ax, placed, cells)
            paid = any(each.pays for each, _ in placed)
            ax.set(xlabel="USD an attempt" if paid else "seconds an attempt")
            if len(shown) > 1:
                ax.set_title(name)
        axes[0].set_ylabel("accuracy")
        drawing.legend_above(figure, axes[0], 2)
    return Plot("pareto", title, caption, figure)


def _front(
    ax: "Axes", placed: Sequence[tuple[Efficiency, Point]], cells: Sequence[results.CellSummary]
) -> None:
    styles, named = series_styles(cells), set()
    for each, point in placed:
        name = series_name(each.point, cells)
        ax.errorbar(
            point.cost,
            point.accuracy,
            xerr=_error(point.cost, point.cost_low, point.cost_high),
            yerr=_error(point.accuracy, point.accuracy_low, point.accuracy_high),
            color=styles[name]["color"],
            marker=styles[name]["marker"],
            fillstyle="none" if each.standing == "off" else "full",
            markersize=6,
            linewidth=0.9,
            capsize=2,
            linestyle="",
            label=None if name in named else name,
        )
        named.add(name)
    if len(placed) <= MOST_NAMED:
        for each, point in placed:
            where, load = (point.cost, point.accuracy), str(each.point.concurrency)
            ax.annotate(
                load, where, (4, 4), textcoords="offset points", fontsize=8, color=drawing.INK
            )
    points = [point for _, point in placed]
    best = zip(points, pareto_front(points), strict=True)
    front = sorted((point.cost, point.accuracy) for point, at in best if at.on_front)
    ax.step(*zip(*front, strict=True), where="post", color=drawing.INK, linewidth=1.0, zorder=0)
    ax.set_xlim(left=0)
    ax.locator_params(axis="x", nbins=4)  # a price has up to seven digits
    ends = [each for p in points for each in (p.accuracy, p.accuracy_low, p.accuracy_high)]
    known = [end for end in ends if end is not None]
    ax.set_ylim(max(0.0, min(known) - 0.05), min(1.005, max(known) + 0.05))
    ax.yaxis.set_major_formatter(drawing.percent())
    drawing.with_grid(ax, "both")
    drawing.keep_whole(ax)


def _error(value: float, low: float | None, high: float | None) -> list[list[float]] | None:
    return None if low is None or high is None else drawing.arms(value, (low, high))
