"""Random blocks and calls: scans, functions and layers of the user, loops, modes, derivatives inside the spec."""

from __future__ import annotations

import re
from dataclasses import replace

from expressions import Writing
from operations import running
from statements import (
    contraction,
    convolution,
    equation,
    named,
    plain,
    rank,
    slices,
    some_axes,
    target,
    whole_tensors,
    written,
)
from writer import Axis, Value, Writer, fixed, letters

# ---- scans ----------------------------------------------------------------------------------------------


def scan(w: Writer) -> None:
    """One or two carried values; earlier steps are read directly, or through a local value at any place."""
    if w.scanned:
        equation(w)
        return
    steps = w.pick(w.axes)
    backwards = w.choose(["forward", "forward", "backwards"]) == "backwards"
    count = 2 if w.choose(["one", "one", "two"]) == "two" else 1
    carried: list[tuple[str, Writing, list[Axis], int]] = []
    before = list(w.values)
    starts: list[str] = []
    depends: set[str] = set()
    for _ in range(count):
        axes = some_axes(w, 0, 2)
        name = w.fresh("h")
        if w.chance(2):
            e = written(w, named(axes), 1)
            begin = w.fresh("z")
            w.line(f"{target(begin, named(axes))} = {e.text}")
            depends |= w.sources
            at = f"[{', '.join(named(axes))}]" if axes else ""
            starts.append(f"start {name}{at} = {begin}{at}")
            low = e.size + 3
        else:
            starts.append(f"start {name} = {w.pick([0, 0.5])}")
            low = 3.0
        carried.append((name, Writing(w, named(axes)), axes, w.number(0, len(axes))))
        bound = max(low, 3.0)
    w.tag("reversed scan" if backwards else "scan")
    if count == 2:
        w.tag("two carried values")
    w.line(f"scan t in 0..{steps.text}{' reversed' if backwards else ''}:")
    sign = "+" if backwards else "-"
    with w.block():
        w.scanned = {"t": steps}
        for name, _, axes, place in carried:
            lag = {"one step": 1, "two steps": 2}[w.choose(["one step", "one step", "two steps"])]
            if lag > 1:
                w.tag("lag of two steps")
            indices = named(axes)
            local = w.add(Value(w.fresh("p"), tuple(axes), -bound, bound))
            w.line(f"{target(local.name, indices)} = {step(name, indices, place, f't{sign}{lag}')}")
        inside = w.choose(["nothing", "equation", "contraction", "running", "call"])
        if inside != "nothing":
            {"equation": equation, "contraction": contraction, "running": running, "call": tensor_function}[inside](w)
            depends |= w.values[-1].sources
        if inside == "call":
            w.tag("call inside a scan")
        for name, _, axes, place in carried:
            indices = named(axes)
            e = written(w, indices, 2)
            depends |= w.sources
            inner = f"0.4 * {step(name, indices, place, f't{sign}1')} + {e.text}"
            left = [f"{n}: {a.text}" for n, a in indices.items()]
            left.insert(place, "t")
            w.line(f"{name}[{', '.join(left)}] = tanh({inner})")
        w.scanned = {}
    for text in starts:
        w.line(text)
    w.values = before
    w.sources.clear()
    for name, _, axes, place in carried:
        shape = [*axes[:place], steps, *axes[place:]]
        w.add(Value(name, tuple(shape), -1, 1, sources=frozenset(depends)))


def step(name: str, indices: dict[str, Axis], place: int, at: str) -> str:
    places = list(indices)
    places.insert(place, at)
    return f"{name}[{', '.join(places)}]"


# ---- functions ------------------------------------------------------------------------------------------


