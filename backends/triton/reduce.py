"""Reductions of tiles as kernel text: what counts at their edges, blocks taken into what was found so far."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dslc.backends.record import CannotLower
from dslc.backends.triton.body import Axis, Body
from dslc.backends.triton.text import ATOM, BIT, COMPARE, Text, aligned, is_float

from dslc.ir import nodes as ir
from dslc.meaning.known import value_given
from dslc.passes.contract import factors
from dslc.schedule.form import Kernel, Member, Rescaled

NEUTRAL = {"sum": 0, "prod": 1, "max": float("-inf"), "min": float("inf"), "argmax": float("-inf"),
           "argmin": float("inf"), "any": False, "all": True}  # fmt: skip


def neutral(op: str, dtype: str) -> str:
    if op in ("max", "argmax", "min", "argmin") and not is_float(dtype):
        return str(-(2**63) if op in ("max", "argmax") else 2**63 - 1)
    value = NEUTRAL[op]
    if op in ("any", "all"):
        return "0" if op == "any" else "1"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{"-inf" if value < 0 else "inf"}")'
    return f"{float(value)}" if is_float(dtype) else str(value)


def masked_tile(
    body: Body,
    node: ir.Comp,
    member: Member,
    text: Text,
    axis: Axis,
    kernel: Kernel,
    outside: Mapping[ir.Scalar, float | bool | None] = MappingProxyType({}),
) -> Text:
    """What is reduced, neutral outside the columns, over all tile axes that it needs.

    What is loaded is 0 there, but for formulas that are known to be something else `outside`.
    """
    assert node.op is not None
    value_dtype = member.body.dtype
    if node.op in ("any", "all"):
        text = (
            body.cast(text, "tl.int32") if text.axes else Text(f"tl.cast({text.code}, tl.int32)", (), ATOM, text.depth)
        )
        value_dtype = "i64"
    text = body.exact(text, value_dtype)
    mask = body.mask(axis.number)
    loaded = not any(s in outside for s in ir.scalars(member.body))
    pure = node.op == "sum" and axis.number in text.axes and loaded and body.zero_outside(member.body)
    wanted = text.axes if axis.number in text.axes else tuple(sorted({*text.axes, axis.number}))
    if mask is not None and not pure:
        parts, axes, depth = aligned([mask, text])
        return Text(f"tl.where({parts[0].code}, {parts[1].code}, {neutral(node.op, value_dtype)})", axes, ATOM, depth)
    if axis.number not in text.axes:
        shape = ", ".join(f"BLOCK_{'ROWS' if a == 0 else 'COLUMNS'}" for a in wanted)
        line = aligned([text, Text("", wanted)])[0][0]
        kind = "tl.int64" if not is_float(value_dtype) else body.type_of(value_dtype)
        return Text(
            f"tl.zeros(({shape}{',' if len(wanted) == 1 else ''}), {kind}) + {line.at(BIT)}",
            wanted,
            BIT,
            max(text.depth, axis.depth),
        )
    return text


def reduced(body: Body, node: ir.Comp, tile: Text, axis: Axis) -> Text:
    """The reduction of a tile over its columns."""
    place = tile.axes.index(axis.number)
    rest = tuple(a for a in tile.axes if a != axis.number)
    depth = max((a.depth for a in body.axes if a.number in rest and not a.single), default=0)
    match node.op:
        case "sum" | "max" | "min":
            if node.op != "sum" and is_float(node.dtype):
                name = f"{node.op}imum"
                body.helpers.add(name)
                code = f"{name}({tile.code}, {place})"
            else:
                code = f"tl.{node.op}({tile.code}, axis={place})"
        case "any" | "all":
            code = f"tl.{'max' if node.op == 'any' else 'min'}({tile.code}, axis={place}) != 0"
            return Text(code, rest, COMPARE, depth)
        case "argmax" | "argmin":
            code = f"tl.{node.op}({tile.code}, axis={place}).to(tl.int64)"
        case "prod":
            body.helpers.add("multiplied")
            code = f"tl.reduce({tile.code}, {place}, multiplied)"
        case _:
            raise CannotLower(f"the reduction `{node.op}`", node)
    return Text(code, rest, ATOM, depth)


def bounded_tile(
    body: Body,
    m: Member,
    tile: Text,
    axis: Axis,
    kernel: Kernel,
    name: str,
    outside: dict[ir.Scalar, float | bool | None],
) -> Text:
    """What a block adds to a reduction, neutral beyond the last column.

    What follows from the masked tile of a maximum is neutral there too, and needs no mask of its own: `outside` has
    formulas whose value is known there.
    """
    least = m.node.op in ("max", "argmax") and outside.get(m.body) == float("-inf")
    if not least and not vanishes(m.body, outside):
        tile = masked_tile(body, m.node, m, tile, axis, kernel, outside)
    if m.node.op == "max" and axis.ragged and not tile.code.isidentifier():
        tile = body.named(f"{name}_tile", tile)
        body.scopes[tile.depth].done[m.body] = tile
        outside[m.body] = float("-inf")
    return tile


def vanishes(s: ir.Scalar, outside: Mapping[ir.Scalar, float | bool | None]) -> bool:
    """Is a term of a sum 0 beyond the last column? A factor is, and the others are what they are inside: finite."""
    parts = [f.scalar for f in factors(s)]
    zeros = [x for x in parts if value_given(x, outside.get) == 0]
    return bool(zeros) and not any(x in outside for other in parts if other not in zeros for x in ir.scalars(other))


def taken_in(body: Body, m: Member, so_far: Text, value: Text, scaled: Mapping[ir.Node, Rescaled]) -> str:
    """Let a maximum or minimum take in that of one block; gives what sums that follow it are multiplied by, if any."""
    assert m.node.op is not None
    name, axes = so_far.code, so_far.axes
    after = body.named(f"{name}_next", Text(body.pairwise(m.node.op, name, value.code, m.node.dtype), axes, ATOM, 1))
    body.values[m.node] = after
    growth = ""
    dependants = [x for x in scaled.values() if x.peak is m]
    if dependants:
        shift = body.scalar(dependants[0].shift)
        if not shift.code.isidentifier():
            shift = body.named("shift", shift)
            body.scopes[shift.depth].done[dependants[0].shift] = shift
        growth = body.named("growth", Text(f"tl.exp({name} - {shift.code})", axes, ATOM, 1)).code
    body.line(f"{name} = {after.code}")
    return growth


def accumulate(
    body: Body, node: ir.Comp, names: tuple[str, ...], tile: Text, axis: Axis, axes: tuple[int, ...]
) -> None:
    name = names[0]
    match node.op:
        case "sum":
            body.line(f"{name} += {tile.code}")
        case "prod":
            body.line(f"{name} *= {tile.at(BIT + 1)}")
        case "max" | "min":
            body.line(f"{name} = {body.pairwise(node.op, name, tile.code, node.dtype)}")
        case "any" | "all":
            body.line(f"{name} = tl.{'maximum' if node.op == 'any' else 'minimum'}({name}, {tile.code})")
        case "argmax" | "argmin":
            value = body.named("candidate", Text(tile.code, axes, ATOM, axis.depth))
            sign = ">" if node.op == "argmax" else "<"
            better = body.named("better", Text(f"{value.code} {sign} {name}", axes, COMPARE, axis.depth))
            columns = aligned([Text(axis.name, (axis.number,)), Text("", axes)])[0][0]
            body.line(f"{names[1]} = tl.where({better.code}, {columns.code}, {names[1]})")
            body.line(f"{name} = tl.where({better.code}, {value.code}, {name})")


def finished(body: Body, node: ir.Comp, names: tuple[str, ...], axes: tuple[int, ...], axis: Axis) -> Text:
    tile = Text(names[0], axes)
    if node.op not in ("argmax", "argmin"):
        return reduced(body, node, tile, axis)
    place = axes.index(axis.number)
    rest = tuple(a for a in axes if a != axis.number)
    best = f"tl.{node.op[3:]}({names[0]}, axis={place}, keep_dims=True)"
    code = f"tl.min(tl.where({names[0]} == {best}, {names[1]}, {2**62}), axis={place})"
    return Text(code, rest)
