"""The style of figures and their bytes: one style for all, legible on light and on dark.

In: a matplotlib figure. Out: SVG text and PNG bytes; the same data gives the same bytes. Colours
are drawn for white paper; a page replaces each by the variable of `THEME`, which has another value
on dark. matplotlib is imported only when something is drawn.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tutti.tasks.scoring.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#59616b"  # axes and text
STRONG = "#1b1f24"
TINT = "#e3e6ea"
# By policy, so that it looks the same in every figure of every report; after Okabe and Ito, whose
# hues are told apart with any colour vision, darker on light and lighter on dark (3:1 or more).
POLICIES = {
    "passthrough": STRONG,
    "cap": "#0072b2",
    "adaptive": "#c75200",
    "thunderagent": "#008a63",
    "continuum": "#a3478a",
}
OTHERS = ("#7a6a00", "#5b5bd6", "#b3123f")
THEME: Mapping[str, str] = {
    INK: "#a3acb7",
    STRONG: "#e4e7eb",
    TINT: "#2b3138",
    "#0072b2": "#56b4e9",
    "#c75200": "#f28e4b",
    "#008a63": "#2fc79a",
    "#a3478a": "#dd8fc4",
    "#7a6a00": "#d9c04a",
    "#5b5bd6": "#a5a5f5",
    "#b3123f": "#f2708f",
}
"""Colour on light to colour on dark."""

MARKERS = "osD^vP*X"
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
RC: Any = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": STRONG,
    "axes.titlesize": 10,
    "font.size": 10,
    "grid.color": TINT,
    "legend.frameon": False,
    "legend.labelcolor": STRONG,
    "svg.fonttype": "none",  # text stays text: the page's font, searchable, small
    "text.color": STRONG,
    "text.parse_math": False,  # a dollar sign in a model's name is a dollar sign
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Plot:
    """One figure, or the reason why it could not be drawn."""

    name: str
    """File name without its ending; also the prefix of the SVG's ids."""
    title: str
    caption: str
    figure: "Figure | None" = None
    missing: str = ""


def svg(plot: Plot) -> str:
    """Return the figure as SVG text, transparent. Raises ValueError if it is not drawn."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    with _ready(plot) as figure:
        # No date, creator or format: the same data must give the same bytes. Not by `savefig`,
        # which draws everything twice.
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)  # type: ignore[no-untyped-call]
    # A path's numbers to a tenth of a pixel: more is not seen, and is half of the file.
    text = buffer.getvalue().decode()
    return re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), text)


def png(plot: Plot) -> bytes:
    """Return the figure as PNG on white. Raises ValueError if it is not drawn."""
    buffer = io.BytesIO()
    with _ready(plot) as figure:
        figure.savefig(buffer, format="png", dpi=150, facecolor="white")
    return buffer.getvalue()


def variable(colour: str) -> str:
    """Return the name of the page's variable for a colour of THEME."""
    return f"--c{list(THEME).index(colour)}"


def policy_styles(policies: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The (colour, marker) of each policy; a policy of the user's gets one by its position."""
    known = list(POLICIES)
    styles, others = {}, 0
    for policy in dict.fromkeys(policies):
        if policy in POLICIES:
            styles[policy] = POLICIES[policy], MARKERS[known.index(policy)]
        else:
            marker = MARKERS[(len(known) + others) % len(MARKERS)]
            styles[policy] = OTHERS[others % len(OTHERS)], marker
            others += 1
    return styles


def percent() -> Callable[[float, float], str]:
    return lambda value, _: f"{value * 100:.0f} %"


def legend_above(figure: "Figure", ax: "Axes", columns: int) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, fontsize=9)


LEGEND_ROW_IN = 0.17
"""Height of a legend's row, in inches; the figure grows by it, and its axes stay as they are."""


def legend_height(entries: int, columns: int) -> float:
    """The height in inches of a legend's rows after the first, for which every figure has room."""
    return LEGEND_ROW_IN * (-(-entries // columns) - 1)


def keep_whole(ax: "Axes") -> None:
    """Do not clip marks and bars at the ends of the axes, such as a mark at 0 or at 100 %."""
    for artist in (*ax.lines, *ax.collections):
        artist.set_clip_on(False)


def with_grid(ax: "Axes", axis: Literal["both", "x", "y"]) -> None:
    ax.grid(axis=axis)
    ax.set_axisbelow(True)


def load_axis(ax: "Axes", loads: Sequence[int]) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xlim(loads[0] / 1.5, loads[-1] * 1.5)
    ax.set_xticks(loads, [str(load) for load in loads])
    ax.minorticks_off()


def arms(value: float, interval: Interval) -> list[list[float]]:
    return [[max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]]


@contextmanager
def drawing(width: float, height: float) -> Iterator["Figure"]:
    """Provide a figure of `width` x `height` inches, free of pyplot's global state."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(RC):
        yield Figure(figsize=(width, height), layout="constrained")


@contextmanager
def _ready(plot: Plot) -> Iterator["Figure"]:
    """The figure with its layout computed once, because that takes as long as drawing it."""
    if plot.figure is None:
        raise ValueError(f"{plot.name} is not drawn: {plot.missing}")
    from matplotlib import rc_context

    figure, dpi = plot.figure, plot.figure.dpi
    with rc_context(RC | {"svg.hashsalt": plot.name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a script DejaVu lacks: a box, not an error
        if engine := figure.get_layout_engine():
            engine.execute(figure)
            figure.set_layout_engine("none")
        yield figure
        figure.dpi = dpi  # SVG's is its own
