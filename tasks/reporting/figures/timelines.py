"""The report's figures of each cell over time.

In: cells with a connection of `focus`. Out: `Plot`s, or a sentence that says which data is missing.
matplotlib is imported only when something is drawn.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.figures import drawing
from tutti.tasks.reporting.figures.drawing import Plot
from tutti.tasks.reporting.figures.plots import PAGE_IN, PANEL_IN, first_repeats, series_name
from tutti.tasks.sweeps.results import CellSummary, rows, rows_by, with_known_load

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

Row = Mapping[str, Any]
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
select engine_id, avg(second) as second,
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


MOST_LOADS = 3  # the lowest, one between and the highest: a cell weighs 20 kB in the page
MOST_PANELS = 4  # of one load
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
    """Steps, KV use, requests and prefix hits over time; a figure for the first cells of a load.

    Of several repeats the first. Few loads, few cells: `window_summary` has any other.
    """
    cells = first_repeats(with_known_load(cells))
    by_load: dict[int, list[CellSummary]] = {}
    for cell in cells:
        by_load.setdefault(cell.concurrency, []).append(cell)
    loads = sorted(by_load)
    if len(loads) > MOST_LOADS:
        loads = [loads[0], loads[len(loads) // 2], loads[-1]]
    plots = [_timeline(focused, by_load[load][:MOST_PANELS], cells) for load in loads]
    return plots or [Plot("timeline", "Over time", "", missing="The sweep has no cells.")]


def _timeline(
    focused: "DuckDBPyConnection", cells: Sequence[CellSummary], every: Sequence[CellSummary]
) -> Plot:
    load = cells[0].concurrency
    name, title = f"timeline-{load}", f"{load} at once"
    timed = [cell for cell in cells if cell.last_s is not None and cell.last_s > 0]
    if not timed:
        return Plot(name, title, "", missing=UNSAMPLED)
    series = {
        cell.cell_id: list(rows_by(focused, "engine_id", SERIES_SQL, cell=cell.cell_id).values())
        for cell in timed
    }
    panels = PANELS if any(series.values()) else ()
    colours = drawing.policy_styles(cell.policy for cell in every)
    width, height = min(PAGE_IN, PANEL_IN * len(timed) + 0.8), 1.8 + 1.2 * len(panels)
    with drawing.drawing(width, height) as figure:
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
        for column, cell in zip(grid.T, timed, strict=True):
            tone = colours[cell.policy][0]
            points = rows(focused, RATE_SQL, cell=cell.cell_id)
            x, y = ([point[name] for point in points] for name in ("second", "per_min"))
            column[0].step(x, y, where="mid", color=tone, linewidth=1.3)
            column[0].set_title(series_name(cell, every), pad=16)
            for ax, (_, metrics) in zip(column[1:], panels, strict=True):
                _panel(ax, series[cell.cell_id], metrics, tone)
            for ax in column:
                _shade(ax, cell)
            column[-1].set_xlabel("s since first request")
        _scale(grid, panels)
        for ax in grid[:, 0]:
            ax.yaxis.set_label_coords(-0.62 / ax.get_window_extent().width * figure.dpi, 0.5)
    captions = [WINDOW_CAPTION, *([SAMPLED_CAPTION] if panels else [])]
    unsampled = [series_name(cell, every) for cell in timed if not series[cell.cell_id]]
    if unsampled:
        captions.append(f"The server was not sampled: {', '.join(unsampled)}.")
    return Plot(name, title, " ".join(captions), figure)


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
            ax.yaxis.set_major_formatter(drawing.percent())


def _shade(ax: "Axes", cell: CellSummary) -> None:
    drawing.with_grid(ax, "y")
    if cell.window_start_s is not None and cell.window_end_s is not None and cell.last_s:
        ax.axvspan(
            cell.window_start_s, cell.window_end_s, color=drawing.TINT, linewidth=0, zorder=0
        )
        ax.set_xlim(-0.02 * cell.last_s, 1.02 * cell.last_s)


def _panel(
    ax: "Axes", engines: Sequence[Sequence[Row]], metrics: Mapping[str, str], tone: str
) -> None:
    nan = float("nan")
    for points in engines:
        seconds = [point["second"] for point in points]
        for i, (metric, label) in enumerate(metrics.items()):
            values = [nan if (v := point[metric]) is None else v for point in points]
            absent = [True, *(value != value for value in values), True]
            if all(absent):
                continue
            # A lone value between gaps has no line, so it gets a dot.
            around = enumerate(zip(absent, absent[1:], absent[2:], strict=False))
            lone = [n for n, (before, here, after) in around if before and not here and after]
            style: dict[str, Any] = {"marker": ".", "markevery": lone, "markersize": 4}
            style |= {"color": tone, "linestyle": ("-", "--")[i], "linewidth": (1.3, 1.0)[i]}
            ax.plot(seconds, values, label=label, **style)
    if not ax.lines:
        ax.text(0.5, 0.5, "not sampled", transform=ax.transAxes, ha="center", color=drawing.INK)
    elif len(metrics) > 1:
        handles, labels = ax.get_legend_handles_labels()
        first = dict(zip(labels, handles, strict=True))  # one entry, however many engines
        ax.legend(list(first.values()), list(first), fontsize=8, loc="upper right", ncols=2)
