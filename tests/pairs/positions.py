"""Kinds of statements about where numbers lie: stencils, groups, gathers, scatters, complex pairs, batches."""

from __future__ import annotations

import re

from tests.pairs.calculus import well_conditioned
from tests.pairs.plan import Maker, Statement, Value, tidy
from tests.pairs.statements import kind, product_of


def add(
    m: Maker, name: str, spec: list[str], torch: list[str], defines: list[Value], reads: list[Value],
    facts: tuple[str, ...] = (),
) -> None:  # fmt: skip
    words = set(re.findall(r"\w+", " ".join(spec)))
    m.add(Statement(name, spec, torch, defines, reads=frozenset(v.name for v in reads) & words, facts=facts))


def outside(rng, name: str, place: str, var: str, size: str) -> tuple[str, str]:
    """A position that may lie outside of its axis, as `wrap`, `clamp` or as it is, for both texts."""
    return {
        "wrap": (f"wrap({place})", f"({var}) % {size}"),
        "clamp": (f"clamp({place})", f"({var}).clamp(0, {size} - 1)"),
        "plain": (place, var),
    }[name]


@kind(1.5)
def stencil(m: Maker) -> None:
    """Neighbours in two axes, each of them wrapped, clamped or padded; a filter over both."""
    rng = m.rng
    p, o, c = m.size(), m.size(), number(m)
    x = m.value([p, o, c])
    y = m.define([p, o], sure=False)
    ways = [rng.choice(["wrap", "clamp"]), rng.choice(["wrap", "clamp"])]
    offsets = rng.sample(["+ 1", "- 1", "+ 2", "- 3", "+ 4"], 2)
    if rng.random() < 0.5:
        (a, ta), (b, tb) = (
            outside(rng, way, f"{i} {far}", f"{i} {far}", s)
            for way, i, far, s in zip(ways, "po", offsets, (p, o), strict=True)
        )
        spec = [f"{y.name}[p, o] = sum[c]({x.name}[{a}, {b}, c] * {x.name}[p, o, c]) + ({x.name}[p {offsets[1]}, "
                f"o {offsets[0]}, 0] else 0.5)"]  # fmt: skip
        torch = [f"p, o = at(-2, {p}), at(-1, {o})",
                 f"{y.name} = ({x.name}[{ta}, {tb}] * {x.name}).sum(-1) + padded({x.name}[:, :, 0], 0.5, "
                 f"p {offsets[1]}, o {offsets[0]})"]  # fmt: skip
        reads = [x]
    else:
        k = m.value(["3", "2", c])
        way = rng.choice(["plain", *ways])
        places = [outside(rng, way, f"{i} + {j} - 1", f"{i} + {j} - 1", s)
                  for i, j, s in (("p", "a", p), ("o", "b", o))]  # fmt: skip
        inner = f"{x.name}[{places[0][0]}, {places[1][0]}, c]"
        inner = f"({inner} else 0)" if way == "plain" else inner
        spec = [f"{y.name}[p: {p}, o: {o}] = {inner} * {k.name}[a, b, c]"]
        if way == "plain":
            read = f"padded({x.name}, 0, p + a - 1, o + b - 1, c)"
        else:
            read = f"{x.name}[{places[0][1]}, {places[1][1]}, c]"
        grid = f"p, o, a, b, c = at(-5, {p}), at(-4, {o}), at(-3, 3), at(-2, 2), at(-1, {c})"
        torch = [grid, f"{y.name} = done(({read} * {k.name}[a, b, c]).sum((-3, -2, -1)), {p}, {o})"]
        reads = [x, k]
    add(m, "stencil", spec, torch, [y], reads)


def number(m: Maker) -> str:
    return str(m.rng.choice([1, 2, 3, 4]))


