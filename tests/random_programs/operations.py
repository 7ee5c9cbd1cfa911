"""Random statements with data as places, with operations along an axis, and with matrices."""

from __future__ import annotations

from statements import bounds, equation, named, plain, rank, some_axes, target, written
from writer import Value, Writer, fixed, letters

# ---- data as places -------------------------------------------------------------------------------------


def scatter(w: Writer) -> None:
    targets = [v for v in w.values if v.kind == "int" and v.below is not None and len(v.shape) == 1]
    if not targets:
        equation(w)
        return
    at = w.pick(targets)
    assert at.below is not None
    axes = some_axes(w, 0, 1)
    inner = {"m": at.shape[0], **named(axes, ["m"])}
    kept = {n: a for n, a in inner.items() if n != "m"}
    e = written(w, inner, 2)
    kind = w.choose(["+=", "max=", "min="])
    w.tag(f"scatter {kind}")
    name = w.fresh("s")
    left = ", ".join([f"{at.name}[m]: {at.below.text}", *(f"{n}: {a.text}" for n, a in kept.items())])
    w.line(f"{name}[{left}] {kind} {e.text}")
    shape = [at.below, *axes]
    if kind == "+=":
        n = at.shape[0].value
        w.add(Value(name, tuple(shape), min(n * e.low, 0), max(n * e.high, 0), sources=frozenset(w.sources)))
        w.sources.clear()
        return
    value = w.define(shape, min(e.low, 0), max(e.high, 0))
    names = ["p", *kept]
    read = f"{name}[{', '.join(names)}]"
    w.line(f"{value.name}[{', '.join(names)}] = {read} if isfinite({read}) else 0")


def best_place(w: Writer) -> None:
    """A position that is computed, and a gather with it."""
    a = rank(w, 1, 2)
    names = letters(len(a.shape))
    kind = w.choose(["argmax", "argmin", "argsort", "top_k"])
    w.tag(kind)
    place = w.fresh("a")
    last = names[-1]
    if kind.startswith("arg") and kind != "argsort":
        w.add(Value(place, a.shape[:-1], kind="int"))
        left = f"{place}[{', '.join(names[:-1])}]" if len(names) > 1 else place
        w.line(f"{left} = {kind}[{last}]({plain(a, names)})")
    elif kind == "argsort":
        w.add(Value(place, a.shape, kind="int"))
        w.line(f"{place}[{', '.join(names)}] = argsort[{last}]({plain(a, names)})")
    else:
        count = fixed(min(2, a.shape[-1].value) if a.shape[-1].known else 1)
        w.uses(a)
        value = w.define([*a.shape[:-1], count], a.low, a.high)
        w.add(Value(place, (*a.shape[:-1], count), kind="int"))
        left = ", ".join([*names[:-1], "j"] if last != "j" else [*names[:-1], "r"])
        j = left[-1]
        w.line(f"{value.name}[{left}], {place}[{left}] = top_k[{last} -> {j}: {count.text}]({plain(a, names)})")
    equation(w)


def one_hot(w: Writer) -> None:
    labels = [v for v in w.values if v.kind == "int" and v.below is not None and v.shape]
    if not labels:
        equation(w)
        return
    label = w.pick(labels)
    assert label.below is not None
    indices = {**named(list(label.shape), ["k"]), "k": label.below}
    e = written(w, indices, 1)
    w.tag("one_hot")
    value = w.define(list(indices.values()), min(e.low, 0), max(e.high, 0))
    read = plain(label, [n for n in indices if n != "k"])
    w.line(f"{target(value.name, indices)} = one_hot[k: {label.below.text}]({read}) * ({e.text})")


# ---- along an axis --------------------------------------------------------------------------------------


def running(w: Writer) -> None:
    a = rank(w, 1, 3)
    names = letters(len(a.shape))
    place = w.number(0, len(names) - 1)
    kind = w.choose(["cumsum", "cumprod", "cummax", "cummin", "sort"])
    n = a.shape[place].value
    size = max(abs(a.low), abs(a.high))
    w.uses(a)
    w.tag(kind)
    inner = plain(a, names)
    low, high = a.low, a.high
    if kind == "cumsum":
        low, high = -n * size, n * size
    if kind == "cumprod":
        inner, low, high = f"1.2 * sin({inner})", -(1.2**n), 1.2**n
    value = w.define(a.shape, low, high)
    w.line(f"{value.name}[{', '.join(names)}] = {kind}[{names[place]}]({inner})")