def scalar_function(w: Writer) -> None:
    """A function of single numbers, used by expressions from here on."""
    arity = w.number(1, 2)
    inner = Writer(w.choices, functions=list(w.functions), axes=[fixed(2), fixed(3)], count=w.count)
    names = ["a", "b"][:arity]
    inner.values = [Value(n, (), -6, 6) for n in names]
    name = w.fresh("f")
    e = Writing(inner, {}).expr(2)
    # every argument counts, so that what is given depends on what is taken
    terms = " + ".join(f"sin({n}) / 4" for n in names)
    body = f"({e.text if e.size <= 2 else f'2 * tanh({e.text})'}) + {terms}"
    w.definitions.append(f"fn {name}({', '.join(names)}) = {body}\n")
    w.tags += inner.tags
    w.functions.append((name, arity))
    indices = named(some_axes(w, 0, 2))
    arguments = [Writing(w, indices).expr(1).text for _ in names]
    w.tag("scalar function of the user")
    value = w.define(list(indices.values()), -3, 3)
    w.line(f"{target(value.name, indices)} = {name}({', '.join(arguments)})")


def derivative_by_hand(w: Writer) -> None:
    name = w.fresh("f")
    w.definitions.append(
        f"fn {name}(x, a) -> y:\n    s = tanh(a * x)\n    y = s * x / 4\n"
        "    backward (dy) -> (dx, da):\n"
        "        dx = dy * (s + x * a * (1 - s^2)) / 4\n        da = dy * x * x * (1 - s^2) / 4\n"
    )
    w.by_hand = True
    indices = named(some_axes(w, 0, 2))
    x, a = (written(w, indices, 1) for _ in range(2))
    w.tag("derivative by hand")
    value = w.define(list(indices.values()), -x.size, x.size)
    w.line(f"{target(value.name, indices)} = {name}({x.text}, {a.text})")


AXIS_FUNCTIONS = [
    ("x - mean[k](x)", True),
    ("abs(x) / (0.5 + sum[k](abs(x)))", True),
    ("exp(x) / sum[k](exp(x))", True),
    ("log(sum[k](exp(x)))", False),
    ("max[k](x) - min[k](x)", False),
    ("sqrt(0.3 + sum[k](x^2))", False),
]


def axis_function(w: Writer) -> None:
    a = rank(w, 1, 3)
    names = letters(len(a.shape), ["k"])
    place = w.number(0, len(names) - 1)
    body, keeps = w.pick(AXIS_FUNCTIONS)
    name = w.fresh("f")
    w.definitions.append(f"fn {name}[k](x) = {body}\n")
    size = 2 * max(abs(a.low), abs(a.high)) * a.shape[place].value + 2
    w.uses(a)
    w.tag("function with an axis")
    kept = [n for k, n in enumerate(names) if keeps or k != place]
    shape = [x for k, x in enumerate(a.shape) if keeps or k != place]
    value = w.define(shape, -size, size)
    w.line(f"{plain(value, kept)} = {name}[{names[place]}]({plain(a, names)})")


