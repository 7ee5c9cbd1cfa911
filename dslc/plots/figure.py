"""Figures: one style whatever the user's settings of matplotlib are, colours that the colour-blind can tell, files.

Nothing here opens a window: figures are drawn by the Agg and SVG canvases of matplotlib alone. Equal figures are equal
files, byte for byte, with one version of matplotlib.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dslc.quoting import printable
from dslc.run_errors import RunError

#: told apart by the colour-blind, and dark enough on white: of Okabe and Ito, without yellow
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
GREY = "#555555"
DASHED = (0.0, (4.0, 2.0))
DOTTED = (0.0, (1.0, 1.5))
#: between numbers along an axis
STEPS = (1, 2, 5, 10)

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 10, "figure.titlesize": 12, "legend.fontsize": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY, "xtick.labelcolor": "black",
    "ytick.labelcolor": "black", "grid.color": "#e4e4e4", "grid.linewidth": 0.8, "lines.linewidth": 1.7,
    "legend.frameon": False, "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "dslc",
    "savefig.dpi": 150, "figure.constrained_layout.use": True, "hatch.linewidth": 0.7,
}  # fmt: skip

#: what a figure can show side by side
MOST_PANELS = 30


@contextmanager
def styled() -> Iterator[Any]:
    """matplotlib with this file's settings; figures are made and written inside."""
    try:
        import matplotlib
    except ImportError as error:
        raise RunError(
            "pictures are drawn with matplotlib, which is not installed", help="pip install 'dslc[plot]'"
        ) from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        for name, value in {"backend": "agg", **STYLE}.items():
            matplotlib.rcParams[name] = value  # type: ignore[index]
        yield matplotlib


def new_figure(width: float, height: float, title: str = "") -> Any:
    """An empty figure of a size in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    if title:
        figure.suptitle(printable(title))
    return figure


def grid(
    count: int, title: str = "", columns: int = 3, size: tuple[float, float] = (4.2, 3.0), extra: float = 0.0
) -> tuple[Any, list[Any]]:
    """A figure with so many panels in rows, all of one size; `extra` is room below or above them."""
    if count > MOST_PANELS:
        message = f"{count} panels are more than a picture can show ({MOST_PANELS})"
        raise RunError(message, help="choose some of them with --only, such as --only 'block.0'")
    across = 2 if (columns, count) == (3, 4) else min(columns, count)
    down = math.ceil(count / across)
    figure = new_figure(across * size[0], down * size[1] + extra + (0.3 if title else 0.0), title)
    cells = figure.add_gridspec(down, across)
    return figure, [figure.add_subplot(cells[k // across, k % across]) for k in range(count)]


def colours(count: int) -> list[Any]:
    """So many colours; when there are more than in the palette, steps from dark blue to yellow."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    import matplotlib

    return [matplotlib.colormaps["cividis"](k / (count - 1)) for k in range(count)]


def legend(figure: Any, handles: Sequence[Any]) -> None:
    """A legend below the panels, in as many columns as there is room for."""
    longest = max((len(handle.get_label()) for handle in handles), default=0)
    across = max(1, int(figure.get_figwidth() * 11 / (longest + 6)))
    figure.legend(handles=handles, loc="outside lower center", ncols=max(min(across, len(handles)), 1))


def plain_log(axis: Any) -> None:
    """A logarithmic axis whose numbers stand as 0.01 and 1e-05."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def chosen(names: Sequence[str], only: Sequence[str], what: str) -> list[str]:
    """Those of the names that are asked for: all unless told otherwise; `block` means `block.0.W`, too.

    >>> chosen(["head.W", "head.b", "stem.W"], ["head", "*.W"], "parameter")
    ['head.W', 'head.b', 'stem.W']
    """
    from fnmatch import fnmatchcase

    from dslc.resolve.files import did_you_mean

    found: set[str] = set()
    for wish in only:
        those = [n for n in names if n == wish or n.startswith(wish + ".") or fnmatchcase(n, wish)]
        if not those:
            there = ", ".join(f"`{n}`" for n in names[:12]) + (", ..." if len(names) > 12 else "")
            help = did_you_mean(wish, names) or f"there are {there}"
            raise RunError(f"--only {wish}: there is no such {what}", help=help)
        found.update(those)
    return [n for n in names if n in found] if only else list(names)


def bytes_of(figure: Any, kind: str) -> bytes:
    """A figure as a file of the kind `png` or `svg`, without a date."""
    into = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(into, format=kind, metadata=metadata)
    return into.getvalue()


def drawn(draw: Callable[[], Any], kind: str) -> bytes:
    """What a function draws, as a file."""
    with styled():
        return bytes_of(draw(), kind)
