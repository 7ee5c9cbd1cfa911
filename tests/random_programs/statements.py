"""Random statements, one function for each construct of the language; each adds at least one float value."""

from __future__ import annotations

from collections.abc import Callable

from expressions import Expr, Indices, Writing
from writer import Axis, Value, Writer, fixed, letters, scaled

Production = Callable[[Writer], None]


def bounds(indices: Indices) -> str:
    return ", ".join(f"{n}: {a.text}" for n, a in indices.items())


def some_axes(w: Writer, low: int = 0, high: int = 3) -> list[Axis]:
    return [w.pick(w.axes) for _ in range(w.number(low, high))]


def named(axes: list[Axis], taken: list[str] | None = None) -> Indices:
    return dict(zip(letters(len(axes), taken or ()), axes, strict=True))


def target(name: str, indices: Indices) -> str:
    return f"{name}[{bounds(indices)}]" if indices else name


def written(w: Writer, indices: Indices, depth: int = 3) -> Expr:
    """An expression, made small where it is large."""
    e = Writing(w, indices).expr(depth)
    by = scaled(e.low, e.high)
    return e if by == 1 else Expr(f"{e.text} / {by}", e.low / by, e.high / by)


def rank(w: Writer, least: int, most: int = 4) -> Value:
    """A float value with some axes; one is made where there is none."""
    found = w.floats(least, most)
    if found:
        return w.pick(found[::-1])
    return made(w, [w.pick(w.axes) for _ in range(least)])


def plain(value: Value, names: list[str]) -> str:
    return f"{value.name}[{', '.join(names)}]" if names else value.name


# ---- equations ------------------------------------------------------------------------------------------


def wanted_axes(w: Writer) -> list[Axis]:
    """Axes for indices; those of the data that are to be read, if any."""
    kinds = {"mask": "bool", "gather": "int", "loose gather": "int"}
    kind = next((kinds[x] for x in w.wishes if x in kinds), None)
    found = [v for v in w.values if v.kind == kind]
    return list(w.pick(found).shape) if found else some_axes(w)


def equation(w: Writer) -> None:
    axes = wanted_axes(w)
    indices = named(axes)
    e = written(w, indices)
    value = w.define(axes, e.low, e.high)
    w.tag(f"equation with {len(axes)} indices")
    w.line(f"{target(value.name, indices)} = {e.text}")


def mask(w: Writer) -> None:
    axes = some_axes(w, 1, 2)
    indices = named(axes)
    text = Writing(w, indices).condition()
    w.sources.clear()
    value = w.add(Value(w.fresh("b"), tuple(axes), kind="bool"))
    w.tag("bool value")
    w.line(f"{target(value.name, indices)} = {text}")
    equation(w)


def contraction(w: Writer) -> None:
    """An implied sum of products, with other terms beside it."""
    factors = [rank(w, 1) for _ in range(w.number(2, 3))]
    names: Indices = {}
    texts: list[str] = []
    size = 1.0
    for value in factors:
        places = []
        for axis in value.shape:
            known = [n for n, a in names.items() if a == axis and n not in places]
            name = w.pick(known) if known and not w.chance(4) else letters(1, list(names))[0]
            names[name] = axis
            places.append(name)
        texts.append(plain(value, places))
        size *= max(abs(value.low), abs(value.high))
    kept = {n: a for n, a in names.items() if w.chance(2)}
    while len(kept) > 3:
        kept.popitem()
    for name, axis in names.items():
        size *= 1 if name in kept else axis.value
    w.uses(*factors)
    by = scaled(-size, size)
    text = " * ".join(texts) + (f" / {by}" if by != 1 else "")
    low = high = size / by
    if kept and w.chance(2):
        e = written(w, kept, 1)
        text += f" {w.pick(['+', '-'])} ({e.text})"
        low, high = low + e.size, high + e.size
    summed = [n for n in names if n not in kept]
    w.tag("implied sum" if summed else "outer product")
    if len(factors) == 3:
        w.tag("three factors")
    value = w.define(list(kept.values()), -low, high)
    left = f"{value.name}[{', '.join(kept)}]" if kept else value.name
    w.line(f"{left} = {text}")