@kind(1.5)
def groups(m: Maker) -> None:
    """Axes of three factors, split, joined, put in another order, reduced; patches; upsampling; pixel shuffle."""
    rng = m.rng
    a, b, c, n = number(m), number(m), m.size(), m.size()
    form = rng.choice(["split", "join", "reorder", "reduce", "patch", "upsample", "shuffle", "shift"])
    if form == "split":
        x = m.value([n, tidy(f"{a}*{b}*{c}")])
        y = m.define([b, n, c, a], sure=False)
        spec = [f"{y.name}[b, n, c, a] = sin({x.name}[n, (a b c)]) where a = {a}, b = {b}"]
        torch = [f"{y.name} = torch.sin({x.name}.reshape({n}, {a}, {b}, {c}).permute(2, 0, 3, 1))"]
    elif form == "join":
        x = m.value([a, n, b])
        y = m.define([product_of(product_of(b, a), n)], sure=False)
        spec = [f"{y.name}[(b a n)] = {x.name}[a, n, b] * {x.name}[a, n, 0]"]
        torch = [f"{y.name} = ({x.name} * {x.name}[:, :, :1]).permute(2, 0, 1).reshape(-1)"]
    elif form == "reorder":
        x = m.value([n, tidy(f"{a}*{b}*{c}")])
        y = m.define([n, tidy(f"{c}*{a}*{b}")], sure=False)
        spec = [f"{y.name}[n, (c a b)] = {x.name}[n, (a b c)] + a where a = {a}, b = {b}"]
        torch = [f"x_ = {x.name}.reshape({n}, {a}, {b}, {c}) + torch.arange({a})[:, None, None]",
                 f"{y.name} = x_.permute(0, 3, 1, 2).reshape({n}, -1)"]  # fmt: skip
    elif form == "reduce":
        x, w = m.value([tidy(f"{c}*{a}"), tidy(f"{n}*{b}")]), m.value([a])
        y = m.define([c, n], sure=False)
        name = rng.choice(["max", "mean", "sum"])
        torch = {"max": "amax((1, 3))", "mean": "mean((1, 3))", "sum": "sum((1, 3))"}[name]
        spec = [f"{y.name}[c, n] = {name}[a, b]({x.name}[(c a), (n b)] * {w.name}[a]) where b = {b}"]
        torch = [f"{y.name} = ({x.name}.reshape({c}, {a}, {n}, {b}) * {w.name}[:, None, None]).{torch}"]
        add(m, "groups.reduce", spec, torch, [y], [x, w])
        return
    elif form == "patch":
        x = m.value([n, tidy(f"{c}*{a}"), tidy(f"2*{b}")])
        y = m.define([n, product_of(c, "2"), product_of(a, b)], sure=False)
        spec = [f"{y.name}[n, (h w), (a b)] = {x.name}[n, (h a), (w b)] where a = {a}, b = {b}"]
        torch = [f"{y.name} = {x.name}.reshape({n}, {c}, {a}, 2, {b}).permute(0, 1, 3, 2, 4)"
                 f".reshape({n}, {c} * 2, {a} * {b})"]  # fmt: skip
    elif form == "upsample":
        x = m.value([n, c])
        y = m.define([n, tidy(f"{a}*{c}")], sure=False)
        spec = [f"{y.name}[n, p: {a}*{c}] = {x.name}[n, p // {a}] * cos(p % {a})"]
        torch = [f"p = torch.arange({a} * {c})", f"{y.name} = {x.name}[:, p // {a}] * torch.cos(p % {a})"]
    elif form == "shuffle":
        x = m.value([c, tidy(f"{a}*{n}")])
        y = m.define([tidy(f"{c}*{a}"), n], sure=False)
        spec = [f"{y.name}[(c a), n] = {x.name}[c, (a n)] where a = {a}"]
        torch = [f"{y.name} = {x.name}.reshape({c} * {a}, {n})"]
    else:
        x = m.value([n, c])
        y = m.define([n, c], sure=False)
        spec = [f"{y.name}[n, c] = {x.name}[n, (c + {c} // 2) % {c}] - {x.name}[n, {c} - 1 - c]"]
        torch = [f"c_ = torch.arange({c})", f"{y.name} = {x.name}[:, (c_ + {c} // 2) % {c}] - {x.name}.flip(1)"]
    add(m, f"groups.{form}", spec, torch, [y], [x])


