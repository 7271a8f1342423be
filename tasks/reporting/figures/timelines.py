"""The report's figures of what went on: each cell over time, and where its steps' time went.

In: cells with a connection of `focus`, or anatomies. Out: `Plot`s, or a sentence that says which
data is missing. matplotlib is imported only when something is drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.anatomy import PARTS, Anatomy
from tutti.tasks.reporting.figures.drawing import (
    INK,
    TINT,
    Plot,
    drawing,
    legend_above,
    percent,
    policy_styles,
    with_grid,
)
from tutti.tasks.reporting.figures.drawing import PARTS as PART_COLOURS
from tutti.tasks.reporting.figures.plots import (
    PAGE_IN,
    PANEL_IN,
    first_repeats,
    series_name,
    spread_out,
)
from tutti.tasks.sweeps.results import CellSummary, rows, rows_by, with_known_load

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

KV_USE, RUNNING, WAITING, HIT_RATIO = "kv_use", "running", "waiting", "hit_ratio"
POINTS = 160  # about one for two pixels of a panel
RATE_BINS = 32  # of a cell's time, at most; fewer where a bin would hold less than five steps
FEWEST_BINS = 4

# vLLM's name or SGLang's. Counters are differences between neighbouring samples; one that is lower
# than the sample before (a restarted engine) counts from 0, as in window_summary.
SERIES_SQL = f"""
with samples as (
    select engine_id, name, value, (epoch_us("at") - epoch_us(t0)) / 1e6 as second,
           lag(value) over (partition by engine_id, name order by "at") as before,
           if(value >= before, value - before, if(before is null, null, value)) as delta
    from server_metrics join origins using (cell_id)
    where cell_id = $cell and t0 is not null and engine_id is distinct from 'client'
),
width as (select greatest((max(second) - min(second)) / {POINTS}, 0.001) as s from samples)
select engine_id, avg(second) as second, count(distinct second) as samples,
       avg(value) filter (name in ('vllm:kv_cache_usage_perc', 'sglang:token_usage')) as {KV_USE},
       avg(value) filter (name in ('vllm:num_requests_running', 'sglang:num_running_reqs'))
           as {RUNNING},
       avg(value) filter (name in ('vllm:num_requests_waiting', 'sglang:num_queue_reqs'))
           as {WAITING},
       sum(delta) filter (name in ('vllm:prefix_cache_hits_total', 'sglang:cached_tokens_total'))
       / nullif(sum(delta) filter (name in ('vllm:prefix_cache_queries_total',
                                            'sglang:prompt_tokens_total')), 0)
           as {HIT_RATIO}
