"""How figures look and how they become bytes: one style for all, legible on light and on dark.

In: a matplotlib figure. Out: SVG text and PNG bytes; the same data gives the same bytes. matplotlib
is imported only when something is drawn.
"""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#737b84"  # 4.2:1 on white and on near black: axes and text stay legible on both
PALETTE = ("#3b82c4", "#d2691e", "#2a9070", "#a866c4", "#c9506a", "#8a8a2a")  # 3.6:1 or more
RC: Any = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 10,
    "grid.alpha": 0.25,
    "grid.color": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.fonttype": "none",  # text stays text: the page's font, searchable, small
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a model's name is a dollar sign
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Plot:
    """One figure, or the reason why it is not drawn."""

    name: str
    """File name without its ending; also the prefix of the SVG's ids."""
    title: str
    caption: str
    figure: "Figure | None" = None
    missing: str = ""


def svg(plot: Plot) -> str:
    """The figure as SVG text. Raises ValueError when it is not drawn."""
    return _render(plot, "svg").decode()


def png(plot: Plot) -> bytes:
    """The figure as PNG on white. Raises ValueError when it is not drawn."""
    return _render(plot, "png")


def colour(i: int) -> str:
    """The i-th series' colour; they repeat after the last."""
    return PALETTE[i % len(PALETTE)]


def percent() -> Callable[[float, float], str]:
    """A tick formatter for shares of 0 to 1."""
    return lambda value, _: f"{value * 100:.0f} %"


def legend_above(figure: "Figure", ax: "Axes", columns: int) -> None:
    """Put the legend of `ax` above it, where it hides no data."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(columns, 3), fontsize=9)


def log_seconds(ax: "Axes") -> None:
    """A logarithmic axis of seconds with plain numbers, more of each decade where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ticks = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 10 * low else (1.0, 2.0, 5.0)
    ax.xaxis.set_major_locator(LogLocator(subs=ticks if high < 1000 * low else (1.0,)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.minorticks_off()


@contextmanager
def drawing(width: float, height: float) -> Iterator["Figure"]:
    """A figure of `width` x `height` inches, free of pyplot's global state."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(RC):
        yield Figure(figsize=(width, height), layout="constrained")


def _render(plot: Plot, kind: str) -> bytes:
    if plot.figure is None:
        raise ValueError(f"{plot.name} is not drawn: {plot.missing}")
    from matplotlib import rc_context

    buffer = io.BytesIO()
    options: dict[str, Any] = {"dpi": 150, "facecolor": "white"}
    if kind == "svg":
        # No date, creator or format: the same data must give the same bytes.
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        options = {"transparent": True, "metadata": nothing}
    with rc_context(RC | {"svg.hashsalt": plot.name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a script DejaVu lacks: a box, not an error
        plot.figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()
