"""Kinds of statements: equations, reductions, runs along an axis, gathers and scatters, pieces of tensors."""

from __future__ import annotations

from collections.abc import Callable

from tests.pairs.expressions import Equation, access
from tests.pairs.plan import Maker, Node, Statement, fixed, tidy
from tests.pairs.switches import on

#: kinds of statements and how often they are chosen
KINDS: dict[str, tuple[Callable[[Maker], None], float]] = {}


def kind(weight: float) -> Callable[[Callable[[Maker], None]], Callable[[Maker], None]]:
    def keep(make: Callable[[Maker], None]) -> Callable[[Maker], None]:
        KINDS[make.__name__] = (make, weight)
        return make

    return keep


def targets(m: Maker, ranks: list[int]) -> list[str]:
    return [m.size() for _ in range(m.rng.choice(ranks))]


def equation_of(m: Maker, sizes: list[str], depth: int, kind: str) -> None:
    e = Equation(m, sizes)
    node = e.floating(e.expression(depth, e.left), e.left)
    y = m.define(sizes, sure=False)
    if not sizes:
        spec = f"{y.name} = {{0}}"
    else:
        spec = f"{y.name}[{{left}}] = {{0}}"
    # torch.as_tensor: an expression of numbers alone is a number
    torch = [*e.grid(), f"{y.name} = done({{0}}, {', '.join(sizes)})" if sizes else f"{y.name} = done({{0}})"]
    m.add(Statement(kind, [spec], torch, [y], [node], {"{left}": e.left}))


@kind(10)
def equation(m: Maker) -> None:
    equation_of(m, targets(m, [0, 1, 1, 2, 2, 3]), m.rng.choice([2, 3, 3, 4]), "equation")


@kind(3)
def contraction(m: Maker) -> None:
    """An einsum of two or three tensors, as a string or as an equation."""
    rng = m.rng
    letters = rng.sample("abcdefghij", 4)
    sizes = {c: m.size() for c in letters}
    out = rng.sample(letters, rng.choice([0, 1, 2, 2, 3]))
    terms = [rng.sample(letters, rng.choice([1, 2, 2, 3])) for _ in range(rng.choice([2, 2, 3]))]
    used = [c for term in terms for c in term]
    out = [c for c in out if c in used]
    factors = [m.value([sizes[c] for c in term]) for term in terms]
    y = m.define([sizes[c] for c in out], sure=False)
    text = ",".join("".join(t) for t in terms) + "->" + "".join(out)
    names = ", ".join(f.name for f in factors)
    if rng.random() < 0.4:
        spec = f'{y.name} = einsum("{text}", {names})'
    else:
        product = " * ".join(f"{f.name}[{', '.join(t)}]" for f, t in zip(factors, terms, strict=True))
        spec = f"{y.name}[{', '.join(out)}] = {product}" if out else f"{y.name} = {product}"
    torch = f'{y.name} = torch.einsum("{text}", {names})'
    m.add(Statement("contraction", [spec], [torch], [y], reads=frozenset(f.name for f in factors)))