def fourier(w: Writer) -> None:
    a = rank(w, 1, 2)
    names = letters(len(a.shape), ["f"])
    place = w.number(0, len(names) - 1)
    n = a.shape[place].value
    size = max(abs(a.low), abs(a.high)) * n + n / 2
    w.tag("fft")
    after = ", ".join("f" if k == place else x for k, x in enumerate(names))
    parts = [w.fresh("c"), w.fresh("c")]
    w.line(f"{parts[0]}[{after}], {parts[1]}[{after}] = fft[{names[place]} -> f]({plain(a, names)})")
    for part in parts:
        # frequencies f and n - f are equal or opposite, and some parts are 0: only rounding would tell them apart
        w.uses(a)
        value = w.define(a.shape, -size, size)
        w.line(f"{value.name}[{after}] = {part}[{after}] + 0.4 * f + 0.09")


def prefix(w: Writer) -> None:
    a = rank(w, 1, 3)
    same = [v for v in w.floats(1, 3) if v.shape == a.shape]
    b = w.pick(same)
    names = letters(len(a.shape))
    fn = w.fresh("after")
    w.definitions.append(f"fn {fn}(a1, b1, a2, b2) -> (a, b):\n    a = a1 * a2\n    b = a2 * b1 + b2\n")
    place = w.number(0, len(names) - 1)
    size = max(abs(b.low), abs(b.high)) * a.shape[place].value
    w.uses(a, b)
    decay = w.define(a.shape, -1, 1)
    w.uses(a, b)
    h = w.define(a.shape, -size, size)
    w.tag("prefix")
    left = ", ".join(names)
    w.line(
        f"{decay.name}[{left}], {h.name}[{left}] = "
        f"prefix[{names[place]}]({fn}, sin({plain(a, names)}), {plain(b, names)})"
    )


# ---- matrices -------------------------------------------------------------------------------------------


def matrices(w: Writer) -> None:
    """External operations on a matrix that is far from singular."""
    size = w.pick([a for a in w.axes if a.value <= 4] or [fixed(2)])
    batch = some_axes(w, 0, 1)
    lead = named(batch, ["i", "j"])
    e = written(w, {**lead, "i": size, "j": size}, 1)
    kind = w.choose(["solve", "inv", "det", "logdet", "matexp", "cholesky", "eigh"])
    w.tag("external")
    w.tag(kind)
    matrix = w.fresh("A")
    at = ", ".join([*lead, "i", "j"])
    left = bounds({**lead, "i": size, "j": size})
    weight = 0.3 / max(e.size, 0.3)
    w.line(f"{matrix}[{left}] = {weight:.3f} * ({e.text}) + (2 + i / 2 if i == j else 0)")
    if kind in ("cholesky", "eigh"):
        other = ", ".join([*lead, "j", "i"])
        w.line(f"{matrix}s[{at}] = {matrix}[{at}] + {matrix}[{other}]")
        matrix += "s"
    here = ", ".join([*lead, ":", ":"])
    sources = set(w.sources)
    if kind == "solve":
        f = written(w, {**lead, "i": size}, 1)
        right = w.fresh("r")
        w.line(f"{target(right, {**lead, 'i': size})} = {f.text}")
        sources |= w.sources
        at = ", ".join([*lead, ":"])
        value = w.define([*batch, size], -2 * f.size, 2 * f.size)
        w.line(f"{value.name}[{at}] = solve({matrix}[{here}], {right}[{at}])")
    elif kind in ("det", "logdet"):
        limit = 6.0**size.value if kind == "det" else 3.0 * size.value
        value = w.define(batch, -limit, limit)
        w.line(f"{plain(value, list(lead))} = {kind}({matrix}[{here}])")
    elif kind == "eigh":
        value = w.define([*batch, size], -12, 12)
        at = ", ".join([*lead, ":"])
        w.line(f"{value.name}[{at}], {matrix}q[{here}] = eigh({matrix}[{here}])")
    else:
        limit = {"inv": 2.0, "matexp": 100.0, "cholesky": 4.0}[kind]
        value = w.define([*batch, size, size], -limit, limit)
        w.line(f"{value.name}[{here}] = {kind}({matrix}[{here}])")
    w.values[-1] = Value(value.name, value.shape, value.low, value.high, sources=frozenset(sources))
