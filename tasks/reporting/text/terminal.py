"""Tables of the report's rows as text: columns that fit a terminal.

In: rows of the report. Out: a rich table for a terminal, or Markdown; `html` makes the page's.
"""

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from tutti.storage.catalog import FINISHED
from tutti.tasks.reporting.efficiency import Efficiency
from tutti.tasks.reporting.failures import Failure
from tutti.tasks.reporting.families import FamilyScore
from tutti.tasks.reporting.noise import Noise
from tutti.tasks.reporting.paired import SetupComparison
from tutti.tasks.reporting.scores.headline import ACCURACY, MEAN_SCORE
from tutti.tasks.reporting.scores.named import NamedMetric
from tutti.tasks.reporting.summary import CellSummary, in_order
from tutti.tasks.reporting.text.columns import (
    COMPARISONS,
    FAILURES,
    NOISE,
    OUTCOME,
    REACHED,
    SERVER,
    WORDS,
    WRAPPED,
    Row,
    efficiency,
    family_columns,
    family_rows,
    identity,
    outcome,
    trial_columns,
    trial_rows,
    which,
    with_values,
)
from tutti.tasks.reporting.text.metrics import metric_columns, metric_rows
from tutti.tasks.reporting.text.numbers import ABSENT, rate

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 80  # characters of a usual terminal
WIDEST = 16  # of a column of words that is not broken
HEADER = 10  # of a column's name: what is longer is broken at its spaces


def terminal_table(cells: Sequence[CellSummary]) -> "Table":
    """The cells: outcome, speed, hits; infra errors, states and marks when there are any."""
    columns: dict[str, Callable[[CellSummary], str]] = {
        **identity(cells),
        "n": OUTCOME["n"],
        _headline_name(cells): _accuracy,
        "steps/min [95 %]": _speed,
        "p95 s": OUTCOME["step p95 s"],
        "hits": lambda c: (
            ABSENT if c.server_hit_ratio is None else f"{c.server_hit_ratio * 100:.0f}"
        ),
    }
    if any(cell.n_infra for cell in cells):
        columns["infra"] = OUTCOME["infra errors"]
    if any(cell.status != FINISHED for cell in cells):
        columns["status"] = lambda c: c.status.removeprefix("ended_")
    if any(cell.client_fault for cell in cells):
        columns["client"] = OUTCOME["client"]
    return _table(columns, in_order(cells), spare=("hits", "p95 s", "infra"))


def trials_table(cells: Sequence[CellSummary]) -> "Table":
    """pass@k, pass^k and majority@k of the cells with several trials a task, for one trial and for
    the most; the page has every k."""
    every = trial_rows(in_order(cells))
    found = [row for row in every if row[1].k in (1, row[0].trials[-1].k)]
    intervals = ("95 %, majority", "95 %, pass^k", "95 %, pass@k")
    spare = (*intervals, "left out", "95 %, best", "majority@k", "95 %, avg")
    return _table(trial_columns(found), found, "several trials a task", spare)


def metrics_table(metrics: Sequence[NamedMetric], cells: Sequence[CellSummary]) -> "Table":
    """What benchmarks report beside their headline scores."""
    found = metric_rows(metrics, in_order(cells))
    return _table(metric_columns(found), found, "what the benchmark reports besides", ("95 %",))


def reached_table(cells: Sequence[CellSummary]) -> "Table":
    """Requested and reached load."""
    names = ("sessions", "calls in flight", "tools running", "late p95 s", "intended p95 s")
    columns = {**identity(cells), **{name: REACHED[name] for name in names}}
    columns |= {"client lag p99 ms": REACHED["client lag p99 ms"]}
    columns |= {"client CPU": REACHED["client CPU"]}
    spare = ("client CPU", "tools running")
    return _table(with_values(columns, cells), in_order(cells), "load asked and reached", spare)


def efficiency_table(found: Sequence[Efficiency]) -> "Table":
    """Tasks solved against time, cost and energy."""
    names = ("front", "solved an engine hour", "95 %, engine hour", "USD/solved", "J/solved")
    known = efficiency(found)
    chosen = {name: known[name] for name in (*names, "working s/solved") if name in known}
    spare = ("95 %, engine hour",)
    return _table(with_values({**which(found), **chosen}, found), found, "what it is worth", spare)


def noise_table(found: Sequence[Noise]) -> "Table":
    """The noise floor: differences between repeated measurements of one set-up."""
    return _table({**which(found), **NOISE}, found, "the same, measured twice", ("pairs",))