def called(w: Writer, layer: bool, same_shape: bool = False) -> None:
    """A function or layer with a body of its own, called on a whole tensor or mapped over its first axes."""
    over = not same_shape and w.choose(["whole", "mapped"]) == "mapped"
    a = rank(w, 2 if over else 1, 3)
    mapped = w.number(1, len(a.shape) - 1) if over else 0
    sizes = dict(zip("PQR", a.shape[mapped:], strict=False))
    own_axes = {n: Axis(n, x.value, x.least) for n, x in sizes.items()}
    inner = Writer(w.choices, axes=[*own_axes.values(), fixed(2)], count=w.count)
    own = Value("x", tuple(own_axes.values()), a.low, a.high, sources=frozenset("x"))
    inner.values = [own]
    inner.wishes, w.wishes = w.wishes, []
    scalars = w.floats(0, 0)
    extra = w.pick(scalars) if scalars and w.chance(2) else None
    if extra is not None:
        inner.values.append(Value("c", (), extra.low, extra.high, sources=frozenset("c")))
    name = w.fresh("g")
    if layer:
        known = [n for n, x in sizes.items() if x.known]
        axes = [*(own_axes[n] for n in known), fixed(2)]
        shape = [w.pick(axes) for _ in range(w.number(1, 2))]
        inner.values.append(Value("W", tuple(shape)))
        inner.line(f"param W: [{', '.join(x.text for x in shape)}] ~ glorot")
    productions = {
        "equation": equation, "contraction": contraction, "running": running, "scan": scan,
        "whole tensors": whole_tensors, "convolution": convolution, "slices": slices,
    }  # fmt: skip
    for _ in range(w.number(1, 2)):
        kind = w.choose(list(productions)) if not inner.wishes else inner.choose(list(productions))
        productions[kind](inner)
        if kind == "scan" and w.scanned:
            w.tag("scan inside a scan")
        if kind == "scan" and mapped:
            w.tag("mapped scan")
    if same_shape:
        indices = named(list(own.shape))
        inner.sources.clear()
        e = written(inner, indices, 2)
        inner.line(f"{target('y', indices)} = {e.text}")
        result = Value("y", own.shape, e.low, e.high, sources=frozenset(inner.sources))
    else:
        result = inner.values[-1]
    word = "layer" if layer else "fn"
    arguments = [f"x: [{', '.join(sizes)}]", *(["c: []"] if extra else [])]
    facts = [f"{n} >= {x.least}" for n, x in sizes.items()]
    head = f"{word} {name}({', '.join(arguments)}) -> {result.name} where {', '.join(facts)}:"
    w.definitions.append("\n".join([head, *inner.lines]) + "\n")
    w.definitions.extend(inner.definitions)
    w.tags += inner.tags
    w.count = inner.count
    w.uses(*([a] if "x" in result.sources else []), *([extra] if extra and "c" in result.sources else []))
    w.tag(f"{'layer' if layer else 'tensor function'} of the user")
    names = letters(mapped)
    if same_shape:
        loop(w, a, name, extra, result)
        return
    given = plain(a, [*names, *(":" for _ in sizes)]) if mapped else a.name
    more = [extra.name] if extra else []
    shape = [*a.shape[:mapped], *(translated(x, sizes) for x in result.shape)]
    value = w.define(shape, result.low, result.high)
    if mapped:
        w.tag("mapped call")
    left = plain(value, [*names, *(":" for _ in result.shape)]) if mapped else value.name
    if layer and w.choose(["new", "shared"]) == "shared":
        w.tag("shared layer")
        w.line(f"use {name}s = {name}()")
        name += "s"
    w.line(f"{left} = {name}({', '.join([given, *more])})")


def loop(w: Writer, a: Value, name: str, extra: Value | None, result: Value) -> None:
    """The same layer again and again, with parameters of its own each time."""
    w.tag("for")
    more = f", {extra.name}" if extra else ""
    value = w.define(a.shape, result.low, result.high)
    limit = max(abs(a.low), abs(a.high), 0.1)
    w.line(f"{value.name} = {a.name}")
    w.line(f"for l in 0..{w.number(1, 3)}:")
    with w.block():
        w.line(f"{value.name} = {limit:.3f} * tanh({name}({value.name}{more}))")
    w.values[-1] = replace(value, low=-limit, high=limit)


def translated(axis: Axis, sizes: dict[str, Axis]) -> Axis:
    """A size of a function in the words of its caller."""
    text = re.sub(r"[A-Z]\w*", lambda m: f"({sizes[m.group()].text})", axis.text)
    text = re.sub(r"^\((\w+)\)$", r"\1", text)
    if all(x.known for x in sizes.values()) or axis.known:
        return fixed(axis.value)
    return Axis(text, axis.value, axis.least)


def tensor_function(w: Writer) -> None:
    called(w, False)


def layer(w: Writer) -> None:
    called(w, True)


def repeated_layer(w: Writer) -> None:
    called(w, w.chance(2), same_shape=True)


