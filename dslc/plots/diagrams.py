"""Diagrams of predictions: how far confidence is from accuracy, and which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dslc.arrays import Array
from dslc.plots.figure import DASHED, GREY, PALETTE, STEPS, grid, legend, new_figure
from dslc.plots.predictions import Predictions
from dslc.quoting import printable
from dslc.run_errors import RunError

#: numbers are written into the cells of a matrix of so many classes at most
WRITTEN = 20
MOST_CLASSES = 200
MOST_RUNS = 9
#: of bars that others are drawn over
BARS = "#8fc1e3"


@dataclass(frozen=True)
class Bins:
    """Rows by confidence in equal bins: how many, how sure on average, and how often right."""

    count: Array
    confidence: Array
    accuracy: Array

    @property
    def ece(self) -> float:
        """The expected calibration error: how far confidence is from accuracy, averaged over rows by their bins."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float((self.count * gaps).sum() / self.count.sum())


def bins_of(found: Predictions, count: int = 10) -> Bins:
    """By the probability of the chosen class, and whether it is right; of 0 and 1, by that of 1, and whether it is 1.

    >>> bins_of(Predictions("", "", np.array([0.1, 0.3, 0.9]), np.array([0, 1, 1]), ""), 2).count.tolist()
    [2.0, 1.0]
    """
    sure = found.p if found.binary else found.p.max(1)
    right = (found.label if found.binary else found.choice == found.label).astype(np.float64)
    place = np.minimum((sure * count).astype(int), count - 1)
    number, confident, accurate = (
        np.bincount(place, weights, minlength=count).astype(np.float64) for weights in (None, sure, right)
    )
    filled = np.maximum(number, 1)
    return Bins(number, confident / filled, accurate / filled)


def draw_reliability(found: Sequence[Predictions], title: str = "", count: int = 10) -> Any:
    """Of each run accuracy by confidence, with the gap between both, above how many rows a bin has."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    few(found)
    across = min(3, len(found))
    down = -(-len(found) // across)
    figure = new_figure(max(3.9 * across, 5.2), 4.6 * down + 0.4 + (0.3 if title else 0), title)
    outer = figure.add_gridspec(down, across)
    binary = any(one.binary for one in found)
    for k, one in enumerate(found):
        inner = outer[k // across, k % across].subgridspec(2, 1, height_ratios=(3.4, 1), hspace=0.06)
        main = figure.add_subplot(inner[0])
        below = figure.add_subplot(inner[1], sharex=main)
        draw_bins(main, below, one, bins_of(one, count))
    gap = f"gap to {'the mean probability' if binary else 'confidence'}"
    handles = [
        Patch(facecolor=BARS, label="fraction of 1" if binary else "accuracy"),
        Patch(facecolor="none", edgecolor=PALETTE[1], hatch="////", label=gap),
        Line2D([], [], color=GREY, linestyle=DASHED, linewidth=1.2, label="perfectly calibrated"),
    ]
    legend(figure, handles)
    return figure


def draw_bins(main: Any, below: Any, one: Predictions, bins: Bins) -> None:
    from matplotlib.ticker import MaxNLocator

    edges = np.linspace(0, 1, len(bins.count) + 1)
    left, width = edges[:-1], edges[1]
    filled = bins.count > 0
    main.plot([0, 1], [0, 1], color=GREY, linestyle=DASHED, linewidth=1.2, zorder=3)
    accuracy, confidence, at = bins.accuracy[filled], bins.confidence[filled], left[filled]
    bars = main.bar(at, accuracy, width, align="edge", color=BARS, edgecolor="white", linewidth=0.8)
    low, high = np.minimum(accuracy, confidence), np.maximum(accuracy, confidence)
    gaps = main.bar(
        at, high - low, width, low, align="edge", facecolor="none", edgecolor=PALETTE[1],
        hatch="////", linewidth=0.8,
    )  # fmt: skip
    for kind, those in (("accuracy", bars), ("gap", gaps)):
        for place, patch in zip(np.flatnonzero(filled), those, strict=True):
            patch.set_gid(f"{kind}:{place}:{one.run}")
    main.set_title(f"{printable(one.run)}\nECE {bins.ece:.4f} over {len(one.label)} {one.rows}")
    main.set(xlim=(0, 1), ylim=(0, 1), ylabel="fraction of 1" if one.binary else "accuracy")
    main.tick_params(labelbottom=False)
    counts = below.bar(left, bins.count, width, align="edge", color="#8a8a8a", edgecolor="white", linewidth=0.8)
    for number, patch in enumerate(counts):
        patch.set_gid(f"count:{number}:{one.run}")
    below.set(xlabel="probability of 1" if one.binary else "confidence", ylabel="rows")
    below.set_xticks(np.linspace(0, 1, 6))
    below.yaxis.set_major_locator(MaxNLocator(3, integer=True, steps=STEPS))


def confusion_of(found: Predictions) -> Array:
    """How many rows of each class (down) are taken for which (across)."""
    count = found.count
    return np.bincount(found.label * count + found.choice, minlength=count * count).reshape(count, count)


def draw_confusion(found: Sequence[Predictions], title: str = "") -> Any:
    """A matrix for each run: counts, coloured by their share of the true class."""
    few(found)
    count = max(one.count for one in found)
    if count > MOST_CLASSES:
        raise RunError(f"{count} classes are more than a matrix can show ({MOST_CLASSES})")
    names = max((len(name) for one in found for name in one.classes), default=1)
    side = 2.6 + 0.34 * min(count, WRITTEN) + min(0.05 * names, 1.0)
    figure, panels = grid(len(found), title, size=(side, side))
    figure.set_layout_engine("compressed")  # which knows that matrices are square
    for one, panel in zip(found, panels, strict=True):
        image = draw_matrix(panel, one, confusion_of(one))
    bar = figure.colorbar(image, ax=panels, shrink=0.75, aspect=30)
    bar.set_label("share of the true class")
    bar.outline.set_visible(False)
    return figure


def draw_matrix(panel: Any, one: Predictions, matrix: Array) -> Any:
    share = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    image = panel.imshow(share, cmap="Blues", vmin=0, vmax=1, gid=f"confusion:{one.run}")
    panel.grid(False)
    panel.spines[:].set_visible(False)
    count = len(matrix)
    if count <= WRITTEN:
        for i, j in np.argwhere(matrix):
            colour = "white" if share[i, j] > 0.55 else "black"
            panel.text(j, i, str(matrix[i, j]), ha="center", va="center", color=colour, fontsize=8)
        named = [printable(name) for name in one.classes] or [str(k) for k in range(count)]
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, named)) > 2 else {}
        panel.set_xticks(range(count), named, **turned)
        panel.set_yticks(range(count), named)
        panel.tick_params(length=0)
        lines = np.arange(count + 1) - 0.5
        panel.hlines(lines, -0.5, count - 0.5, color="#dddddd", linewidth=0.6)
        panel.vlines(lines, -0.5, count - 0.5, color="#dddddd", linewidth=0.6)
    panel.set(xlabel="predicted", ylabel="true")
    panel.set_title(f"{printable(one.run)}\naccuracy {one.accuracy:.4f} over {len(one.label)} {one.rows}")
    return image


def few(found: Sequence[Predictions]) -> None:
    if len(found) > MOST_RUNS:
        help = f"give {MOST_RUNS} of them at most, such as single seeds"
        raise RunError(f"{len(found)} runs are more than a picture can show side by side", help=help)