@kind(1)
def ranges(m: Maker) -> None:
    """Ranges from `where`, from what stays inside, from the declared type; slices with steps; reads that go on."""
    rng = m.rng
    n, t = m.size(), m.size(2)
    x = m.value([n, t])
    form = rng.choice(["where", "inside", "guarded", "longer", "back", "both"])
    y = m.define([n, {"where": "2", "longer": tidy(f"{t} + 2"), "back": tidy(f"({t} + 1) // 2")}.get(form, t)],
                 sure=False)  # fmt: skip
    if form == "where":
        spec = [f"{y.name}[n, t] = {x.name}[n, {t} - 2 + t] * (t + 1) where t = 2"]
        torch = [f"{y.name} = {x.name}[:, {t} - 2:] * torch.arange(1, 3)"]
    elif form == "inside":
        y = m.define([n], sure=False)
        spec = [f"{y.name}[n] = mean[t](tanh({x.name}[n, t + 1]))"]
        torch = [f"{y.name} = torch.tanh({x.name}[:, 1:]).mean(1)"]
    elif form == "guarded":
        spec = [f"{y.name}[n, t] = {x.name}[n, t] - {x.name}[n, t-1] if t >= 1 and {x.name}[n, t] > {x.name}[n, t-1]"
                f" else {x.name}[n, {t}-1]"]  # fmt: skip
        torch = [f"b_ = torch.cat([{x.name}[:, :1], {x.name}[:, :-1]], 1)",
                 f"c_ = (torch.arange({t}) >= 1) & ({x.name} > b_)",
                 f"{y.name} = torch.where(c_, {x.name} - b_, {x.name}[:, -1:])"]  # fmt: skip
    elif form == "longer":
        spec = [f"{y.name}[n, t: {t} + 2] = ({x.name}[n, t - 1] else {x.name}[n, 0] / 2)"]
        torch = [f"h_ = {x.name}[:, :1] / 2", f"{y.name} = torch.cat([h_, {x.name}, h_], 1)"]
    elif form == "back":
        turned = m.name("turned")
        spec = [f"{turned} = {x.name}[:, ::-1]", f"{y.name} = {turned}[:, ::2]"]
        torch = [f"{y.name} = {x.name}.flip(1)[:, ::2]"]
    else:
        spec = [
            f"{y.name}[n, t: {t}] = 0.5 * {x.name}[n, clamp(t - 2)] if n > 0 or t % 2 == 1 else "
            f"{x.name}[n, wrap(t + 2)]"
        ]
        torch = [f"t_, n_ = torch.arange({t}), torch.arange({n})[:, None]",
                 f"{y.name} = torch.where((n_ > 0) | (t_ % 2 == 1), 0.5 * {x.name}[:, (t_ - 2).clamp(0)], "
                 f"{x.name}[:, (t_ + 2) % {t}])"]  # fmt: skip
    add(m, f"ranges.{form}", spec, torch, [y], [x])


