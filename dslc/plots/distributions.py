"""Numbers of models as pictures: histograms of weights and of values, and weights as images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.plots.figure import STEPS, chosen, colours, grid, legend
from dslc.quoting import printable
from dslc.run_errors import RunError

#: entries of an image along one axis: of a larger matrix, means of blocks are shown
PIXELS = 512


def draw_histograms(arrays: Mapping[str, Arrays], only: Sequence[str], what: str, title: str = "") -> Any:
    """Of each name a histogram, with an outline for each run; bins are the same for all runs."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    names = named(arrays, only, what)
    several = len(arrays) > 1
    figure, panels = grid(len(names), title, 4, (3.3, 2.4), 0.4 if several else 0.0)
    by_run = dict(zip(arrays, colours(len(arrays)), strict=True))
    for name, panel in zip(names, panels, strict=True):
        found = {run: those[name] for run, those in arrays.items() if name in those}
        flat = {run: x[np.isfinite(x)].astype(np.float64).ravel() for run, x in found.items()}
        edges = edges_of(np.concatenate(list(flat.values())))
        for run, x in flat.items():
            counts, _ = np.histogram(x, edges)
            style = {"color": by_run[run], "fill": not several, "gid": f"histogram:{name}:{run}"}
            panel.stairs(counts, edges, linewidth=1.4, alpha=1.0 if several else 0.9, **style)
        panel.set_title(heading(name, found, flat), fontsize=9)
        panel.xaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
        panel.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=STEPS))
        panel.set_ylim(bottom=0)
        panel.axvline(0, color="#9a9a9a", linewidth=0.8, zorder=0.5)
    if several:
        handles = [Line2D([], [], color=by_run[run], linewidth=3, label=printable(run)) for run in arrays]
        legend(figure, handles)
    return figure


def named(arrays: Mapping[str, Arrays], only: Sequence[str], what: str) -> list[str]:
    """The names to draw, in the order of the first run that has them."""
    return chosen(list(dict.fromkeys(name for those in arrays.values() for name in those)), only, what)


def heading(name: str, found: Mapping[str, Array], flat: Mapping[str, Array]) -> str:
    shapes = {" × ".join(map(str, x.shape)) or "one number" for x in found.values()}
    lines = f"{printable(name)}\n{' or '.join(sorted(shapes))}"
    if len(flat) == 1:
        ((run, x),) = flat.items()
        lost = found[run].size - x.size
        more = f", {lost} not finite" if lost else ""
        lines += f",  {x.mean():.2g} ± {x.std():.2g}{more}" if x.size else more
    return lines


def edges_of(x: Array) -> Array:
    """Edges of bins over the range of numbers: more of them, the more numbers there are.

    >>> edges_of(np.array([0.0, 1.0])).tolist()
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    count = min(max(5, round(2 * x.size ** (1 / 3))), 40)
    return np.histogram_bin_edges(x, count)


def draw_images(arrays: Mapping[str, Arrays], only: Sequence[str], title: str = "") -> Any:
    """Parameters as images, blue below 0 and red above: rows of a matrix down, kernels of a convolution as tiles."""
    if len(arrays) > 1:
        help = "give one run, or one seed of it; --weights compares several"
        raise RunError(f"--images draws the weights of one run, not of {len(arrays)}", help=help)
    (those,) = arrays.values()
    names = [name for name in named(arrays, only, "parameter") if those[name].ndim or only]
    figure, panels = grid(len(names), title, 4, (3.1, 2.7))
    for name, panel in zip(names, panels, strict=True):
        image = image_of(those[name])
        limit = float(np.nanmax(np.abs(image), initial=0)) or 1.0
        box = panel.imshow(
            image, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="equal" if is_kernel(those[name]) else "auto",
            interpolation="nearest", gid=f"image:{name}",
        )  # fmt: skip
        panel.grid(False)
        panel.set_facecolor("#d0d0d0")  # between tiles
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
        panel.set_title(f"{printable(name)}\n{' × '.join(map(str, those[name].shape)) or 'one number'}", fontsize=9)
        bar = figure.colorbar(box, ax=panel, ticks=[-limit, 0, limit], format=lambda x, _: f"{x:.2g}", aspect=12)
        bar.outline.set_visible(False)
    return figure


def is_kernel(x: Array) -> bool:
    return x.ndim == 4 and max(x.shape[:2]) <= 11


def image_of(x: Array) -> Array:
    """An array as a matrix: a kernel [h, w, c, o] as tiles, c down and o across; else all axes but the last go down.

    >>> image_of(np.ones((2, 2, 5, 3))).shape, image_of(np.ones((2, 2, 1, 4))).shape, image_of(np.ones(4)).shape
    ((14, 8), (5, 5), (1, 4))
    """
    x = np.where(np.isfinite(x), x, np.nan).astype(np.float64)
    if is_kernel(x):
        h, w, c, o = x.shape
        across = math.ceil(math.sqrt(o)) if c == 1 else o
        down = c * -(-o // across)
        tiles = np.full((down * across, h + 1, w + 1), np.nan)  # a gap behind each
        tiles[: c * o, :h, :w] = x.transpose(2, 3, 0, 1).reshape(c * o, h, w)
        grid = tiles.reshape(down, across, h + 1, w + 1).swapaxes(1, 2)
        return grid.reshape(down * (h + 1), across * (w + 1))[:-1, :-1]
    return shrunk(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) if x.ndim else x.reshape(1, 1))


def shrunk(x: Array) -> Array:
    """A matrix with at most so many rows and columns as a picture has room for: means of blocks of equal size."""
    for axis in (0, 1):
        by = -(-x.shape[axis] // PIXELS)
        if by > 1:
            starts = np.arange(0, x.shape[axis], by)
            lengths = np.diff([*starts, x.shape[axis]])
            x = np.add.reduceat(x, starts, axis) / (lengths[:, None] if axis == 0 else lengths)
    return x