from samples, width
group by engine_id, floor(second / width.s) order by engine_id, second
"""
RATE_SQL = f"""
with mine as (
    select end_s from steps where cell_id = $cell
),
parts as (
    select any_value(last_s) as last_s,
           greatest({FEWEST_BINS}, least({RATE_BINS}, (select count(*) // 5 from mine))) as n
    from cell_windows where cell_id = $cell and last_s > 0
),
bins as (
    select last_s / n as width, unnest(range(n)) as bin from parts where last_s is not null
),
counts as (
    select least(parts.n - 1, floor(end_s / last_s * parts.n)::bigint) as bin, count(*) as n
    from mine, parts where last_s is not null group by all
)
select (bin + 0.5) * width as second, coalesce(n, 0) * 60 / width as per_min
from bins left join counts using (bin) order by bin
"""


@dataclass(frozen=True)
class Series:
    """One engine's metrics; every list is as long as `seconds`."""

    seconds: Sequence[float]
    """Since the cell's first request."""
    values: Mapping[str, Sequence[float | None]]
    samples: int
    """Times at which the server was asked."""


def server_series(focused: "DuckDBPyConnection", cell_id: str) -> list[Series]:
    """One series an engine; empty when the cell has no calls (no time zero) or no samples."""
    return [
        Series(
            [row["second"] for row in found],
            {key: [row[key] for row in found] for key in (KV_USE, RUNNING, WAITING, HIT_RATIO)},
            sum(int(row["samples"]) for row in found),
        )
        for found in rows_by(focused, "engine_id", SERIES_SQL, cell=cell_id).values()
    ]


def rate_series(focused: "DuckDBPyConnection", cell_id: str) -> tuple[list[float], list[float]]:
    """Middles of at most RATE_BINS equal bins of the cell's time, and steps per minute in each."""
    found = rows(focused, RATE_SQL, cell=cell_id)
    return [row["second"] for row in found], [row["per_min"] for row in found]


PANELS_A_ROW = 4
MOST_LOADS = 3  # the lowest, the highest and one between: each cell weighs 20 kB in the page
MOST_PANELS = 8  # of one load
MOST_BARS = 40
HATCHES = {"held": "////", "model, not split": "....", "retrieval": "\\\\\\\\"}
PANELS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("KV cache in use", {KV_USE: ""}),
    ("requests", {RUNNING: "running", WAITING: "waiting"}),
    ("prefix hits", {HIT_RATIO: ""}),
)
WINDOW_CAPTION = (
    "Shaded: the window the tables are about; before it the ramp, after it the drain. Steps: those "
    "that ended in each of equal parts of the cell's time."
)
SAMPLED_CAPTION = (
    "Prefix hits: tokens found in the cache over tokens looked up, between samples; long runs show "
    "the mean of neighbours."
)
UNSAMPLED = "There are no calls to count the seconds from."


def timeline_plots(focused: "DuckDBPyConnection", cells: Sequence[CellSummary]) -> list[Plot]:
    """Steps, KV use, requests and prefix hits over time; a figure for four cells of one load.

    Of several repeats the first. Few loads, few cells: `window_summary` has any other.
    """
    plots: list[Plot] = []
    cells = first_repeats(with_known_load(cells))
    loads = sorted({cell.concurrency for cell in cells})
    for concurrency in spread_out(loads, MOST_LOADS):
        alike = [cell for cell in cells if cell.concurrency == concurrency][:MOST_PANELS]
        for first in range(0, len(alike), PANELS_A_ROW):
            part = f"-{first // PANELS_A_ROW + 1}" if len(alike) > PANELS_A_ROW else ""
            shown = alike[first : first + PANELS_A_ROW]
            named = f"timeline-{concurrency}{part}"
            plots.append(_timeline(focused, named, shown, cells, explained=not plots))
    if plots:
        return plots
    return [Plot("timeline", "Over time", "", missing="The sweep has no cells.")]


def anatomy_plot(found: Sequence[Anatomy], cells: Sequence[CellSummary]) -> Plot:
    """Seconds a step, stacked by part, a bar a cell."""
    title = "Where a step's time goes"
    caption = (
        "Mean seconds a step in the window, at the bar's end all of it. Work at once adds up. "
        "Prefill includes the engine's queue; calls without a first token are split by the "
        "engine's own means, and what those do not explain is not split."
    )
    if not found:
        return Plot("anatomy", title, caption, missing="No finished steps: nothing to take apart.")
    kept = {cell.cell_id for cell in first_repeats([each.cell for each in found])}
    ordered = [each for each in found if each.cell.cell_id in kept]
    if len(found) > min(len(ordered), MOST_BARS):
        caption += f" The first repeats, at most {MOST_BARS} cells; the table has all."
    ordered = ordered[:MOST_BARS]
    present = [part for part in PARTS if any(each.seconds[part] > 0 for each in ordered)]
    most = max(each.total for each in ordered) or 1.0
    with drawing(9.0, 1.1 + 0.3 * len(ordered)) as figure:
        ax = figure.subplots()
        left = [0.0] * len(ordered)
        for part in present:
            widths = [each.seconds[part] for each in ordered]
            style: dict[str, Any] = {"color": PART_COLOURS[part], "hatch": HATCHES.get(part)}
            ax.barh(range(len(ordered)), widths, 0.72, left=left, label=part, linewidth=0, **style)
            left = [x + width for x, width in zip(left, widths, strict=True)]
        for y, each in enumerate(ordered):
            ax.text(each.total + 0.01 * most, y, _seconds(each.total), va="center", fontsize=8)
        names = [f"{series_name(e.cell, cells)}, {e.cell.concurrency} at once" for e in ordered]
        ax.set(yticks=range(len(ordered)), yticklabels=names, xlabel="seconds a step")
        ax.set_xlim(0, 1.12 * most)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(ordered) - 0.5, -0.5)
        with_grid(ax, "x")
        legend_above(figure, ax, min(len(present), 6))
    return Plot("anatomy", title, caption, figure)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def _timeline(
    focused: "DuckDBPyConnection",
    name: str,
    cells: Sequence[CellSummary],
    every: Sequence[CellSummary],
    explained: bool,
) -> Plot:
    """One load's figure; the first of several is `explained` for all of them."""
    title = f"{cells[0].concurrency} at once"
    timed = [cell for cell in cells if cell.last_s is not None and cell.last_s > 0]
    if not timed:
        return Plot(name, title, "", missing=UNSAMPLED)
    found = {cell.cell_id: server_series(focused, cell.cell_id) for cell in timed}
    panels = PANELS if any(found.values()) else ()
    colours = policy_styles(cell.policy for cell in every)
    width, height = min(PAGE_IN, PANEL_IN * len(timed) + 0.8), 1.8 + 1.2 * len(panels)
    with drawing(width, height) as figure:
        # Many small panels: margins of known inches, for finding them takes as long as drawing.
        figure.set_layout_engine("none")
        edges = {"left": 0.9 / width, "right": 1 - 0.1 / width, "hspace": 0.2, "wspace": 0.05}
        edges |= {"bottom": 0.5 / height, "top": 1 - 0.5 / height}
        grid = figure.subplots(
            1 + len(panels),
            len(timed),
            sharex="col",
            sharey="row",
            squeeze=False,
            gridspec_kw=edges,
        )
        for column, cell in enumerate(timed):
            tone = colours[cell.policy][0]
            x, y = rate_series(focused, cell.cell_id)
            grid[0][column].step(x, y, where="mid", color=tone, linewidth=1.3)
            grid[0][column].set_title(series_name(cell, every), pad=16)
            for ax, (_, metrics) in zip(grid[1:, column], panels, strict=True):
                _panel(ax, found[cell.cell_id], metrics, tone)
            for row, ax in enumerate(grid[:, column]):
                _shade(ax, cell, named=row == 0)
            grid[-1][column].set_xlabel("s since first request")
        _scale(grid, panels)
        for ax in grid[:, 0]:
            ax.yaxis.set_label_coords(-0.62 / ax.get_window_extent().width * figure.dpi, 0.5)
    said = [WINDOW_CAPTION, *([SAMPLED_CAPTION] if panels else [])] if explained else []
    unsampled = [series_name(cell, every) for cell in timed if not found[cell.cell_id]]
    if unsampled:
        said.append(f"The server was not sampled: {', '.join(unsampled)}.")
    return Plot(name, title, " ".join(said), figure)


def _scale(grid: Any, panels: Sequence[tuple[str, Any]]) -> None:
    grid[0][0].set_ylabel("steps/min")
    grid[0][0].set_ylim(bottom=0)
    for ax, (label, _) in zip(grid[1:, 0], panels, strict=True):
        ax.set_ylabel(label)
        if label == "requests":
            ax.set_ylim(0, 1.35 * max(1.0, ax.get_ylim()[1]))  # room for the legend
            ax.yaxis.get_major_locator().set_params(integer=True)
        else:
            ax.set_ylim(0, 1.02)
            ax.yaxis.set_major_formatter(percent())


def _shade(ax: "Axes", cell: CellSummary, named: bool) -> None:
    """The window in a tint under the lines; above the first panel the phases' names, where wide."""
    with_grid(ax, "y")
    if cell.window_start_s is None or cell.window_end_s is None or cell.last_s is None:
        return
    start_s, end_s, last_s = cell.window_start_s, cell.window_end_s, cell.last_s
    ax.axvspan(start_s, end_s, color=TINT, linewidth=0, zorder=0)
    ax.set_xlim(-0.02 * last_s, 1.02 * last_s)
    if not named:
        return
    spans = {"ramp": (0.0, start_s), "steady": (start_s, end_s), "drain": (end_s, last_s)}
    if not cell.steady:
        spans = {"whole cell, not steady": (0.0, last_s)}
    for name, (low, high) in spans.items():
        if high - low > 0.12 * last_s:
            place: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center"}
            ax.text((low + high) / 2, 1.02, name, color=INK, fontsize=8, va="bottom", **place)


def _panel(ax: "Axes", engines: Sequence[Series], metrics: Mapping[str, str], tone: str) -> None:
    drawn = False
    for series in engines:
        for i, (metric, label) in enumerate(metrics.items()):
            values = [float("nan") if v is None else v for v in series.values[metric]]
            if all(v != v for v in values):
                continue
            # A lone value between gaps has no line, so it gets a dot.
            style: dict[str, Any] = {"marker": ".", "markevery": _lone(values), "markersize": 4}
            style |= {"color": tone, "linestyle": ("-", "--")[i], "linewidth": (1.3, 1.0)[i]}
            ax.plot(series.seconds, values, label=label, **style)
            drawn = True
    if not drawn:
        ax.text(0.5, 0.5, "not sampled", transform=ax.transAxes, ha="center", color=INK)
    elif len(metrics) > 1:
        handles, labels = ax.get_legend_handles_labels()
        first = dict(zip(labels, handles, strict=True))  # one entry, however many engines
        ax.legend(list(first.values()), list(first), fontsize=8, loc="upper right", ncols=2)


def _lone(values: Sequence[float]) -> list[int]:
    nan = float("nan")
    edged = [nan, *values, nan]
    absent = [value != value for value in edged]
    return [i for i in range(len(values)) if absent[i] and not absent[i + 1] and absent[i + 2]]
