"""Curves as text, for terminals: dots of Braille, eight to a character."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

#: the dot of a character at a column and a row in it
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
#: what marks the end of a line
MARKS = "abcdefgh"


def curves(lines: Mapping[str, Sequence[float]], title: str, width: int = 72, height: int = 10) -> str:
    """Values over their number from 1 on; each line has a letter of its own where it ends.

    >>> print(curves({"training": [4.0, 2.0, 1.0]}, "loss", width=24, height=2))
    loss
     4.000 ⠉⠒⠢⠤⣀⡀⠀⠀⠀⠀⠀⠀⠀⠀⠀
     1.000 ⠀⠀⠀⠀⠀⠈⠉⠒⠒⠒⠤⠤⠤⣀⣀ a
           a training 1.000
    """
    finite = [x for values in lines.values() for x in values if math.isfinite(x)]
    if not finite:
        return title
    low, high = min(finite), max(finite)
    labels = [_number(high - k * (high - low) / max(height - 1, 1)) for k in range(height)]
    margin = max(map(len, labels)) + 1
    columns = max(width - margin - 3, 4)
    ends: dict[int, str] = {}
    grid = [[0] * columns for _ in range(height)]
    for mark, values in zip(MARKS, lines.values(), strict=False):
        row = 0
        for x in range(2 * columns):
            value = _between(values, x / (2 * columns - 1))
            if math.isfinite(value):
                row = round((high - value) / (high - low or 1) * (4 * height - 1))
                grid[row // 4][x // 2] |= DOTS[x % 2][row % 4]
        ends[row // 4] = ends.get(row // 4, "") + mark
    rows = [
        f"{labels[k]:>{margin}} {''.join(chr(0x2800 + c) for c in cells)} {ends.get(k, '')}".rstrip(" ")
        for k, cells in enumerate(grid)
    ]
    names = [f"{mark} {name} {_number(v[-1])}" for mark, (name, v) in zip(MARKS, lines.items(), strict=False)]
    return "\n".join([title, *rows, f"{' ' * margin} {'  '.join(names)}"])


def _number(value: float) -> str:
    """
    >>> _number(0.123456), _number(1234.5), _number(1e-7)
    ('0.123', '1234', '1e-07')
    """
    return f"{value:.4g}" if value and not 1e-3 <= abs(value) < 1000 else f"{value:.3f}"


def _between(values: Sequence[float], share: float) -> float:
    """The value at a share of the way, on the straight line between the two beside it."""
    place = share * (len(values) - 1)
    left = min(int(place), max(len(values) - 2, 0))
    right = min(left + 1, len(values) - 1)
    return values[left] + (place - left) * (values[right] - values[left])