def family_table(scores: Sequence[FamilyScore]) -> "Table":
    """Accuracy by family and model, with a row over all families for each model."""
    found = family_rows(scores)
    return _table(family_columns(found), found)


def failure_table(found: Sequence[Failure]) -> "Table":
    """Attempts that failed or were wrong, by how they ended."""
    return _table(with_values(FAILURES, found), found)


def comparison_tables(found: Sequence[SetupComparison]) -> "list[Table]":
    """The comparisons, one table for each pair of sides: verdicts without their reasons."""
    names = ("figure", "n", "change", "95 %", "verdict")
    columns: dict[str, Callable[[SetupComparison], str]] = {
        "at once": lambda c: c.where.replace(" at once", "")
    }
    columns |= {name: COMPARISONS[name] for name in names}
    sides = dict.fromkeys((each.name_b, each.name_a) for each in found)
    return [
        _table(
            columns,
            [c for c in found if (c.name_b, c.name_a) == (b, a)],
            f"{b} against {a}",
            ("n",),
        )
        for b, a in sides
    ]


def markdown_table(cells: Sequence[CellSummary]) -> str:
    """The cells as a Markdown table, for a Prefect artifact; a sentence when there are none."""
    if not cells:
        return "No cells.\n"
    columns = {**identity(cells), **outcome(cells), **REACHED, **SERVER}
    return markdown_columns(with_values(columns, cells), cells)


def markdown_columns(
    columns: Mapping[str, Callable[[CellSummary], str]], cells: Sequence[CellSummary]
) -> str:
    """These columns of the cells as a Markdown table."""
    lines = [list(columns), ["---" if name in WORDS else "---:" for name in columns]]
    lines += [[markdown_text(show(cell)) for show in columns.values()] for cell in cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _headline_name(cells: Sequence[CellSummary]) -> str:
    if all(cell.measure == ACCURACY for cell in cells):
        return "acc % [95 %]"
    alike = all(cell.measure == MEAN_SCORE for cell in cells)
    return "mean score [95 %]" if alike else "acc % or score [95 %]"


def _accuracy(cell: CellSummary) -> str:
    if cell.measure == MEAN_SCORE and cell.accuracy is not None:
        low, high = cell.accuracy_low, cell.accuracy_high
        ends = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
        return f"{cell.accuracy:.3f}{ends}"
    if cell.accuracy is None or cell.accuracy_low is None or cell.accuracy_high is None:
        return ABSENT
    return f"{cell.accuracy:.1%} [{cell.accuracy_low:.0%}, {cell.accuracy_high:.0%}]".replace(
        "%", ""
    )


def _speed(cell: CellSummary) -> str:
    low, high = cell.steps_per_min_low, cell.steps_per_min_high
    if low is None or high is None:
        return rate(cell.steps_per_min)
    return f"{rate(cell.steps_per_min)} [{rate(low)}, {rate(high)}]"


def markdown_text(text: str) -> str:
    """Text as it is, in a Markdown page or a cell of its tables."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _table(
    columns: Mapping[str, Callable[[Row], str]],
    found: Sequence[Row],
    title: str = "",
    spare: Sequence[str] = (),
) -> "Table":
    """In WIDTH characters: a column of `spare` goes, in that order, as long as it does not fit."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    texts = {name: [show(row) for row in found] for name, show in columns.items()}
    for name in spare:
        if sum(_width(head, texts[head]) + 2 for head in texts) > WIDTH:
            texts.pop(name, None)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    if title:
        table.title, table.title_justify = Text(title), "left"
    for name in texts:
        if name in WORDS:
            # Folded, not clipped: a model's name must be readable to its end.
            fold = name in WRAPPED or _width(name, texts[name]) > WIDEST
            table.add_column(Text(_header(name)), justify="left", no_wrap=not fold, overflow="fold")
        else:
            table.add_column(Text(_header(name)), justify="right", no_wrap=True)
    for line in zip(*texts.values(), strict=True):
        table.add_row(*map(Text, line))  # Text: a name in brackets is not markup
    return table


def _header(name: str) -> str:
    """A long name on several lines."""
    short = name.replace("at once", "at").replace("client ", "").replace("repeat", "rep")
    return "\n".join(wrap(short, HEADER)) if len(short) > HEADER else short


def _width(name: str, texts: Sequence[str]) -> int:
    widest = max((len(line) for line in _header(name).split("\n")), default=0)
    return max([widest, *map(len, texts)])