def einsum(w: Writer) -> None:
    a, b = rank(w, 1, 3), rank(w, 1, 3)
    names: dict[str, Axis] = {}
    words: list[str] = []
    for value in (a, b):
        word = ""
        for axis in value.shape:
            known = [n for n, x in names.items() if x == axis and n not in word]
            name = w.pick(known) if known else letters(1, list(names))[0]
            names[name] = axis
            word += name
        words.append(word)
    kept = [n for n in names if w.chance(2)][:3]
    size = max(abs(a.low), abs(a.high)) * max(abs(b.low), abs(b.high))
    for name, axis in names.items():
        size *= 1 if name in kept else axis.value
    by = scaled(-size, size)
    w.uses(a, b)
    w.tag("einsum")
    value = w.define([names[n] for n in kept], -size / by, size / by)
    w.line(f'{value.name} = einsum("{words[0]},{words[1]}->{"".join(kept)}", {a.name}, {b.name}) / {by}')


def whole_tensors(w: Writer) -> None:
    a = rank(w, 1)
    same = [v for v in w.floats() if v.shape == a.shape]
    b = w.pick(same)
    w.uses(a, b)
    w.tag("whole tensors")
    value = w.define(a.shape, -abs(a.low) - abs(a.high) - 1, abs(a.low) + abs(a.high) + 1)
    form = w.pick(["{a} + tanh({b})", "0.5 * {a} - sin({b})", "{a} |> tanh", "({a} + cos({b})) / 2"])
    w.line(f"{value.name} = {form.format(a=a.name, b=b.name)}")


def added(w: Writer) -> None:
    """`+=` onto an earlier value, and a name that is defined again."""
    a = rank(w, 1, 2)
    indices = named(list(a.shape))
    e = written(w, indices, 2)
    f = written(w, indices, 1)
    w.tag("+= without a scatter")
    value = w.define(a.shape, e.low + f.low, e.high + f.high)
    w.line(f"{target(value.name, indices)} = {e.text}")
    w.line(f"{target(value.name, indices)} += {f.text}")


# ---- ranges ---------------------------------------------------------------------------------------------