@kind(1.5)
def places(m: Maker) -> None:
    """Gathers and scatters at two positions, in rows, at positions that are computed, onto values that are there."""
    rng = m.rng
    n, k, v = m.size(), m.size(), m.size()
    whole = rng.choice(["i32", "i64"])
    form = rng.choice(["pair", "row", "largest", "sorted", "into_pair", "into_row", "onto", "chain", "best", "mode"])
    y = None
    if form == "pair":
        x, i, j = m.value([n, k]), m.leaf([v], whole, bound=n), m.leaf([v], whole, bound=k)
        y = m.define([v], sure=False)
        spec = [f"{y.name}[v] = {x.name}[{i.name}[v], {j.name}[v]]^2"]
        torch, reads = [f"{y.name} = {x.name}[{i.name}.long(), {j.name}.long()] ** 2"], [x, i, j]
    elif form == "row":
        x, i = m.value([n, k]), m.leaf([n, v], whole, bound=k)
        y = m.define([n, v], sure=False)
        spec = [f"{y.name}[n, v] = {x.name}[n, {i.name}[n, v]] * (v + 1)"]
        torch = [f"{y.name} = torch.gather({x.name}, 1, {i.name}.long()) * torch.arange(1, {v} + 1)"]
        reads = [x, i]
    elif form == "largest":
        x, z = m.leaf([n, k], param=False), m.value([n, k])
        y, p = m.define([n], sure=False), m.name("top_place")
        spec = [f"{p}[n] = argmax[k]({x.name}[n, k])", f"{y.name}[n] = {z.name}[n, {p}[n]] * {x.name}[n, {p}[n]]"]
        torch = [f"p_ = {x.name}.argmax(1, keepdim=True)",
                 f"{y.name} = ({z.name}.gather(1, p_) * {x.name}.gather(1, p_))[:, 0]"]  # fmt: skip
        reads = [x, z]
    elif form == "sorted":
        x, z = m.leaf([n, k], param=False), m.value([k, n])
        y, p = m.define([n, k], sure=False), m.name("order")
        spec = [f"{p}[n, k] = argsort[k]({x.name}[n, k])", f"{y.name}[n, k] = {z.name}[{p}[n, k], n] * k"]
        torch = [f"p_ = torch.argsort({x.name}, dim=1, stable=True)",
                 f"{y.name} = torch.gather({z.name}.T, 1, p_) * torch.arange({k})"]  # fmt: skip
        reads = [x, z]
    elif form == "into_pair":
        x, i, j = m.value([v]), m.leaf([v], whole, bound=n), m.leaf([v], whole, bound=k)
        y = m.define([n, k], sure=False)
        spec = [f"{y.name}[{i.name}[v], {j.name}[v]] += sin({x.name}[v])"]
        torch = [f"{y.name} = torch.zeros({n}, {k}).index_put(({i.name}.long(), {j.name}.long()), "
                 f"torch.sin({x.name}), accumulate=True)"]  # fmt: skip
        reads = [x, i, j]
    elif form == "into_row":
        x, i = m.value([n, v]), m.leaf([n, v], whole, bound=k)
        y = m.define([n, k], sure=False)
        spec = [f"{y.name}[n, {i.name}[n, v]] += {x.name}[n, v] / {v}"]
        torch = [f"{y.name} = torch.zeros({n}, {k}).scatter_add(1, {i.name}.long(), {x.name} / {v})"]
        reads = [x, i]
    elif form == "onto":
        how = rng.choice(["max=", "min="])
        x, i, base = m.value([v, k], sure=True), m.leaf([v], whole, bound=n), m.value([n, k])
        y = m.define([n, k], sure=False)
        spec = [f"{y.name} = cos({base.name})", f"{y.name}[{i.name}[v], k] {how} {x.name}[v, k] * 1.5"]
        torch = [f"{y.name} = torch.cos({base.name}).scatter_reduce(0, {i.name}.long()[:, None].expand({v}, {k}), "
                 f"{x.name} * 1.5, '{'amax' if how == 'max=' else 'amin'}')"]  # fmt: skip
        reads = [x, i, base]
    elif form == "chain":
        x, i, j = m.value([n, k]), m.leaf([v], whole, bound=n), m.leaf([n], whole, bound="3")
        z = m.value(["3", k])
        y = m.define([v, k], sure=False)
        spec = [f"{y.name}[v, k] = {z.name}[{j.name}[{i.name}[v]], k] * {x.name}[{i.name}[v], k]"]
        torch = [f"{y.name} = {z.name}[{j.name}[{i.name}.long()].long()] * {x.name}[{i.name}.long()]"]
        reads = [x, i, j, z]
    elif form == "best":
        size = m.size(3)
        size = size if m.surely(size, 3) else "4"
        x, w = m.leaf([n, size, k], param=False), m.value([n, size, k])
        y, p, q = m.define([n, "2", k], sure=False), m.name("best"), m.name("where_best")
        spec = [f"{p}[n, j, k], {q}[n, j, k] = top_k[s -> j: 2]({x.name}[n, s, k])",
                f"{y.name}[n, j, k] = {p}[n, j, k] * {w.name}[n, {q}[n, j, k], k]"]  # fmt: skip
        torch = [f"v_, i_ = torch.topk({x.name}, 2, dim=1)", f"{y.name} = v_ * {w.name}.gather(1, i_)"]
        reads = [x, w]
    else:
        x, i = m.value([v]), m.leaf([v], whole, bound=n)
        y, c = m.define([n], sure=False), m.name("count")
        spec = [f"{y.name}[{i.name}[v]] += {x.name}[v]", f"{c}[{i.name}[v]] += 1.0",
                f"{y.name}[n] = {y.name}[n] / max({c}[n], 1)"]  # fmt: skip
        torch = [f"c_ = torch.zeros({n}).index_add(0, {i.name}.long(), torch.ones({v}))",
                 f"{y.name} = torch.zeros({n}).index_add(0, {i.name}.long(), {x.name}) / c_.clamp(min=1)"]  # fmt: skip
        reads = [x, i]
    if len({r.name for r in reads}) == len(reads):
        add(m, f"places.{form}", spec, torch, [y], reads)


