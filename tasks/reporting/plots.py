"""The report's figures: drawn with matplotlib, or a sentence that says which data is missing.

In: summaries, and a connection for the series. Out: `Plot`s; `svg` and `png` render one. The same
data gives the same bytes. matplotlib is imported only when something is drawn.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.reporting.drawing import INK, Plot, colour, drawing, legend_above, log_seconds, percent
from tasks.reporting.intervals import band_half_width
from tasks.reporting.series import (
    HIT_RATIO,
    KV_USE,
    RUNNING,
    WAITING,
    Series,
    server_series,
)
from tasks.reporting.summary import (
    CellSummary,
    FamilyScore,
    LoadPoint,
    all_families,
    load_points,
    steps_of,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

MARKERS = "osD^vP"
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
CURVE_POINTS = 200  # a curve is thinned to this: more is not seen and makes the page heavy
PANELS_A_ROW = 4
UNSAMPLED = "The server was not sampled, or there are no calls to count the seconds from."
PANEL_IN, PAGE_IN = 4.4, 12.0  # inches: a panel where there is room, and the page
Style = Mapping[str, Any]


def load_plots(cells: Sequence[CellSummary]) -> list[Plot]:
    """Steps per minute and accuracy against concurrency, a line a policy."""
    points = load_points(cells)
    rates = [(p, p.rate, p.rate_interval, p.steps) for p in points if p.rate is not None]
    shares = [(p, p.correct / p.n, p.accuracy_interval, p.n) for p in points if p.n]
    return [
        _load_plot(
            Plot(
                "throughput",
                "Steps per minute by concurrency",
                "Bars: 95 % interval (batch means in one cell's window; t over repeats). A ringed "
                "mark has no interval: its window is too short. n: steps, by rising concurrency.",
                missing="No cell has a window with requests in it: no rates.",
            ),
            rates,
            "steps per minute",
            cells,
        ),
        _load_plot(
            Plot(
                "accuracy",
                "Accuracy by concurrency",
                "Bars: Wilson's 95 % interval. n: scored attempts, by rising concurrency.",
                missing="No attempt was scored: no accuracy.",
            ),
            shares,
            "accuracy",
            cells,
        ),
    ]


def timeline_plots(connection: "DuckDBPyConnection", cells: Sequence[CellSummary]) -> list[Plot]:
    """KV use, requests and prefix hits over time; one figure a concurrency and four cells."""
    plots = []
    for concurrency in sorted({cell.concurrency for cell in cells}):
        alike = [cell for cell in cells if cell.concurrency == concurrency]
        for first in range(0, len(alike), PANELS_A_ROW):
            part = f"-{first // PANELS_A_ROW + 1}" if len(alike) > PANELS_A_ROW else ""
            shown = alike[first : first + PANELS_A_ROW]
            plots.append(_timeline(connection, f"timeline-{concurrency}{part}", shown))
    if plots:
        return plots
    return [Plot("timeline", "The server over time", "", missing="The sweep has no cells.")]


def latency_plot(connection: "DuckDBPyConnection", cells: Sequence[CellSummary]) -> Plot:
    """Distribution of step latency in each cell's window, a panel a concurrency."""
    caption = (
        "Share of steps done within a time. Band: 95 % band of the whole curve "
        "(Dvoretzky, Kiefer, Wolfowitz). n: steps in the window."
    )
    plot = Plot(
        "latency", "Distribution by policy", caption, missing="No finished steps: no latencies."
    )
    found = [(c, sorted(late for _, late in steps_of(connection, c))) for c in cells]
    found = [(cell, latencies) for cell, latencies in found if latencies]
    loads = sorted({cell.concurrency for cell, _ in found})
    if not loads:
        return plot
    styles = series_styles(cells)
    with drawing(min(PAGE_IN, PANEL_IN * len(loads) + 0.8), 3.6) as figure:
        axes = figure.subplots(1, len(loads), sharey=True, sharex=True, squeeze=False)[0]
        for ax, load in zip(axes, loads, strict=True):
            for cell, latencies in found:
                if cell.concurrency == load:
                    _ecdf(ax, latencies, cell_name(cell, cells), styles[series_name(cell, cells)])
            ax.set(title=f"{load} at once", xlabel="step latency (s)", ylim=(0, 1.02))
            log_seconds(ax)
            ax.legend(loc="lower right", fontsize=8)
        axes[0].set_ylabel("share of steps")
        axes[0].yaxis.set_major_formatter(percent())
    return Plot(plot.name, plot.title, plot.caption, figure)


