"""Nodes that are no comprehensions as NumPy text: scatters, operations along an axis and on matrices, their parts."""

from __future__ import annotations

from dslc.backends.numpy.body import Body
from dslc.backends.numpy.lower import Lowering, statement
from dslc.backends.numpy.sharing import is_broadcast, owners
from dslc.backends.numpy.sums import Sums
from dslc.backends.numpy.text import RESULTS, TIMES, UNARY, Text, atom, bare, size_code

from dslc.dtypes import is_float
from dslc.incremental.cache import is_entry, newest
from dslc.ir import nodes as ir


@statement(ir.Scatter)
def scatter(low: Lowering, node: ir.Node) -> None:
    """A result that grows element by element; entries of a cache grow in place, or move on by one position."""
    assert isinstance(node, ir.Scatter)
    base = node.base
    if base is not None and is_entry(base):
        name = low.names[node] = low.tensor(base)
        axis, place = newest(node)
        low.line(f"{name}[{', '.join([*[':'] * axis, size_code(place)])}] = {_element(low, node)}", "", node.span)
        return
    if isinstance(base, ir.Comp) and isinstance(base.body, ir.Read) and is_entry(base.body.tensor):
        axis, _ = newest(node)
        before, cut = low.tensor(base.body.tensor), ", ".join([*[":"] * axis, "1:"])
        new = ", ".join([*[":"] * axis, "None"])
        low.assign(node, f"np.concatenate(({before}[{cut}], {atom(_element(low, node))}[{new}]), axis={axis})")
        return
    body = Sums(low, node.ranges, out=tuple(range(len(node.ranges))))
    value = body.scalar(node.body)
    everything = tuple(range(len(node.ranges)))
    positions = [body.position(x, n) for x, n in zip(node.places, node.shape, strict=True)]
    reached = {a for x in positions for a in x.axes}
    alone = [a for a in value.axes if a not in reached]
    if alone and node.op == "+":
        value = body.presum(value, alone)
    elif alone:
        where = tuple(value.axes.index(a) for a in alone)
        value = Text(f"np.{node.op}({value.code}, axis={where})", tuple(a for a in value.axes if a not in alone))
    for n in everything if node.op == "+" else ():
        if n not in reached and n not in alone:
            value = Text(f"{value.at(UNARY)} * {atom(size_code(node.ranges[n]))}", value.axes, TIMES)
    shape = ", ".join(size_code(s) for s in node.shape) + ("," if len(node.shape) == 1 else "")
    grows, last = is_grown(low, node), node
    while after := [
        x for x in low.uses.users.get(last, ()) if isinstance(x, ir.Scatter) and x.base is last and is_grown(low, x)
    ]:
        (last,) = after
    name = low.tensor(node.base) if grows and node.base else low.given.get(last) or low.fresh(low.wish(last))
    low.names[node] = name
    dtype = low.numpy_dtype(node.dtype)
    comment = f"[{shape.rstrip(',')}]"
    if grows:
        pass
    elif isinstance(node.base, ir.Comp) and low.inlined(node.base) and owners(node.base) == {node.base}:
        text = low.comp(node.base)
        other = any(text.code == x.code for x in low.formulas.shared.values())  # a part of formulas further down, too
        code = bare(low.full(text, node.shape, node.dtype))
        low.line(f"{name} = {code}{'.copy()' if other or is_broadcast(node.base) else ''}", comment, node.span)
    elif node.base is not None:
        low.line(f"{name} = {low.tensor(node.base)}.copy()", comment, node.span)
    elif node.op == "+":
        low.line(f"{name} = np.zeros(({shape}), {dtype})", "", node.span)
    else:
        limits = f"np.iinfo({RESULTS.get(node.dtype, dtype)})"
        lowest, highest = ("-np.inf", "np.inf") if is_float(node.dtype) else (f"{limits}.min", f"{limits}.max")
        neutral = lowest if node.op == "max" else highest
        low.line(f"{name} = np.full(({shape}), {neutral}, {dtype})", "", node.span)
    # last axes that are read as a whole need no index
    whole, axes = len(positions), everything
    while whole > 1 and axes and node.places[whole - 1] is ir.plain(axes[-1]):
        if node.ranges[axes[-1]] != node.shape[whole - 1] or any(axes[-1] in x.axes for x in positions[: whole - 1]):
            break
        whole, axes = whole - 1, axes[:-1]
    places = ", ".join(low.expand(x, axes).code for x in positions[:whole])
    sign = "-" if node.op == "+" and value.positive is not None else "+"
    shown = low.expand(value.positive if sign == "-" and value.positive is not None else value, everything).code
    single = [x for x in node.places if isinstance(x, ir.Affine) and len(x.terms) == 1 and x.mode == "inside"]
    plain = {x.terms[0][0] for x in single}
    if node.op == "+" and reached <= plain:  # no two elements meet
        if node.base is not None:
            low.line(f"{name}[{places}] {sign}= {shown}")
        else:
            low.line(f"{name}[{places}] = {'-' if sign == '-' else ''}{shown}")
    else:
        ufunc = {"+": "np.add" if sign == "+" else "np.subtract", "max": "np.maximum", "min": "np.minimum"}[node.op]
        index = f"({places})" if whole > 1 else places
        low.line(f"{ufunc}.at({name}, {index}, {shown})")


