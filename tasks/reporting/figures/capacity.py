"""The report's figures of capacity: load asked and reached, goodput, and the front of the cheap and
the good.

In: summaries and efficiencies. Out: `Plot`s, or a sentence that says which data is missing.
matplotlib is imported only when something is drawn.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tutti.tasks.reporting.efficiency import Efficiency, place
from tutti.tasks.reporting.figures.drawing import (
    INK,
    Plot,
    arms,
    drawing,
    keep_whole,
    legend_above,
    legend_height,
    load_axis,
    percent,
    with_grid,
)
from tutti.tasks.reporting.figures.plots import (
    PAGE_IN,
    PANEL_IN,
    Measure,
    first_repeats,
    load_plot,
    series_name,
    series_styles,
    spread_out,
)
from tutti.tasks.scoring.statistics import Point, pareto_front
from tutti.tasks.sweeps.results import CellSummary, ids_of, with_known_load

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS: tuple[tuple[str, str, str, Callable[[CellSummary], float | None]], ...] = (
    ("sessions", "-", "o", lambda c: c.sessions_mean),
    ("model calls in flight", "--", "s", lambda c: c.calls_in_flight_mean),
    ("tools running", ":", "^", lambda c: c.tools_running_mean),
)
"""The three levels of load, innermost last."""
MOST_PANELS = 4
MOST_NAMED = 24  # marks with their load beside them
NEAR = 0.02  # of the axes: numbers beside marks that are nearer would lie on one another


def reached_plot(cells: Sequence[CellSummary]) -> Plot:
    """Sessions, calls in flight and tools running against the sessions asked for, by policy."""
    caption = (
        "Means over the window; of several repeats the first. Grey: what was asked for. A session "
        "is in a call, in a tool, held by the gateway, or between two of them."
    )
    title = "Sessions, model calls and tools at once"
    measured = [c for c in first_repeats(with_known_load(cells)) if c.sessions_mean is not None]
    if not measured:
        return Plot("reached", title, caption, missing="No cell has a window: no load was reached.")
    styles = series_styles(cells)
    names = list(dict.fromkeys(series_name(cell, cells) for cell in measured))
    shown = [names[i] for i in spread_out(range(len(names)), MOST_PANELS)]
    if len(shown) < len(names):
        caption += f" {len(shown)} of {len(names)} series; the table has all."
    loads = sorted({cell.concurrency for cell in measured})
    with drawing(min(PAGE_IN, PANEL_IN * len(shown) + 0.8), 3.2) as figure:
        axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for ax, name in zip(axes, shown, strict=True):
            mine = [cell for cell in measured if series_name(cell, cells) == name]
            mine.sort(key=lambda cell: cell.concurrency)
            ax.plot(loads, loads, color=INK, linewidth=5, alpha=0.25, label="asked")
            for label, dashes, marker, value in LEVELS:
                ax.plot(
                    [cell.concurrency for cell in mine],
                    [value(cell) for cell in mine],
                    color=styles[name]["color"],
                    linestyle=dashes,
                    marker=marker,
                    markersize=4.5,
                    label=label,
                )
            ax.set(title=name, xlabel="sessions asked for")
            load_axis(ax, loads)
            ax.set_ylim(bottom=0)
            with_grid(ax, "y")
            keep_whole(ax)
        axes[0].set_ylabel("at once")
        axes[0].legend(fontsize=8, loc="upper left")
    return Plot("reached", title, caption, figure)


def goodput_plot(found: Sequence[Efficiency], cells: Sequence[CellSummary]) -> Plot:
    """Tasks solved in time, an engine and hour, against concurrency, a line a policy."""
    by_point = {ids_of(each.point): each for each in found}
    limits = sorted({each.limit_s for each in found if each.limit_s is not None})
    words = " and ".join(f"{limit:.3g} s" for limit in limits) or "the limit"
    measure = Measure(
        Plot(
            "goodput",
            "Solved in time, an engine and hour",
            f"Tasks solved with no step slower than {words}. Bars: 95 % interval (batch means in "
            "one cell's window; t over repeats). A ringed mark has no interval: fewer than 50 of "
            "them. n: solved attempts, by rising concurrency.",
            missing="No cell has a window with steps in it: no goodput.",
        ),
        "solved per engine-hour",
        lambda p: by_point[ids_of(p)].goodput.value,
        lambda p: by_point[ids_of(p)].goodput.interval,
        lambda p: by_point[ids_of(p)].solved,
    )
    return load_plot(measure, [each.point for each in found], cells)


def pareto_plot(found: Sequence[Efficiency], cells: Sequence[CellSummary]) -> Plot:
    """Accuracy against cost, seconds where nothing costs, a panel a benchmark."""
    title = "Accuracy against cost"
    caption = (
        "A mark a set-up, its load beside it; bars: 95 % intervals. The line joins those that no "
        "other beats in both. Hollow: surely beaten by another, as far as the intervals go."
    )
    by_benchmark: dict[str, list[Efficiency]] = {}
    for each in found:
        by_benchmark.setdefault(each.point.benchmark, []).append(each)
    panels = {name: place(mine) for name, mine in by_benchmark.items()}
    panels = {name: placed for name, placed in panels.items() if placed}
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
    height = 3.5 + legend_height(series, 2)
    with drawing(5.0 if len(shown) == 1 else PAGE_IN, height) as figure:
        axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for ax, (name, placed) in zip(axes, shown, strict=True):
            _front(ax, placed, cells)
            paid = any(each.pays for each, _ in placed)
            ax.set(xlabel="USD an attempt" if paid else "seconds an attempt")
            if len(shown) > 1:
                ax.set_title(name)
        axes[0].set_ylabel("accuracy")
        legend_above(figure, axes[0], 2)
    return Plot("pareto", title, caption, figure)


def _front(
    ax: "Axes", placed: Sequence[tuple[Efficiency, Point]], cells: Sequence[CellSummary]
) -> None:
    styles, named = series_styles(cells), set()
    for each, point in placed:
        name = series_name(each.point, cells)
        style = styles[name]
        label = None if name in named else name
        named.add(name)
        off = each.standing == "off"
        ax.errorbar(
            point.cost,
            point.accuracy,
            xerr=_bar(point.cost, point.cost_low, point.cost_high),
            yerr=_bar(point.accuracy, point.accuracy_low, point.accuracy_high),
            color=style["color"],
            marker=style["marker"],
            fillstyle="none" if off else "full",
            markersize=6,
            linewidth=0.9,
            capsize=2,
            linestyle="",
            label=label,
        )
    if len(placed) <= MOST_NAMED:
        for where, loads in _loads_at(placed).items():
            ax.annotate(loads, where, (4, 4), textcoords="offset points", fontsize=8, color=INK)
    best = pareto_front([point for _, point in placed])
    front = sorted(
        (point.cost, point.accuracy)
        for (_, point), at in zip(placed, best, strict=True)
        if at.on_front
    )
    ax.step(*zip(*front, strict=True), where="post", color=INK, linewidth=1.0, zorder=0)
    if max(p.cost for _, p in placed) > 20 * min(p.cost for _, p in placed) > 0:
        ax.set_xscale("log")
    else:
        ax.set_xlim(left=0)
        ax.locator_params(axis="x", nbins=4)  # a price has up to seven digits
    ends = [end for _, p in placed for end in (p.accuracy_low, p.accuracy_high) if end is not None]
    ends += [point.accuracy for _, point in placed]
    ax.set_ylim(max(0.0, min(ends) - 0.05), min(1.005, max(ends) + 0.05))
    ax.yaxis.set_major_formatter(percent())
    with_grid(ax, "both")
    keep_whole(ax)


def _loads_at(placed: Sequence[tuple[Efficiency, Point]]) -> dict[tuple[float, float], str]:
    """By the place of a mark its load, or those of all marks that lie there: ``2, 8``."""
    widest = max(point.cost for _, point in placed) or 1.0
    found: dict[tuple[int, int], tuple[tuple[float, float], set[int]]] = {}
    for each, point in placed:
        near = round(point.cost / widest / NEAR), round(point.accuracy / NEAR)
        found.setdefault(near, ((point.cost, point.accuracy), set()))[1].add(each.point.concurrency)
    return {where: ", ".join(map(str, sorted(loads))) for where, loads in found.values()}


def _bar(value: float, low: float | None, high: float | None) -> list[list[float]] | None:
    return None if low is None or high is None else arms(value, (low, high))
