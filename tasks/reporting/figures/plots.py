"""The report's figures of outcomes: against concurrency, distributions, families.

In: summaries, and a connection of `focus` for the distributions. Out: `Plot`s, or a sentence that
says which data is missing; `svg` and `png` render one. matplotlib is imported only when something
is drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.families import FamilyScore, all_families
from tutti.tasks.reporting.figures.drawing import (
    DASHES,
    INK,
    OTHERS,
    Plot,
    arms,
    drawing,
    keep_whole,
    legend_above,
    legend_height,
    load_axis,
    log_seconds,
    percent,
    policy_styles,
    with_grid,
)
from tutti.tasks.reporting.text.numbers import MEAN_SCORE, count
from tutti.tasks.scoring.statistics import Interval
from tutti.tasks.sweeps.results import (
    CellSummary,
    LoadPoint,
    band_half_width,
    differing,
    load_points,
    rows,
    with_known_load,
    without_a_a,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

CURVE_POINTS = 80  # a curve is thinned to this: more is not seen and makes the page heavy
PANEL_IN, PAGE_IN = 4.4, 12.0  # inches: a panel where there is room, and the page
LATENCY_PANELS = 4  # loads shown side by side: the lowest, the highest, and between them
FAMILIES_SHOWN = 24
MODEL_COLOURS = (INK, *OTHERS)  # no policy's
Style = Mapping[str, Any]

# Every step's latency is one row; a curve keeps every so many of them, the least and the most.
CURVES_SQL = f"""
with ranked as (
    select cell_id, latency_s, row_number() over (partition by cell_id order by latency_s) as nth,
           count(*) over (partition by cell_id) as n
    from steps s join cell_windows w using (cell_id)
    where s.end_s >= w.start_s and s.end_s < w.end_s
)
select cell_id, any_value(n) as n, list(latency_s order by nth) as latencies,
       list(nth / n order by nth) as shares