@kind(3)
def convolution(m: Maker) -> None:
    """A window over one axis: valid, strided, dilated, or padded by `else`, `wrap` or `clamp`."""
    rng = m.rng
    n, t, c, o = m.size(), m.size(2), m.size(), m.size()
    x = m.value([n, t, c])
    taps = rng.choice([1, 2, 3])
    k = m.leaf([str(taps), c, o]) if fixed(c) and fixed(o) else m.value([str(taps), c, o])
    y = None
    stride, dilation, pad = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2]), rng.choice([0, 1, 2])
    mode = rng.choice(["else", "wrap", "clamp", "valid", "else"])
    reach = dilation * (taps - 1)
    at = (
        f"{stride}*p + {dilation}*a"
        if stride > 1 and dilation > 1
        else f"{stride}*p + a"
        if stride > 1
        else f"p + {dilation}*a"
    )
    at = at.replace("+ 1*a", "+ a")
    if mode == "valid" and m.surely(t, reach + 1):
        p = tidy(f"({t} - {reach} - 1) // {stride} + 1") if reach else tidy(f"({t} - 1) // {stride} + 1")
        if stride == 1:
            p = tidy(f"{t} - {reach}") if reach else t
        read, torch = f"{x.name}[n, {at}, c]", f"{x.name}[n, {at}, c]"
    else:
        mode = "else" if mode == "valid" else mode
        p = t if stride == 1 else tidy(f"({t} - 1) // {stride} + 1")
        at = f"{at} - {pad}" if pad else at
        read = {"else": f"({x.name}[n, {at}, c] else 0)"}.get(mode, f"{x.name}[n, {mode}({at}), c]")
        torch = {
            "else": f"padded({x.name}, 0, n, {at}, c)",
            "wrap": f"{x.name}[n, ({at}) % {x.shape[1]}, c]",
            "clamp": f"{x.name}[n, ({at}).clamp(0, {x.shape[1]} - 1), c]",
        }[mode]
    y = m.define([n, p, o], sure=False)
    factors = [f"{read}", f"{k.name}[a, c, o]"]
    if rng.random() < 0.5:
        factors.reverse()
    product = " * ".join(factors)
    if rng.random() < 0.3:
        product = f"sum[a, c]({product})"
    lines = [
        f"n, p, o, a, c = at(-3, {n}), at(-2, {p}), at(-1, {o}), at(-4, {taps}), at(-5, {c})",
        f"{y.name} = done(total(total({torch} * {k.name}[a, c, o], -4, {taps}), -5, {c}), {n}, {p}, {o})",
    ]
    spec = f"{y.name}[n, p: {p}, o] = {product}"
    m.add(Statement("convolution", [spec], lines, [y], reads=frozenset([x.name, k.name])))


@kind(2)
def pooling(m: Maker) -> None:
    rng = m.rng
    n, width = m.size(), rng.choice(["2", "3"])
    p = m.size()
    t = tidy(f"{width}*{p}")
    x = m.value([n, t])
    name = rng.choice(["max", "mean", "sum", "min"])
    y = m.define([n, p], sure=False)
    torch = (
        f"{x.name}.reshape({n}, {p}, {width})."
        + {"max": "amax(2)", "min": "amin(2)", "mean": "mean(2)", "sum": "sum(2)"}[name]
    )
    spec = f"{y.name}[n, p: {p}] = {name}[a: {width}]({x.name}[n, {width}*p + a])"
    m.add(Statement("pooling", [spec], [f"{y.name} = {torch}"], [y], reads=frozenset([x.name])))


@kind(3)
def whole(m: Maker) -> None:
    """Whole tensors: reduced without brackets, combined by name, reduced over `...`."""
    rng = m.rng
    x = m.pick([1, 2, 3])
    form = rng.randrange(6)
    if form == 0:
        name = rng.choice(["sum", "mean", "max", "min"])
        y = m.define([], sure=False)
        torch = {"sum": ".sum()", "mean": ".mean()", "max": ".amax()", "min": ".amin()"}[name]
        lines = [f"{y.name} = {name}({x.name})"], [f"{y.name} = {x.name}{torch}"]
    elif form == 1:
        y = m.define([x.shape[0]], sure=False)
        lines = (
            [f"{y.name}[n] = sum[...]({x.name}[n, ...]^2)"],
            [f"{y.name} = ({x.name}**2).reshape({x.shape[0]}, -1).sum(1)"],
        )
        if len(x.shape) < 2:
            lines = [f"{y.name}[n] = {x.name}[n]^2"], lines[1]
    elif form == 2:
        other = m.value(x.shape)
        y = m.define(x.shape, sure=False)
        lines = (
            [f"{y.name} = 2 * {x.name} + tanh({other.name}) / 3"],
            [f"{y.name} = 2 * {x.name} + torch.tanh({other.name}) / 3"],
        )
        m.add(Statement("whole", *lines, [y], reads=frozenset([x.name, other.name])))
        return
    elif form == 3:
        y = m.define(x.shape, sure=False)
        lines = [f"{y.name} = {x.name} |> tanh |> square"], [f"{y.name} = torch.tanh({x.name}) ** 2"]
    elif form == 4:
        y = m.define(x.shape, sure=False)
        spec = [f"{y.name} = {x.name}", f"{y.name} = sin({y.name}) + {y.name}", f"{y.name} += {x.name}"]
        lines = spec, [f"{y.name} = torch.sin({x.name}) + {x.name} + {x.name}"]
    else:
        y = m.define([], sure=False)
        lines = (
            [f"{y.name} = mean(({x.name} - mean({x.name}))^2)"],
            [f"{y.name} = ((({x.name} - {x.name}.mean()))**2).mean()"],
        )
    m.add(Statement("whole", *lines, [y], reads=frozenset([x.name])))


