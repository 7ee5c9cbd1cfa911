"""Reads at affine places as views of arrays: slices, of padded arrays where they go beyond, and windows."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.backends.numpy.text import bare, size_code

from dslc.ir import nodes as ir
from dslc.polynomials import surely_nonnegative
from dslc.sizes import Facts, Size, estimate, floor_div, tidy


def padded(s: ir.Read, sizes: Sequence[Size], base: str, fill: str, facts: Facts) -> tuple[str, dict[int, str]]:
    """An array with so much around it that all places of a read that go on by one entry are inside, and what is
    read of its axes then."""
    pads, cuts = ["(0, 0)"] * len(s.places), {}
    for axis, (place, size) in enumerate(zip(s.places, s.tensor.shape, strict=True)):
        if not isinstance(place, ir.Affine) or len(place.terms) != 1:
            continue
        ((number, step),) = place.terms
        count, start = sizes[number], place.offset
        last = tidy(start + step * (count - 1))
        lowest, highest = (start, last) if surely_nonnegative(step) else (last, start)
        if isinstance(step, int) and step > 1 and start == 0 and count == floor_div(size + step - 1, step):
            cuts[axis] = f"::{step}"
        elif isinstance(step, int) and facts.nonnegative(lowest) and facts.nonnegative(size - 1 - highest):
            cuts[axis] = slice_code(start, step, count, size)
        elif step == 1 and isinstance(start, int):
            before, lacking = max(-start, 0), tidy(start + count - size)
            fits, long = facts.nonnegative(lacking), facts.nonnegative(-lacking)
            after = lacking if fits else 0 if long else count
            if fits or long or start <= 0:
                pads[axis] = f"({before}, {size_code(after)})"
                cuts[axis] = slice_code(start + before, 1, count, before + size + after)
    if all(x == "(0, 0)" for x in pads):
        return base, cuts
    constant = f", constant_values={fill}" if fill != "0" else ""
    return f"np.pad({bare(base)}, ({', '.join(pads)}{',' * (len(pads) == 1)}){constant})", cuts


def sliding(s: ir.Read, sizes: Sequence[Size], base: str, fill: str | None) -> tuple[str, list[int]] | None:
    """Windows of an array with so much around it that they stay inside: a view, of which strides take a part."""
    pads: list[tuple[int, int]] = []
    steps: list[int] = []
    order: list[int] = []
    inner: dict[int, tuple[int, Size, int]] = {}
    for axis, (place, size) in enumerate(zip(s.places, s.tensor.shape, strict=True)):
        if not isinstance(place, ir.Affine) or not place.terms or not isinstance(place.offset, int):
            return None
        # a convolution and its gradient share windows: the longer variable goes along the array
        (long, step), *short = sorted(place.terms, key=lambda t: (-estimate(sizes[t[0]]), -estimate(t[1])))
        if not isinstance(step, int) or step < 1:
            return None
        lowest: Size = place.offset
        span: Size = 1
        for n, apart in short:
            if not isinstance(apart, int) or apart == 0:
                return None
            reach = tidy(abs(apart) * (sizes[n] - 1))
            span, lowest = tidy(span + reach), lowest if apart > 0 else tidy(lowest - reach)
            inner[n] = axis, span, apart
        if not isinstance(lowest, int) or lowest > 0:
            return None
        before = -lowest
        found = missing(size + before - span, step, sizes[long])
        if found is None or ((before or found) and fill is None):
            return None
        pads.append((before, found))
        steps.append(step)
        order.append(long)
    constant = f", constant_values={fill}" if fill not in (None, "0") else ""
    code = f"np.pad({bare(base)}, {tuple(pads)}{constant})" if any(map(any, pads)) else base
    widths = ", ".join(size_code(span) for _, span, _ in inner.values())
    axes = ", ".join(str(axis) for axis, _, _ in inner.values())
    if len(inner) > 1:
        widths, axes = f"({widths})", f"({axes})"
    code = f"sliding_window_view({code}, {widths}, {axes})"
    parts = [f"::{k}" if k != 1 else ":" for k in (*steps, *(apart for _, _, apart in inner.values()))]
    while parts and parts[-1] == ":":
        parts.pop()
    code += f"[{', '.join(parts)}]" if parts else ""
    return code, [*order, *inner]


def missing(size: Size, step: int, count: Size) -> int | None:
    """How many entries an axis with so many beside a window needs, to have so many windows at these steps."""
    if step == 1:
        found = tidy(count - 1 - size)
        return found if isinstance(found, int) and found >= 0 else None
    fitting = (k for k in range(2 * step) if floor_div(tidy(size + k + step), step) == count)
    return next(fitting, None)


def slice_code(offset: Size, step: int, count: Size, size: Size) -> str:
    if step == 1:
        stop = offset + count
        low = "" if offset == 0 else size_code(offset)
        return f"{low}:" if stop == size else f"{low}:{size_code(stop)}"
    if step == -1 and offset == size - 1 and count == size:
        return "::-1"
    if step > 0:
        return f"{size_code(offset)}:{size_code(offset + step * (count - 1) + 1)}:{step}"
    last = offset + step * (count - 1)
    if isinstance(last, int):
        return f"{size_code(offset)}:{'' if last == 0 else last - 1}:{step}"
    # counted from the end: below 0 in any case, as the place before the first one is
    return f"{size_code(offset)}:{size_code(tidy(last - 1 - size))}:{step}"