def slices(w: Writer) -> None:
    a = rank(w, 1)
    place = w.number(0, len(a.shape) - 1)
    axis = a.shape[place]
    kind = w.choose(["tail", "front", "flip", "second", "one"])
    text, size = {
        "tail": (f"1:{axis.text}", axis.less(1)),
        "front": (f"0:{axis.less(1).text}", axis.less(1)),
        "flip": ("::-1", axis),
        "second": ("::2", Axis(f"({axis.text} + 1) // 2", (axis.value + 1) // 2)),
        "one": ("0:1", fixed(1)),
    }[kind]
    if axis.known and kind == "second":
        size = fixed(size.value)
    if size.least < 1:
        text, size = "::-1", axis
    items = [":"] * len(a.shape)
    items[place] = text
    w.uses(a)
    w.tag("slice")
    value = w.define([size if k == place else x for k, x in enumerate(a.shape)], a.low, a.high)
    w.line(f"{value.name} = {a.name}[{', '.join(items)}]")


def concat(w: Writer) -> None:
    a = rank(w, 1, 3)
    place = w.number(0, len(a.shape) - 1)
    rest = a.shape[:place] + a.shape[place + 1 :]
    fitting = [v for v in w.floats(1, 3) if v.shape[:place] + v.shape[place + 1 :] == rest and len(v.shape) > place]
    parts = [a, *(w.pick(fitting) for _ in range(w.number(1, 2)))]
    w.uses(*parts)
    names = letters(len(a.shape))
    total = sum(v.shape[place].value for v in parts)
    text = " + ".join(v.shape[place].text for v in parts)
    size = fixed(total) if all(v.shape[place].known for v in parts) else Axis(f"({text})", total)
    extra = ""
    if w.chance(2) and rest == ():
        extra = "0.7, "
        size = fixed(total + 1) if size.known else Axis(f"({text} + 1)", total + 1)
    w.tag("concat")
    shape = [size if k == place else x for k, x in enumerate(a.shape)]
    value = w.define(shape, min(0.7, *(v.low for v in parts)), max(0.7, *(v.high for v in parts)))
    args = ", ".join(plain(v, names) for v in parts)
    w.line(f"{value.name}[{', '.join(names)}] = concat[{names[place]}]({extra}{args})")


def made(w: Writer, axes: list[Axis]) -> Value:
    """A new float value with given axes."""
    indices = named(axes)
    e = written(w, indices, 1)
    value = w.define(axes, e.low, e.high)
    w.line(f"{target(value.name, indices)} = {e.text}")
    return value


def convolution(w: Writer) -> None:
    """A window along an axis: valid, strided, or padded with an `else`; with weights, or the largest in the window."""
    weighted = w.choose(["weights", "no weights"]) == "weights"
    kind = w.choose(["padded", "valid", "strided"])
    a = rank(w, 1, 3)
    places = [k for k, x in enumerate(a.shape) if kind != "valid" or (x.known and x.value > 2)]
    if not places:
        a, places = made(w, [fixed(4)]), [0]
    place = w.pick(places)
    axis, names = a.shape[place], letters(len(a.shape))
    t, u = names[place], letters(1, names)[0]
    width, weight, size = 2, "", max(abs(a.low), abs(a.high)) * 2
    w.uses(a)
    if weighted:
        fitting = [v for v in w.floats(1, 1) if v.shape[0].known and v.shape[0].value <= 3]
        sources = set(w.sources)
        kernel = w.pick(fitting) if fitting else made(w, [fixed(2)])
        w.sources |= sources
        w.uses(kernel)
        width, weight = kernel.shape[0].value, f" * {kernel.name}[{u}]"
        size *= width * max(abs(kernel.low), abs(kernel.high), 0.1)
    half = Axis(f"({axis.text} + 1) // 2", (axis.value + 1) // 2)
    half = fixed(half.value) if axis.known else half
    new = {"padded": axis, "valid": fixed(max(axis.value - width + 1, 1)), "strided": half}[kind]
    at = {"padded": f"{t} + {u} - 1", "valid": f"{t} + {u}", "strided": f"2*{t} + {u} - 1"}[kind]
    read = plain(a, [at if n == t else n for n in names])
    read = read if kind == "valid" else f"({read} else 0)"
    w.tag(f"{kind} convolution" if weighted else f"{kind} pooling")
    by = scaled(-size, size)
    shape = [new if n == t else x for n, x in zip(names, a.shape, strict=True)]
    value = w.define(shape, -size / by, size / by)
    left = ", ".join(f"{n}: {x.text}" for n, x in zip(names, shape, strict=True))
    reduction = "sum" if weighted else w.pick(["max", "sum", "min"])
    w.line(f"{value.name}[{left}] = {reduction}[{u}: {width}]({read}{weight}) / {by}")


def ranged(w: Writer) -> None:
    """A range that a `where` gives."""
    size = fixed(w.number(1, 3))
    e = written(w, {"i": size}, 2)
    w.tag("where")
    value = w.define([size], e.low - 1, e.high + 1)
    w.line(f"{value.name}[i] = {e.text} + i / 4 where i = {size.text}")


# ---- groups ---------------------------------------------------------------------------------------------


def joined_axes(w: Writer) -> None:
    a = rank(w, 2, 3)
    place = w.number(0, len(a.shape) - 2)
    names = letters(len(a.shape))
    first, second = a.shape[place], a.shape[place + 1]
    count = first.value * second.value
    both = fixed(count) if first.known and second.known else Axis(f"(({first.text}) * ({second.text}))", count)
    left = [*names[:place], f"({names[place]} {names[place + 1]})", *names[place + 2 :]]
    if w.chance(2):
        left[place] = f"({names[place + 1]} {names[place]})"
    w.uses(a)
    w.tag("grouped axes")
    value = w.define([*a.shape[:place], both, *a.shape[place + 2 :]], a.low, a.high)
    w.line(f"{value.name}[{', '.join(left)}] = {plain(a, names)}")


def split_axis(w: Writer) -> None:
    even = [v for v in w.floats(1, 3) if any(x.known and x.value in (4, 6) for x in v.shape)]
    if not even:
        joined_axes(w)
        return
    a = w.pick(even[::-1])
    place = w.pick([k for k, x in enumerate(a.shape) if x.known and x.value in (4, 6)])
    names = letters(len(a.shape) + 1)
    half = a.shape[place].value // 2
    right = [*names[:place], f"({names[place]} {names[place + 1]})", *names[place + 2 :]]
    left = list(names)
    if w.chance(2):
        left.reverse()
    sizes = dict(zip(names, [*a.shape[:place], fixed(half), fixed(2), *a.shape[place + 1 :]], strict=True))
    w.uses(a)
    w.tag("split axis")
    value = w.define([sizes[n] for n in left], a.low, a.high)
    w.line(f"{value.name}[{', '.join(left)}] = {plain(a, right)} where {names[place + 1]} = 2")