@kind(4)
def axis_function(m: Maker) -> None:
    """A function with an axis, of the library or of the file."""
    rng = m.rng
    x = m.pick([1, 2, 3])
    axis = rng.randrange(len(x.shape))
    indices = list("nkts"[: len(x.shape)])
    i, size = indices[axis], x.shape[axis]
    here = ", ".join(indices)
    own = m.name("share")
    kept = {
        "softmax": ("", "torch.softmax({x}, {a})"),
        "log_softmax": ("", "torch.log_softmax({x}, {a})"),
        "standardize": (
            "",
            "({x} - {x}.mean({a}, keepdim=True)) / torch.sqrt({x}.var({a}, unbiased=False, keepdim=True) + 1e-5)",
        ),
        "normalize": ("", "{x} / torch.maximum(root(({x} ** 2).sum({a}, keepdim=True)), num(1e-12))"),
        own: (
            f"fn {own}[k](x) = (1 + x^2) / sum[k](1 + x^2)",
            "(1 + {x} ** 2) / (1 + {x} ** 2).sum({a}, keepdim=True)",
        ),
        own + "1": (
            f"fn {own}1[q](x, c = 0.5) = tanh(c * x) - mean[q](x) / 2",
            "torch.tanh(0.5 * {x}) - {x}.mean({a}, keepdim=True) / 2",
        ),
    }
    reduced = {
        "logsumexp": ("", "torch.logsumexp({x}, {a})"),
        "var": ("", "{x}.var({a}, unbiased=False)"),
        "std": ("", "root({x}.var({a}, unbiased=False))"),
        "norm": ("", "root(({x} ** 2).sum({a}))"),
        own + "2": (f"fn {own}2[k](x) = max[k](x) - min[k](x)", "{x}.amax({a}) - {x}.amin({a})"),
        own + "3": (
            f"fn {own}3[k](x) = log(mean[k](exp(x)))",
            f"torch.logsumexp({{x}}, {{a}}) - math.log({size})",
        ),
    }
    outer = rng.choice(["", "", "tanh", "sin"])
    if rng.random() < 0.5:
        name = rng.choice(list(kept))
        definition, torch = kept[name]
        shape, left = x.shape, here
    else:
        name = rng.choice(list(reduced))
        definition, torch = reduced[name]
        shape = tuple(s for a, s in enumerate(x.shape) if a != axis)
        left = ", ".join(j for j in indices if j != i)
    y = m.define(shape, sure=False)
    call = f"{name}[{i}]({x.name}[{here}])"
    torch = torch.format(x=x.name, a=axis)
    if outer:
        call, torch = f"{outer}({call})", f"torch.{outer}({torch})"
    spec = f"{y.name}[{left}] = {call}" if left else f"{y.name} = {call}"
    m.add(
        Statement(
            "axis_function",
            [spec],
            [f"{y.name} = {torch}"],
            [y],
            definitions=[definition] if definition else [],
            reads=frozenset([x.name]),
        )
    )