def is_grown(low: Lowering, node: ir.Node) -> bool:
    """Does a scatter add to one that nothing else reads, in its memory?"""
    return isinstance(node, ir.Scatter) and isinstance(node.base, ir.Scatter) and low.uses.counts[node.base] == 1


def _element(low: Lowering, node: ir.Scatter) -> str:
    """What goes to the newest position."""
    return low.full(Body(low, node.ranges).scalar(node.body), node.ranges)


@statement(ir.Along)
def along(low: Lowering, node: ir.Node) -> None:
    assert isinstance(node, ir.Along)
    args = [low.tensor(a) for a in node.args]
    axis = node.axis
    x = f"np.flip({args[0]}, {axis})" if node.reverse else args[0]
    match node.op:
        case "cumsum" | "cumprod":
            code = f"np.{node.op}({x}, axis={axis})"
        case "cummax" | "cummin":
            code = f"np.{'maximum' if node.op == 'cummax' else 'minimum'}.accumulate({x}, axis={axis})"
        case "sort" | "argsort":
            code = f'np.{node.op}({x}, axis={axis}, kind="stable")'
        case "top_k":
            code = f"{low.helper('top_k')}({x}, {axis}, {size_code(node.shapes[0][axis])})"
        case _:
            code = f"{low.helper('fourier')}({node.op == 'ifft'}, {axis}, {', '.join(args)})"
    if node.reverse:
        code = f"np.flip({code}, {axis})"
    low.names[node] = code


@statement(ir.External)
def external(low: Lowering, node: ir.Node) -> None:
    assert isinstance(node, ir.External)
    args = ", ".join(low.tensor(a) for a in node.args)
    own = {"solve": "solve", "logdet": "logdet", "matexp": "matexp"}
    code = f"{low.helper(own[node.op])}({args})" if node.op in own else f"np.linalg.{node.op}({args})"
    low.names[node] = code


@statement(ir.Part)
def part(low: Lowering, node: ir.Node) -> None:
    assert isinstance(node, ir.Part)
    of = node.of
    if isinstance(of, ir.Custom):
        low.names[node] = low.tensor(of.values[node.number])
        return
    if isinstance(of, ir.Scan):
        name = low.several[of][node.number]
        if name and node not in low.layers.kept:
            low.names[node] = name
        return
    shapes = of.shapes
    if len(shapes) == 1:
        low.assign(node, low.names[of])
        return
    if of not in low.several:
        parts = low.uses.parts[of]
        names = [low.fresh(low.wish(parts[k])) if k in parts else "_" for k in range(len(shapes))]
        low.line(f"{', '.join(names)} = {low.names[of]}", "", of.span)
        low.several[of] = names
    low.names[node] = low.several[of][node.number]