def library(w: Writer) -> None:
    """Layers of the standard library."""
    a = rank(w, 1, 3)
    options = ["dropout"]
    if a.shape[-1].known:
        options += ["dense", "layer_norm"]
    kind = w.choose(options)
    size = max(abs(a.low), abs(a.high))
    w.uses(a)
    w.tag(kind)
    if kind == "dense":
        value = w.define([*a.shape[:-1], fixed(3)], -2 - 3 * size, 2 + 3 * size)
        w.line(f"{value.name} = {a.name} |> dense(3) |> {w.pick(['tanh', 'gelu', 'sigmoid'])}")
    elif kind == "layer_norm":
        value = w.define(a.shape, -5, 5)
        w.line(f"{value.name} = {a.name} |> layer_norm")
    else:
        value = w.define(a.shape, -2 * size, 2 * size)
        w.line(f"{value.name} = {a.name} |> dropout(0.3)")


# ---- blocks ---------------------------------------------------------------------------------------------


def modes(w: Writer) -> None:
    """A state that training updates and inference uses."""
    size = w.pick([a for a in w.axes if a.known])
    state = w.fresh("state")
    e = written(w, {"k": size}, 2)
    w.tag("state and modes")
    value = w.define([size], min(e.low, 0), max(e.high, 1))
    w.line(f"state {state}: [{size.text}] = 0.5")
    w.line("training:")
    with w.block():
        w.line(f"{value.name}[k: {size.text}] = {e.text}")
        w.line(f"{state} <- 0.9 * {state} + 0.1 * {value.name}")
    w.line("inference:")
    with w.block():
        w.line(f"{value.name} = 1.0 * {state}")
    w.values[-1] = replace(value, sources=frozenset())  # in inference it depends on nothing


def checkpoint(w: Writer) -> None:
    w.tag("checkpoint")
    w.line("checkpoint:")
    with w.block():
        w.pick([equation, contraction, running])(w)


# ---- derivatives ----------------------------------------------------------------------------------------


def derivative(w: Writer) -> None:
    """A derivative by an input or parameter as a value, kept small by tanh."""
    found = [v for v in w.floats() if v.sources]
    if not found or w.scanned:
        equation(w)
        return
    of = w.pick(found[::-1])
    leaf = w.pick(sorted(of.sources))
    by = next(v for v in w.values if v.name == leaf)
    elements = 1
    for axis in (*of.shape, *by.shape):
        elements *= axis.value
    kinds = ["grad", "jvp", "vjp"]
    if not w.by_hand and elements <= 40:
        kinds += ["jacobian", "hessian"]
    kind = w.choose(kinds)
    w.tag(kind)
    w.uses(of)
    if kind in ("grad", "hessian"):
        energy = w.fresh("e")
        names = letters(len(of.shape))
        inner = f"sin({plain(of, names)} * 1.3)"
        w.line(f"{energy} = " + (f"sum[{', '.join(names)}]({inner})" if names else inner))
        text, shape = f"{kind}({energy}, {by.name})", by.shape * (2 if kind == "hessian" else 1)
    elif kind == "jacobian":
        text, shape = f"jacobian({of.name}, {by.name})", (*of.shape, *by.shape)
    else:
        like = by if kind == "jvp" else of
        direction = w.fresh("d")
        indices = named(list(like.shape))
        angle = " + ".join(["0.3", *indices])
        w.line(f"{target(direction, indices)} = cos({angle})")
        text, shape = f"{kind}({of.name}, {by.name}, {direction})", (of if kind == "jvp" else by).shape
    raw = w.fresh("d")
    w.line(f"{raw} = {text}")
    value = w.define(shape, -1, 1)
    w.line(f"{value.name} = tanh({raw} / 4)")
    if kind == "grad":
        if of.name in w.derived:
            w.tag("derivative of a derivative")
        w.derived.add(value.name)
    else:
        w.values[-1] = replace(value, sources=frozenset())  # it may be constant