@kind(3)
def cumulative(m: Maker) -> None:
    rng = m.rng
    name = rng.choice(["cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "argmax", "argmin"])
    x = m.pick([1, 2, 3], sure=True)
    axis = rng.randrange(len(x.shape))
    indices = list("ntkj"[: len(x.shape)])
    here, i = ", ".join(indices), indices[axis]
    a = axis - len(x.shape)
    if name in ("argmax", "argmin"):
        y = m.define([s for b, s in enumerate(x.shape) if b != axis], "i64")
        left = ", ".join(j for j in indices if j != i)
        torch = f"torch.{name}({x.name}, {axis})"
    else:
        y = m.define(x.shape, "i64" if name == "argsort" else "f", sure=name == "sort" and x.sure)
        left, torch = here, f"running({name!r}, {x.name}, {a}, {x.shape[axis]})"
    target = f"{y.name}[{left}]" if left else y.name
    m.add(
        Statement(
            "cumulative",
            [f"{target} = {name}[{i}]({x.name}[{here}])"],
            [f"{y.name} = {torch}"],
            [y],
            reads=frozenset([x.name]),
        )
    )


@kind(2)
def top_k(m: Maker) -> None:
    rng = m.rng
    x = m.pick([1, 2], sure=True)
    size = x.shape[-1]
    count = next((k for k in rng.sample([1, 2, 3], 3) if m.surely(size, k)), 1)
    v, p = m.define([*x.shape[:-1], str(count)]), m.define([*x.shape[:-1], str(count)], "i64")
    n = "n, " if len(x.shape) == 2 else ""
    spec = f"{v.name}[{n}j], {p.name}[{n}j] = top_k[k -> j: {count}]({x.name}[{n}k])"
    torch = f"{v.name}, {p.name} = first({x.name}, {count})"
    m.add(Statement("top_k", [spec], [torch], [v, p], reads=frozenset([x.name])))


@kind(2)
def gather(m: Maker) -> None:
    rng = m.rng
    v, e, n = m.size(), m.size(), m.size()
    table, place = m.value([v, e]), m.leaf([n], "i32", bound=v)
    if rng.random() < 0.3:
        free = m.leaf([n], "i32", stem="jump")
        y = m.define([n, e], sure=False)
        how = rng.choice(["clamp", "wrap", "else"])
        read = (
            f"({table.name}[{free.name}[n], e] else 0.5)"
            if how == "else"
            else f"{table.name}[{how}({free.name}[n]), e]"
        )
        at = f"{free.name}[n].long()"
        torch = {
            "else": f"padded({table.name}, 0.5, {at}, e)",
            "clamp": f"{table.name}[{at}.clamp(0, {v} - 1), e]",
            "wrap": f"{table.name}[{at} % {v}, e]",
        }[how]
        lines = [f"n, e = at(-2, {n}), at(-1, {e})", f"{y.name} = done({torch}, {n}, {e})"]
        m.add(Statement("gather", [f"{y.name}[n, e] = {read}"], lines, [y], reads=frozenset([table.name, free.name])))
        return
    y = m.define([n, e], sure=False)
    weight = m.value([n])
    spec = f"{y.name}[n, e] = {weight.name}[n] * {table.name}[{place.name}[n], e]"
    torch = f"{y.name} = {weight.name}[:, None] * {table.name}[{place.name}.long()]"
    m.add(Statement("gather", [spec], [torch], [y], reads=frozenset([table.name, place.name, weight.name])))


@kind(3)
def scatter(m: Maker) -> None:
    rng = m.rng
    edges, v, o = m.size(), m.size(), m.size()
    dst, z, w = m.leaf([edges], "i32", bound=v, stem="dst"), m.value([edges, o], sure=True), m.value([edges])
    how = rng.choice(["+=", "+=", "max=", "min="])
    e = Equation(m, [edges, o])
    i, j = e.left
    first = [access(z, [i.name, j.name], [i.var, j.var], e.left), access(w, [i.name], [i.var], [i])]
    body = Node("{0} * {1}", "{0} * {1}", first, 3, (3, 4))
    if rng.random() < 0.5:
        body = Node("tanh({0})", "torch.tanh({0})", [body])
    y = m.define([v, o], sure=False)
    reads = frozenset([dst.name])
    lines = [*e.grid(), f"{y.name}_terms = done({{0}}, {edges}, {o})"]
    spec = [f"{y.name}[{dst.name}[{i.name}], {j.name}] {how} {{0}}"]
    if how == "+=":
        lines += [f"{y.name} = torch.zeros({v}, {o}).index_add(0, {dst.name}.long(), {y.name}_terms)"]
        if rng.random() < 0.3:
            base = m.value([v, o])
            reads |= {base.name}
            spec.insert(0, f"{y.name} = 3 * {base.name}")
            lines[-1] = f"{y.name} = (3 * {base.name}).index_add(0, {dst.name}.long(), {y.name}_terms)"
    else:
        start, name = ("-", "amax") if how == "max=" else ("", "amin")
        places = f"{dst.name}.long()[:, None].expand({edges}, {o})"
        lines += [
            f"{y.name} = torch.full(({v}, {o}), {start}math.inf).scatter_reduce(0, {places}, {y.name}_terms, '{name}')"
        ]
        # places that nothing names keep the start: they count 0
        spec.append(f"{y.name}[v, o] = {y.name}[v, o] if isfinite({y.name}[v, o]) else 0")
        lines += [f"{y.name} = torch.where(torch.isfinite({y.name}), {y.name}, 0)"]
    m.add(Statement("scatter", spec, lines, [y], [body], reads=reads))


@kind(3)
def pieces(m: Maker) -> None:
    """Slices, steps, flips, concatenation, groups."""
    rng = m.rng
    form = rng.choice(["slice", "step", "flip", "concat", "stack", "split", "join", "difference", "map", "patch"])
    reads: list[str]
    if form in ("slice", "difference"):
        t, n = m.size(2), m.size()
        x = m.value([n, t])
        if form == "slice":
            low = rng.choice([0, 1])
            y = m.define([n, tidy(f"{t}-{low}") if low else t], sure=False)
            lines = [f"{y.name} = {x.name}[:, {low}:{t}]"], [f"{y.name} = {x.name}[:, {low}:{t}]"]
        else:
            y = m.define([n, tidy(f"{t}-1")], sure=False)
            text = f"{y.name} = {x.name}[:, 1:{t}] - {x.name}[:, 0:{t}-1]"
            lines = [text], [text]
        reads = [x.name]
    elif form == "step":
        t, n = m.size(2), m.size()
        x = m.value([n, t])
        y = m.define([n, tidy(f"({t} + 1) // 2")], sure=False)
        lines = [f"{y.name} = {x.name}[:, ::2]"], [f"{y.name} = {x.name}[:, ::2]"]
        reads = [x.name]
    elif form == "flip":
        x = m.pick([2])
        y = m.define(x.shape, sure=False)
        lines = [f"{y.name} = {x.name}[::-1, :]"], [f"{y.name} = {x.name}.flip(0)"]
        reads = [x.name]
    elif form == "concat":
        n, s, t = m.size(), m.size(), m.size()
        a, b, c = m.value([n, s]), m.value([n, t]), m.value([n])
        y = m.define([n, tidy(f"{s} + {t} + 1")], sure=False)
        lines = (
            [f"{y.name}[n, t] = concat[t]({a.name}[n, t], 2 * {b.name}[n, t], {c.name}[n])"],
            [f"{y.name} = torch.cat([{a.name}, 2 * {b.name}, {c.name}[:, None]], 1)"],
        )
        reads = [a.name, b.name, c.name]
    elif form == "stack":
        x = m.pick([1, 2])
        here = ", ".join("nk"[: len(x.shape)])
        y = m.define([*x.shape, "2"], sure=False)
        lines = (
            [f"{y.name}[{here}, r] = concat[r]({x.name}[{here}], sin({x.name}[{here}]))"],
            [f"{y.name} = torch.stack([{x.name}, torch.sin({x.name})], -1)"],
        )
        reads = [x.name]
    elif form == "split":
        n, h, d = m.size(), rng.choice(["2", "3"]), m.size()
        x = m.value([n, tidy(f"{h}*{d}")])
        y = m.define([h, n, d], sure=False)
        lines = (
            [f"{y.name}[h, n, d] = {x.name}[n, (h d)] where h = {h}"],
            [f"{y.name} = {x.name}.reshape({n}, {h}, {d}).transpose(0, 1)"],
        )
        reads = [x.name]
    elif form == "join":
        x = m.pick([2, 3])
        if len(x.shape) == 2:
            a, b = x.shape
            order = rng.random() < 0.5
            y = m.define([product_of(a, b) if order else product_of(b, a)], sure=False)
            group = "(i j)" if order else "(j i)"
            torch = f"{x.name}.reshape(-1)" if order else f"{x.name}.T.reshape(-1)"
            lines = [f"{y.name}[{group}] = {x.name}[i, j]"], [f"{y.name} = {torch}"]
        else:
            a, b, c = x.shape
            y = m.define([b, product_of(c, a)], sure=False)
            lines = (
                [f"{y.name}[j, (k i)] = {x.name}[i, j, k]"],
                [f"{y.name} = {x.name}.permute(1, 2, 0).reshape({b}, -1)"],
            )
        reads = [x.name]
    elif form == "map":
        n, k = m.size(), m.size()
        x, s = m.value([n, k]), m.value([n])
        y = m.define([n, k], sure=False)
        lines = [f"{y.name}[n, :] = {x.name}[n, :] * {s.name}[n]"], [f"{y.name} = {x.name} * {s.name}[:, None]"]
        reads = [x.name, s.name]
    else:
        h, c = m.size(), m.size()
        x = m.value([tidy(f"2*{h}"), c])
        y = m.define([h, tidy(f"2*{c}")], sure=False)
        lines = (
            [f"{y.name}[h, (a c)] = {x.name}[(h a), c] where a = 2"],
            [f"{y.name} = {x.name}.reshape({h}, 2 * {c})"],
        )
        reads = [x.name]
    m.add(Statement("pieces", *lines, [y], reads=frozenset(reads)))


def product_of(a: str, b: str) -> str:
    a, b = (s if s.isalnum() else f"({s})" for s in (a, b))
    return tidy(f"{a}*{b}")


@kind(2)
def integers(m: Maker) -> None:
    """Whole numbers, conditions and their dtypes."""
    rng = m.rng
    n = m.size()
    form = rng.randrange(7)
    if form == 0:
        k = m.leaf([n], "i32", stem="count")
        y = m.define([n], "i64")
        lines = [f"{y.name}[n] = {k.name}[n] // 2 + n"], [f"{y.name} = {k.name} // 2 + torch.arange({n})"]
        reads = [k.name]
    elif form == 1:
        k, x = m.leaf([n], "i32", stem="count"), m.value([n])
        y = m.define([n], sure=False)
        lines = [f"{y.name}[n] = {k.name}[n] * {x.name}[n] / 2"], [f"{y.name} = {k.name} * {x.name} / 2"]
        reads = [k.name, x.name]
    elif form == 2:
        x = m.value([n], sure=True)
        y = m.define([n], "bool")
        lines = (
            [f"{y.name}[n] = {x.name}[n] > 0.1 and n > 0"],
            [f"{y.name} = ({x.name} > 0.1) & (torch.arange({n}) > 0)"],
        )
        reads = [x.name]
    elif form == 3 and on("i32 results"):
        k = m.leaf([n], "i32", stem="count")
        y = m.define([], "i32")
        lines = [f"{y.name} = max[n]({k.name}[n])"], [f"{y.name} = {k.name}.max()"]
        reads = [k.name]
    elif form == 4:
        label = m.leaf([n], "i32", bound="3", stem="label")
        y = m.define([n, "3"], sure=False)
        lines = (
            [f"{y.name}[n, k] = 2.0 * one_hot[k: 3]({label.name}[n])"],
            [f"{y.name} = 2.0 * torch.nn.functional.one_hot({label.name}.long(), 3).to(torch.get_default_dtype())"],
        )
        reads = [label.name]
    elif form == 5 and on("i32 results"):
        x = m.value([n], sure=True)
        y = m.define([n], "i32")
        lines = [f"{y.name}[n] = i32(round(3 * {x.name}[n]))"], [f"{y.name} = torch.round(3 * {x.name}).int()"]
        reads = [x.name]
    else:
        keep = m.leaf([n], "bool", stem="keep")
        x = m.value([n])
        y = m.define([], sure=False)
        lines = (
            [f"{y.name} = sum[n]({x.name}[n] if {keep.name}[n] else 0) / max(1, sum[n](1 if {keep.name}[n] else 0))"],
            [f"{y.name} = ({x.name} * {keep.name}).sum() / max(1, int({keep.name}.sum()))"],
        )
        reads = [keep.name, x.name]
    m.add(Statement("integers", *lines, [y], reads=frozenset(reads)))