def family_plot(scores: Sequence[FamilyScore]) -> Plot:
    """Accuracy by family, a bar a model."""
    caption = "Bars' whiskers: Wilson's 95 % interval. n: scored attempts."
    title = "Accuracy by family"
    if not scores:
        return Plot("families", title, caption, missing="No attempt was scored: no accuracy.")
    models = list(dict.fromkeys(score.model for score in scores))
    families = ["all families", *sorted({score.family for score in scores})]
    rows = {(s.family, s.model): s for s in [*scores, *all_families(scores)]}
    thick = 0.8 / len(models)
    with drawing(7.6, 1.3 + 0.32 * len(families) * len(models)) as figure:
        ax = figure.subplots()
        for i, model in enumerate(models):
            for y, family in enumerate(families):
                if score := rows.get((family, model)):
                    _bar(ax, score, y - 0.4 + thick * (i + 0.5), thick, i)
            ax.barh(0, 0, color=colour(i), label=model)  # the legend's entry
        ax.set(yticks=range(len(families)), yticklabels=families, xlim=(0, 1), xlabel="accuracy")
        ax.invert_yaxis()
        ax.xaxis.set_major_formatter(percent())
        ax.grid(axis="x")
        ax.set_axisbelow(True)
        legend_above(figure, ax, len(models))
    return Plot("families", title, caption, figure)


def series_name(item: CellSummary | LoadPoint, cells: Sequence[CellSummary]) -> str:
    """The policy, with benchmark and model in front where the cells differ in them."""
    parts = [
        getattr(item, key)
        for key in ("benchmark", "model")
        if len({getattr(cell, key) for cell in cells}) > 1
    ]
    return " / ".join([*parts, item.policy])


def cell_name(cell: CellSummary, cells: Sequence[CellSummary]) -> str:
    """The series' name, with the repeat where the cells differ in it."""
    name = series_name(cell, cells)
    return name if len({c.repeat for c in cells}) == 1 else f"{name}, repeat {cell.repeat}"


def series_styles(cells: Sequence[CellSummary]) -> dict[str, Style]:
    """Colour, marker and dashes of each series: told apart without colour too."""
    names = dict.fromkeys(series_name(cell, cells) for cell in cells)
    return {
        name: {
            "color": colour(i),
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i % len(DASHES)],
        }
        for i, name in enumerate(names)
    }


def _load_plot(
    plot: Plot,
    values: Sequence[tuple[LoadPoint, Any, Any, int]],
    label: str,
    cells: Sequence[CellSummary],
) -> Plot:
    if not values:
        return plot
    styles = series_styles(cells)  # of all cells: a policy looks the same in every figure
    with drawing(5.6, 3.9) as figure:
        ax = figure.subplots()
        for i, (name, style) in enumerate(styles.items()):
            mine = [value for value in values if series_name(value[0], cells) == name]
            if not mine:
                continue
            shift = 2 ** (0.07 * (i - (len(styles) - 1) / 2))  # bars side by side, not on another
            _load_line(ax, mine, shift, dict(style) | {"label": _n_label(name, mine)})
        loads = sorted({point.concurrency for point, *_ in values})
        ax.set_xscale("log", base=2)
        ax.set_xlim(loads[0] / 1.5, loads[-1] * 1.5)
        ax.set_xticks(loads, [str(load) for load in loads])
        ax.minorticks_off()
        ax.set(xlabel="sessions at once", ylabel=label)
        ax.set_ylim(bottom=0)
        if label == "accuracy":
            ax.set_ylim(0, 1.02)
            ax.yaxis.set_major_formatter(percent())
        ax.grid(axis="y")
        legend_above(figure, ax, 2)
    return Plot(plot.name, plot.title, plot.caption, figure)


def _load_line(
    ax: "Axes", values: Sequence[tuple[LoadPoint, Any, Any, int]], shift: float, style: Style
) -> None:
    x = [point.concurrency * shift for point, *_ in values]
    ax.plot(x, [value for _, value, *_ in values], markersize=5, linewidth=1.4, **style)
    for at, (_, value, interval, _) in zip(x, values, strict=True):
        if interval is None:
            ax.plot(at, value, marker="o", markersize=9, fillstyle="none", color=style["color"])
        else:
            spread = [[max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]]
            ax.errorbar(at, value, yerr=spread, color=style["color"], capsize=3, linewidth=1.4)


def _n_label(name: str, values: Sequence[tuple[LoadPoint, Any, Any, int]]) -> str:
    return f"{name} (n = {', '.join(str(n) for *_, n in values)})"


PANELS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("KV cache in use", {KV_USE: ""}),
    ("requests", {RUNNING: "running", WAITING: "waiting"}),
    ("prefix hits", {HIT_RATIO: ""}),
)