from ranked where nth = 1 or nth = n or nth % greatest(1, n // {CURVE_POINTS}) = 0
group by cell_id
"""


@dataclass(frozen=True)
class Measure:
    """What is drawn against concurrency."""

    plot: Plot
    label: str
    value: Callable[[LoadPoint], float | None]
    interval: Callable[[LoadPoint], Interval | None]
    n: Callable[[LoadPoint], int]
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


def load_plots(cells: Sequence[CellSummary]) -> list[Plot]:
    """Steps per minute, accuracy, step latency and cost against concurrency, a line a policy."""
    points = load_points(with_known_load(cells))
    return [load_plot(measure, points, cells) for measure in MEASURES]


def latency_plot(focused: "DuckDBPyConnection", cells: Sequence[CellSummary]) -> Plot:
    """Distribution of step latency in each cell's window, a panel a load; the first repeats."""
    title = "Step latency, distribution by policy"
    caption = (
        "Share of steps done within a time. Band: 95 % band of the whole curve "
        "(Dvoretzky, Kiefer, Wolfowitz). n: steps in the window. Of several repeats the first."
    )
    curves = {row["cell_id"]: row for row in rows(focused, CURVES_SQL)}
    found = [
        (cell, curves[cell.cell_id])
        for cell in first_repeats(with_known_load(cells))
        if cell.cell_id in curves
    ]
    loads = spread_out(sorted({cell.concurrency for cell, _ in found}), LATENCY_PANELS)
    if not loads:
        return Plot("latency", title, caption, missing="No finished steps: no latencies.")
    styles = series_styles(cells)
    most = max(sum(cell.concurrency == load for cell, _ in found) for load in loads)
    height = 3.6 + legend_height(most + 1, 1)  # none of it has room in the axes
    with drawing(min(PAGE_IN, PANEL_IN * len(loads) + 0.8), height) as figure:
        axes = figure.subplots(1, len(loads), sharey=True, sharex=True, squeeze=False)[0]
        for ax, load in zip(axes, loads, strict=True):
            of_load = [(cell, curve) for cell, curve in found if cell.concurrency == load]
            for cell, curve in of_load:
                name = series_name(cell, cells)
                _ecdf(ax, curve, name, styles[name])
            ax.set(title=f"{load} at once", xlabel="step latency (s)", ylim=(0, 1.02))
            log_seconds(ax)
            ax.legend(loc="upper left", bbox_to_anchor=(0, -0.2), fontsize=8)
        axes[0].set_ylabel("share of steps")
        axes[0].yaxis.set_major_formatter(percent())
    return Plot("latency", title, caption, figure)


def family_plot(scores: Sequence[FamilyScore]) -> Plot:
    """Accuracy by family, a bar a model."""
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
    with drawing(7.6, 1.0 + 0.3 * len(families) * max(1.0, 0.6 * len(models))) as figure:
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
        ax.xaxis.set_major_formatter(percent())
        with_grid(ax, "x")
        keep_whole(ax)
        legend_above(figure, ax, 2)
    return Plot("families", title, caption, figure)


def series_name(item: CellSummary | LoadPoint, cells: Sequence[CellSummary]) -> str:
    """The policy, with benchmark and model in front where the cells differ in them."""
    return " / ".join([*differing(item, cells), item.policy])


def series_styles(cells: Sequence[CellSummary]) -> dict[str, Style]:
    """Colour and marker by policy, dashes by benchmark and model: told apart without colour too."""
    policies = policy_styles(cell.policy for cell in cells)
    settings = list(dict.fromkeys(tuple(differing(cell, cells)) for cell in cells))
    nth = {cell.cell_id: settings.index(tuple(differing(cell, cells))) for cell in cells}
    return {
        series_name(cell, cells): {
            "color": policies[cell.policy][0],
            "marker": policies[cell.policy][1],
            "linestyle": DASHES[nth[cell.cell_id] % len(DASHES)],
            "fillstyle": "none" if nth[cell.cell_id] % 2 else "full",
        }
        for cell in cells
    }


def first_repeats(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """The cells of the first repeat: one of each point, where figures show cells one by one."""
    first = min((cell.repeat for cell in without_a_a(cells)), default=0)
    return [cell for cell in cells if cell.repeat == first]


def spread_out(values: Sequence[int], most: int) -> list[int]:
    """At most so many of the sorted values, the first and the last among them, evenly apart."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _named(measure: Measure, points: Sequence[LoadPoint]) -> Measure:
    """The measure of scores under the name of what the points' benchmarks report."""
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


def load_plot(measure: Measure, points: Sequence[LoadPoint], cells: Sequence[CellSummary]) -> Plot:
    """One measure of the points against concurrency; `cells` are all that the report shows."""
    points = [point for point in points if measure.value(point) is not None]
    measure = _named(measure, points)
    plot = measure.plot
    if not points:
        return plot
    styles = series_styles(cells)  # of all cells: a policy looks the same in every figure
    columns = 1 if len(styles) > 2 else 2
    with drawing(5.0, 3.5 + legend_height(len(styles), columns)) as figure:
        ax = figure.subplots()
        for i, (name, style) in enumerate(styles.items()):
            mine = [point for point in points if series_name(point, cells) == name]
            if not mine:
                continue
            shift = 2 ** (0.09 * (i - (len(styles) - 1) / 2))  # bars side by side, not on another
            n = ", ".join(count(measure.n(point)) for point in mine)
            _load_line(ax, measure, mine, shift, dict(style) | {"label": f"{name} (n = {n})"})
        load_axis(ax, sorted({point.concurrency for point in points}))
        ax.set(xlabel="sessions at once", ylabel=measure.label)
        ax.set_ylim(bottom=0)
        if measure.is_share:
            ax.set_ylim(0, 1.02)
            ax.yaxis.set_major_formatter(percent())
        with_grid(ax, "y")
        keep_whole(ax)
        legend_above(figure, ax, columns)
    return Plot(plot.name, plot.title, plot.caption, figure)


def _load_line(
    ax: "Axes", measure: Measure, points: Sequence[LoadPoint], shift: float, style: Style
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
            ax.errorbar(at, value, yerr=arms(value, interval), **bar)


def _ecdf(ax: "Axes", curve: Mapping[str, Any], name: str, style: Style) -> None:
    x = [max(latency, 1e-6) for latency in curve["latencies"]]  # a logarithm has no place for zero
    shares, half = curve["shares"], band_half_width(curve["n"])
    low, high = [max(0.0, y - half) for y in shares], [min(1.0, y + half) for y in shares]
    line = {key: style[key] for key in ("color", "linestyle")}
    ax.step(
        x, shares, where="post", linewidth=1.4, label=f"{name} (n = {count(curve['n'])})", **line
    )
    ax.fill_between(x, low, high, step="post", color=style["color"], alpha=0.13, linewidth=0)
    with_grid(ax, "both")


def _bar(ax: "Axes", score: FamilyScore, y: float, thick: float, tone: str) -> None:
    """A bar with its interval and n; the interval is read against the bar, so the bar is pale."""
    ends = (score.accuracy if end is None else end for end in (score.low, score.high))
    spread = [[abs(score.accuracy - end)] for end in ends]
    ax.barh(y, score.accuracy, thick * 0.86, color=tone, alpha=0.35, linewidth=0)
    ax.errorbar(score.accuracy, y, xerr=spread, fmt="s", markersize=4, color=tone, capsize=2.5)
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
    ax.text(1.02, y, f"n = {count(score.n)}", color=INK, **place)
