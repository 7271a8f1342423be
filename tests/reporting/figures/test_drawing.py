"""Tests of colours: legible on both backgrounds, distinguishable with any colour vision, and
constant for a policy."""

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from tutti.tasks.reporting.figures.drawing import (
    OTHERS,
    POLICIES,
    THEME,
    Plot,
    drawing,
    keep_whole,
    png,
    policy_styles,
    svg,
)

LIGHT, DARK = "#ffffff", "#15181c"
# Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009) 1291, severity 1.0, on linear RGB.
BLINDNESS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "none": np.eye(3).tolist(),
}
Colour = NDArray[np.float64]


def linear(colour: str) -> Colour:
    """Return the linear RGB of a hex colour."""
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return WCAG's contrast ratio of two colours."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    lights = sorted(float(weights @ linear(each)) + 0.05 for each in (one, other))
    return lights[1] / lights[0]


def lab(rgb: Colour) -> Colour:
    """Return the CIELAB values of linear RGB, for white D65."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", [*POLICIES.values(), *OTHERS])
def test_lines_are_read_on_both_papers(colour: str) -> None:
    assert contrast(colour, LIGHT) >= 3 and contrast(THEME[colour], DARK) >= 3


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("dark", [False, True])
def test_policies_are_told_apart(kind: str, dark: bool) -> None:
    """A difference of 10 in CIELAB is visible at a glance; markers differ, too."""
    seen = [THEME[each] if dark else each for each in POLICIES.values()]
    shown = [lab(np.array(BLINDNESS[kind]) @ linear(each)) for each in seen]
    for (i, one), (j, other) in combinations(enumerate(shown), 2):
        assert np.linalg.norm(one - other) >= 10, (kind, list(POLICIES)[i], list(POLICIES)[j])


def test_a_policy_looks_the_same_whatever_stands_beside_it() -> None:
    alone, among = policy_styles(["cap"]), policy_styles(["mine", "adaptive", "cap", "theirs"])
    assert alone["cap"] == among["cap"]
    assert len(set(among.values())) == 4


def test_every_colour_that_is_drawn_has_a_dark_one() -> None:
    assert {*POLICIES.values(), *OTHERS} <= set(THEME)


def test_numbers_in_a_figure_keep_their_digits() -> None:
    """Paths are rounded to a tenth of a pixel, but a tick at 0.0025 is text."""
    with drawing(3, 2) as figure:
        ax = figure.subplots()
        ax.plot([0, 1 / 3], [0, 0.0123456])
        ax.set_yticks([0.0025, 0.0125], ["0.0025", "0.0125"])
    text = svg(Plot("small", "Small", "", figure))
    assert ">0.0025<" in text and ">0.0125<" in text
    paths = re.findall(r' d="([^"]*)"', text)
    assert paths and not any(re.search(r"\.\d\d", path) for path in paths)
    assert png(Plot("small", "Small", "", figure)).startswith(b"\x89PNG")


def test_a_mark_at_the_end_of_an_axis_is_whole() -> None:
    """No mark of a figure over concurrency is clipped at 0 or at 100 %."""
    with drawing(3, 2) as figure:
        ax = figure.subplots()
        ax.errorbar([1, 2], [0.0, 1.0], yerr=[[0, 0.1], [0.1, 0]], marker="o")
        ax.set_ylim(0, 1)
        keep_whole(ax)
    assert "clip-path" not in svg(Plot("ends", "Ends", "", figure))


def test_what_is_not_drawn_has_no_bytes() -> None:
    with pytest.raises(ValueError, match="no rows"):
        svg(Plot("none", "None", "", missing="no rows"))