def _timeline(connection: "DuckDBPyConnection", name: str, cells: Sequence[CellSummary]) -> Plot:
    title = f"The server over time, {cells[0].concurrency} at once"
    found = [(cell, server_series(connection, cell.cell_id)) for cell in cells]
    unsampled = [cell_name(cell, cells) for cell, engines in found if not engines]
    found = [(cell, engines) for cell, engines in found if engines]
    if not found:
        return Plot(name, title, "", missing=UNSAMPLED)
    with drawing(min(PAGE_IN, PANEL_IN * len(found) + 0.8), 5.2) as figure:
        grid = figure.subplots(3, len(found), sharex=True, sharey="row", squeeze=False)
        for column, (cell, engines) in enumerate(found):
            samples = sum(series.samples for series in engines)
            grid[0][column].set_title(f"{cell_name(cell, cells)} (n = {samples})")
            for ax, (label, metrics) in zip(grid[:, column], PANELS, strict=True):
                _panel(ax, cell, engines, metrics)
                if column == 0:
                    ax.set_ylabel(label)
            grid[2][column].set_xlabel("s since first request")
        for ax in (grid[0][0], grid[2][0]):
            ax.set_ylim(0, 1.02)
            ax.yaxis.set_major_formatter(percent())
        grid[1][0].set_ylim(0, 1.35 * max(1.0, grid[1][0].get_ylim()[1]))  # room for the legend
        grid[1][0].yaxis.get_major_locator().set_params(integer=True)
    caption = (
        "Shaded: the window the tables are about. Prefix hits: tokens found in the cache over "
        "tokens looked up, between samples. n: samples; long runs show the mean of neighbours."
    )
    if unsampled:
        caption += f" Not sampled, so not shown: {', '.join(unsampled)}."
    return Plot(name, title, caption, figure)


def _panel(
    ax: "Axes", cell: CellSummary, engines: Sequence[Series], metrics: Mapping[str, str]
) -> None:
    drawn = False
    for series in engines:
        for i, (metric, label) in enumerate(metrics.items()):
            values = [float("nan") if v is None else v for v in series.values[metric]]
            if all(v != v for v in values):
                continue
            # A lone value between gaps has no line, so it gets a dot.
            style: Style = {"color": colour(i), "marker": ".", "markevery": _lone(values)}
            ax.plot(series.seconds, values, markersize=4, linewidth=1.2, label=label, **style)
            drawn = True
    if not drawn:
        ax.text(0.5, 0.5, "not sampled", transform=ax.transAxes, ha="center", style="italic")
        return
    if cell.window_start_s is not None and cell.window_end_s is not None:
        ax.axvspan(cell.window_start_s, cell.window_end_s, color=INK, alpha=0.13, linewidth=0)
    ax.grid(axis="y")
    if len(metrics) > 1:
        handles, labels = ax.get_legend_handles_labels()
        first = dict(zip(labels, handles, strict=True))  # one entry, however many engines
        ax.legend(first.values(), first.keys(), fontsize=8, loc="upper right")


def _lone(values: Sequence[float]) -> list[int]:
    nan = float("nan")
    edged = [nan, *values, nan]
    absent = [value != value for value in edged]
    return [i for i in range(len(values)) if absent[i] and not absent[i + 1] and absent[i + 2]]


def _ecdf(ax: "Axes", latencies: Sequence[float], name: str, style: Style) -> None:
    n = len(latencies)
    step = max(1, n // CURVE_POINTS)
    kept = sorted({*range(0, n, step), n - 1})
    x = [max(latencies[i], 1e-6) for i in kept]  # a logarithm has no place for zero
    share = [(i + 1) / n for i in kept]
    half = band_half_width(n)
    low, high = [max(0.0, y - half) for y in share], [min(1.0, y + half) for y in share]
    line = {key: style[key] for key in ("color", "linestyle")}
    ax.step(x, share, where="post", linewidth=1.4, label=f"{name} (n = {n})", **line)
    ax.fill_between(x, low, high, step="post", color=style["color"], alpha=0.15, linewidth=0)
    ax.grid(axis="both")


def _bar(ax: "Axes", score: FamilyScore, y: float, thick: float, i: int) -> None:
    spread = [
        [max(0.0, score.accuracy - score.low)],
        [max(0.0, score.high - score.accuracy)],
    ]
    ax.barh(y, score.accuracy, thick * 0.9, color=colour(i), alpha=0.75)
    ax.errorbar(score.accuracy, y, xerr=spread, color=INK, capsize=2.5, linewidth=1.3)
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
    ax.text(1.02, y, f"n = {score.n}", **place)