@kind(1)
def complex_pairs(m: Maker) -> None:
    """Functions of complex.dsl against complex tensors of torch."""
    rng = m.rng
    n, k = m.size(), m.size()
    a, b, c, d = (m.value([n, k]) for _ in range(4))
    reads, shape = [a, b, c, d], [n, k]
    form, torch = rng.choice([
        ("complex_product({a}, {b}, {c}, {d})", "torch.complex({a}, {b}) * torch.complex({c}, {d})"),
        ("complex_quotient({a}, {b}, 2 + {c}^2, {d})", "torch.complex({a}, {b}) / torch.complex(2 + {c} ** 2, {d})"),
        ("complex_exp({a}, {b})", "torch.exp(torch.complex({a}, {b}))"),
        ("complex_log(2 + {a}^2, {b})", "torch.log(torch.complex(2 + {a} ** 2, {b}))"),
        ("complex_sqrt(1 + {a}^2, {b})", "torch.sqrt(torch.complex(1 + {a} ** 2, {b}))"),
        ("complex_power(1 + {a}^2, {b}, 3)", "torch.complex(1 + {a} ** 2, {b}) ** 3"),
        ("from_polar({a}, {b})", "torch.complex({a} * torch.cos({b}), {a} * torch.sin({b}))"),
        ("complex_matmul({a}, {b}, {c}, {d})", "torch.complex({a}, {b}) @ torch.complex({c}, {d})"),
    ])  # fmt: skip
    if "matmul" in form:
        last = m.size()
        reads, shape = [a, b, m.value([k, last]), m.value([k, last])], [n, last]
    names = dict(zip("abcd", (v.name for v in reads), strict=True))
    re_, im = m.define(shape, sure=False), m.define(shape, sure=False)
    spec = [f"{re_.name}, {im.name} = {form.format(**names)}"]
    lines = [f"w_ = {torch.format(**names)}", f"{re_.name}, {im.name} = w_.real, w_.imag"]
    defines = [re_, im]
    if rng.random() < 0.3:
        defines = [m.define(shape, sure=False)]
        spec.append(f"{defines[0].name} = modulus({re_.name}, 1 + {im.name}^2)")
        lines.append(f"{defines[0].name} = torch.sqrt({re_.name} ** 2 + (1 + {im.name} ** 2) ** 2)")
    add(m, "complex_pairs", spec, lines, defines, reads)


@kind(1)
def batches(m: Maker) -> None:
    """Linear algebra in batches, on axes that are not the last ones; transforms in two axes."""
    rng = m.rng
    n, k = m.size(), m.size()
    form = rng.choice(["solve", "cholesky", "eigh", "inv", "logdet", "matexp", "fft2", "least_squares"])
    if form == "fft2":
        x = m.value([n, k])
        re_, im = m.define([n, k], sure=False), m.define([n, k], sure=False)
        a, b = m.name("part_a"), m.name("part_b")
        spec = [f"{a}[f, k], {b}[f, k] = fft[n -> f]({x.name}[n, k])",
                f"{re_.name}[f, g], {im.name}[f, g] = fft[k -> g]({a}[f, k], {b}[f, k])"]  # fmt: skip
        torch = [f"f_ = torch.fft.fft2({x.name})", f"{re_.name}, {im.name} = f_.real, f_.imag"]
        add(m, "batches.fft2", spec, torch, [re_, im], [x])
        return
    base, name, spec, torch, b = well_conditioned(m, k)
    scale, reads = m.value([n]), [b]
    many = m.name("many")
    spec += [f"{many}[n, i, j] = {name}[i, j] * (1 + {scale.name}[n]^2)"]
    torch += [f"{many} = {name} * (1 + {scale.name} ** 2)[:, None, None]"]
    reads.append(scale)
    if form == "solve":
        o = m.size()
        v = m.value([n, k, o])
        reads.append(v)
        y = m.define([n, k, o], sure=False)
        spec.append(f"{y.name}[n, :, :] = solve({many}[n, :, :], {v.name}[n, :, :])")
        torch.append(f"{y.name} = torch.linalg.solve({many}, {v.name})")
    elif form == "eigh":
        y = m.define([n, k], sure=False)
        value, vector = m.name("lam"), m.name("vec")
        spec += [f"{value}[n, :], {vector}[n, :, :] = eigh({many}[n, :, :])",
                 f"{y.name}[n, i] = {vector}[n, i, l]^2 * sqrt({value}[n, l])"]  # fmt: skip
        torch += [f"{value}, {vector} = torch.linalg.eigh({many})",
                  f"{y.name} = torch.einsum('nil,nl->ni', {vector} ** 2, torch.sqrt({value}))"]  # fmt: skip
    elif form == "logdet":
        y = m.define([n], sure=False)
        spec.append(f"{y.name}[n] = logdet({many}[n, :, :]) * {scale.name}[n]")
        torch.append(f"{y.name} = torch.logdet({many}) * {scale.name}")
    elif form == "least_squares":
        y = m.define([k, n], sure=False)
        spec.append(f"{y.name}[:, n] = solve({many}[n, :, :], {name}[0, :])")
        torch.append(f"{y.name} = torch.linalg.solve({many}, {name}[0].expand({n}, {k})[:, :, None])[:, :, 0].T")
    else:
        y = m.define([n, k, k], sure=False)
        given = f"{many}[n, :, :] / 20" if form == "matexp" else f"{many}[n, :, :]"
        call = {"cholesky": f"torch.linalg.cholesky({many})", "inv": f"torch.linalg.inv({many})",
                "matexp": f"torch.matrix_exp({many} / 20)"}[form]  # fmt: skip
        spec.append(f"{y.name}[n, :, :] = {form}({given})")
        torch.append(f"{y.name} = {call}")
    add(m, f"batches.{form}", spec, torch, [base, y], reads)


@kind(1)
def storage(m: Maker) -> None:
    """Numbers of 16 bits between others, whole numbers of 64 bits, conditions with and, or, not."""
    rng = m.rng
    n, k = m.size(), m.size()
    x = m.leaf([n, k], param=False)
    form = rng.choice(["half", "half", "whole", "logic", "cast", "count"])
    if form == "half":
        kept, torch = rng.choice([("f16", "float16"), ("bf16", "bfloat16")])
        y, h = m.define([n, k], sure=False), m.name("kept")
        w = m.value([n, k])
        spec = [f"{h}[n, k] = stop_grad({kept}({x.name}[n, k]))", f"{y.name}[n, k] = float({h}[n, k]) * {w.name}[n, k]"]
        torch = [f"{y.name} = {x.name}.detach().float().to(torch.{torch}).to(torch.get_default_dtype()) * {w.name}"]
        add(m, "storage.half", spec, torch, [y], [x, w])
    elif form == "whole":
        i = m.leaf([n], "i64", stem="count")
        y = m.define([n, k], sure=False)
        spec = [f"{y.name}[n, k] = {x.name}[n, k] * ({i.name}[n] % 3) + {i.name}[n] // 2 - k / {k}"]
        torch = [f"{y.name} = {x.name} * ({i.name} % 3)[:, None] + ({i.name} // 2)[:, None] - torch.arange({k}) / {k}"]
        add(m, "storage.whole", spec, torch, [y], [x, i])
    elif form == "logic":
        keep = m.leaf([k], "bool", stem="keep")
        y = m.define([n], sure=False)
        spec = [f"{y.name}[n] = sum[k]({x.name}[n, k] if {keep.name}[k] and not {x.name}[n, k] > 0.5 or k == n else "
                f"{x.name}[n, k]^2)"]  # fmt: skip
        torch = [f"c_ = {keep.name} & ~({x.name} > 0.5) | (torch.arange({k}) == torch.arange({n})[:, None])",
                 f"{y.name} = torch.where(c_, {x.name}, {x.name} ** 2).sum(1)"]  # fmt: skip
        add(m, "storage.logic", spec, torch, [y], [x, keep])
    elif form == "cast":
        y = m.define([n], "bool")
        spec = [f"{y.name}[n] = any[k]({x.name}[n, k] > 0.8) or all[k]({x.name}[n, k] < 0)"]
        torch = [f"{y.name} = ({x.name} > 0.8).any(1) | ({x.name} < 0).all(1)"]
        add(m, "storage.cast", spec, torch, [y], [x])
    else:
        y = m.define([n], "i64")
        spec = [f"{y.name}[n] = sum[k](1 if {x.name}[n, k] > 0 else 0) * 2 + n"]
        torch = [f"{y.name} = ({x.name} > 0).sum(1) * 2 + torch.arange({n})"]
        add(m, "storage.count", spec, torch, [y], [x])
