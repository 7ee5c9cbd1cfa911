"""Kinds of statements that go along an axis: scans of every form, associative operations, loops of equal passes."""

from __future__ import annotations

import re

from tests.pairs.plan import Maker, Statement, Value
from tests.pairs.statements import kind


def number(m: Maker) -> str:
    return str(m.rng.choice([1, 2, 3, 4]))


def add(m: Maker, name: str, spec: list[str], torch: list[str], defines: list[Value], reads: list[Value]) -> None:
    words = set(re.findall(r"\w+", " ".join(spec)))
    m.add(Statement(name, spec, torch, defines, reads=frozenset(v.name for v in reads) & words))


@kind(1)
def else_scan(m: Maker) -> None:
    """What stands before the first step is said where the step is read."""
    rng = m.rng
    n, t = m.size(), m.size()
    x, s = m.value([n, t]), m.value([n])
    h = m.define([n, t], sure=False)
    spec, torch = rng.choice([
        ("0", "torch.zeros({n})"),
        ("0.5", "torch.full(({n},), 0.5)"),
        ("{s}[n]", "{s}"),
        ("{x}[n, 0]", "{x}[:, 0]"),
        ("2 * {s}[n] + {x}[n, {t}-1]", "2 * {s} + {x}[:, -1]"),
    ])  # fmt: skip
    back = rng.random() < 0.4
    names = {"n": n, "s": s.name, "x": x.name, "t": t}
    before, start = f"({h.name}[n, {'t+1' if back else 't-1'}] else {spec.format(**names)})", torch.format(**names)
    form = rng.choice([
        ("0.9 * {before} + {x}[n, t]", "0.9 * h_ + {x}[:, t]"),
        ("sin({before}) + {x}[n, t] * {before}", "torch.sin(h_) + {x}[:, t] * h_"),
        ("max({before}, {x}[n, t]) / 2", "torch.maximum(h_, {x}[:, t]) / 2"),
        ("tanh({before} * {s}[n]) + t * {x}[n, t]", "torch.tanh(h_ * {s}) + t * {x}[:, t]"),
    ])  # fmt: skip
    add(
        m, "else_scan",
        [f"scan t{' reversed' if back else ''}:", f"    {h.name}[n, t] = {form[0].format(before=before, **names)}"],
        [
            f"h_, steps_h = {start}, [None] * {t}",
            f"for t in {f'reversed(range({t}))' if back else f'range({t})'}:",
            f"    h_ = {form[1].format(**names)}",
            "    steps_h[t] = h_",
            f"{h.name} = torch.stack(steps_h, 1)",
        ],
        [h], [x, s],
    )  # fmt: skip


@kind(1)
def later_scan(m: Maker) -> None:
    """A scan that begins at 1 or 2, or whose condition leaves out the first step."""
    rng = m.rng
    first = rng.choice([0, 1, 1, 2])
    n, t = m.size(), m.size(max(1, first))
    x, s = m.value([n, t]), m.value([n])
    h = m.define([n, t], sure=False)
    step = f"sin({h.name}[n, t-1]) * {s.name}[n] + {x.name}[n, t]"
    if first:
        spec = [f"scan t in {first}..{t}:", f"    {h.name}[n, t] = {step}", f"start {h.name}[n] = {x.name}[n, 0]"]
    else:
        spec = ["scan t:", f"    {h.name}[n, t] = {x.name}[n, 0] if t == 0 else {step}"]
    torch = [
        f"steps_h = [{x.name}[:, 0]] * {t}",
        f"for t in range({max(first, 1)}, {t}):",
        f"    steps_h[t] = torch.sin(steps_h[t - 1]) * {s.name} + {x.name}[:, t]",
        f"{h.name} = torch.stack(steps_h, 1)",
    ]
    # a scan over 2..2 has no step
    facts = (f"{t} >= {first + 1}",) if first and not t.isdigit() else ()
    if first and t.isdigit() and int(t) <= first:
        return
    m.add(Statement("later_scan", spec, torch, [h], reads=frozenset([x.name, s.name]), facts=facts))
    if facts:
        m.plan.sizes[t] = [max(v, first + 1) for v in m.plan.sizes[t]]


@kind(1)
def lattice(m: Maker) -> None:
    """A step that reads its neighbours at the step before, outside of the axis too; sums, or the best of them."""
    rng = m.rng
    t, k = m.size(), m.size()
    x, w = m.value([t, k], sure=True), m.value([k])
    a = m.define([t, k], sure=False)
    offset, other = rng.choice(["- 1", "+ 1", "- 2"]), rng.choice(["0", "0.25", "-1"])
    near = f"({a.name}[t-1, k {offset}] else {other})"
    form, torch = rng.choice([
        ("{near} + {a}[t-1, k] * {w}[k] + {x}[t, k]", "near_ + a_ * {w} + {x}[t]"),
        ("tanh({near}) + cos({a}[t-1, k] + {x}[t, k])", "torch.tanh(near_) + torch.cos(a_ + {x}[t])"),
        ("{x}[t, k] + max({near}, {a}[t-1, k] + {w}[k])", "{x}[t] + torch.maximum(near_, a_ + {w})"),
        ("{x}[t, k] + log(exp({near}) + exp({a}[t-1, k]))", "{x}[t] + torch.logaddexp(near_, a_)"),
    ])  # fmt: skip
    names = {"near": near, "a": a.name, "w": w.name, "x": x.name}
    add(
        m, "lattice",
        ["scan t:", f"    {a.name}[t, k] = {form.format(**names)}", f"start {a.name}[k] = sin({w.name}[k])"],
        [
            f"a_, steps_a = torch.sin({w.name}), []",
            f"for t in range({t}):",
            f"    near_ = padded(a_, {other}, torch.arange({k}) {offset})",
            f"    a_ = {torch.format(**names)}",
            "    steps_a.append(a_)",
            f"{a.name} = torch.stack(steps_a)",
        ],
        [a], [x, w],
    )  # fmt: skip


@kind(1)
def grid_scan(m: Maker) -> None:
    """A recurrence over two indices: the row before, this row, and across."""
    rng = m.rng
    p, o = m.size(), m.size()
    x, w = m.value([p, o]), m.value([])
    d = m.define([p, o], sure=False)
    rule, torch = rng.choice([
        ("tanh(up + {w} * left) + across / 2 + {x}", "torch.tanh(up_ + {w} * left_) + across_ / 2 + {x}"),
        ("{x} + max(up, left) / 2 - 0.1 * across", "{x} + torch.maximum(up_, left_) / 2 - 0.1 * across_"),
        ("{x} * {w} + sin(up * left)", "{x} * {w} + torch.sin(up_ * left_) + 0 * across_"),
    ])  # fmt: skip
    needs_across = "across" in rule
    spec = ["scan p:", "    scan o:"]
    spec += [f"        up = {d.name}[p-1, o] if p > 0 else o + 1"]
    spec += [f"        left = {d.name}[p, o-1] if o > 0 else {w.name} / 2"]
    spec += [f"        across = {d.name}[p-1, o-1] if p > 0 and o > 0 else 0"] if needs_across else []
    spec += [f"        {d.name}[p, o] = {rule.format(w=w.name, x=f'{x.name}[p, o]')}"]
    add(
        m, "grid_scan", spec,
        [
            "cell_ = {}",
            f"for p in range({p}):",
            f"    for o in range({o}):",
            "        up_ = cell_[p - 1, o] if p > 0 else num(o + 1)",
            f"        left_ = cell_[p, o - 1] if o > 0 else {w.name} / 2",
            "        across_ = cell_[p - 1, o - 1] if p > 0 and o > 0 else num(0)",
            f"        cell_[p, o] = {torch.format(w=w.name, x=f'{x.name}[p, o]')}",
            f"{d.name} = torch.stack([torch.stack([cell_[p, o] for o in range({o})]) for p in range({p})])",
        ],
        [d], [x, w],
    )  # fmt: skip


@kind(1)
def matrix_scan(m: Maker) -> None:
    """A carried matrix: linear attention with a decay, or the delta rule; read by a query at each step."""
    rng = m.rng
    n, t, k, v = m.size(), m.size(), number(m), number(m)
    q, keys, values = m.value([n, t, k]), m.value([n, t, k]), m.value([n, t, v])
    s, y = m.name("memory"), m.define([n, t, v], sure=False)
    delta = rng.random() < 0.5
    old = f"{s}[n, t-1, i, j]"
    spec = ["scan t:"]
    if delta:
        spec += [
            f"    guess[n, j] = {s}[n, t-1, i, j] * {keys.name}[n, t, i]",
            f"    {s}[n, t, i, j] = {old} + 0.3 * {keys.name}[n, t, i] * ({values.name}[n, t, j] - guess[n, j])",
        ]
        step = f"s_ + 0.3 * key_[:, :, None] * ({values.name}[:, t] - torch.einsum('nij,ni->nj', s_, key_))[:, None]"
    else:
        spec += [f"    {s}[n, t, i, j] = sigmoid({q.name}[n, t, i]) * {old} + {keys.name}[n, t, i] * "
                 f"{values.name}[n, t, j]"]  # fmt: skip
        step = f"torch.sigmoid({q.name}[:, t])[:, :, None] * s_ + key_[:, :, None] * {values.name}[:, t, None]"
    if rng.random() < 0.5:
        spec += [f"    {y.name}[n, t, j] = {s}[n, t, i, j] * {q.name}[n, t, i]", f"start {s} = 0"]
    else:
        spec += [f"start {s} = 0", f"{y.name}[n, t, j] = {s}[n, t, i, j] * {q.name}[n, t, i]"]
    add(
        m, "matrix_scan", spec,
        [
            f"s_, steps_y = torch.zeros({n}, {k}, {v}), []",
            f"for t in range({t}):",
            f"    key_ = {keys.name}[:, t]",
            f"    s_ = {step}",
            f"    steps_y.append(torch.einsum('nij,ni->nj', s_, {q.name}[:, t]))",
            f"{y.name} = torch.stack(steps_y, 1)",
        ],
        [y], [q, keys, values],
    )  # fmt: skip


@kind(1)
def viterbi(m: Maker) -> None:
    """The best path: a maximum over what is carried, and the places where it was found, followed back."""
    rng = m.rng
    t, k = m.size(2), m.size()
    x, a = m.leaf([t, k], param=False), m.leaf([k, k])
    best = m.define([t, k], sure=False)
    spec = [
        "scan t:",
        f"    {best.name}[t, k] = {x.name}[t, k] + max[j]({best.name}[t-1, j] + {a.name}[j, k])",
        f"start {best.name} = 0",
    ]
    torch = [
        f"b_, steps_b, from_ = torch.zeros({k}), [], []",
        f"for t in range({t}):",
        f"    from_.append((b_[:, None] + {a.name}).argmax(0))",
        f"    b_ = {x.name}[t] + (b_[:, None] + {a.name}).amax(0)",
        "    steps_b.append(b_)",
        f"{best.name} = torch.stack(steps_b)",
    ]
    defines = [best]
    if rng.random() < 0.5:
        back, path = m.name("back"), m.define([t], "i64", stem="path")
        spec += [
            f"{back}[t, k] = argmax[j]({best.name}[t, j] + {a.name}[j, k])",
            "scan t reversed:",
            f"    {path.name}[t] = argmax[k]({best.name}[t, k]) if t == {t}-1 else {back}[clamp(t), {path.name}[t+1]]",
        ]
        torch += [
            f"path_ = [{best.name}[{t} - 1].argmax()]",
            f"for t in reversed(range({t} - 1)):",
            "    path_.insert(0, from_[t + 1][path_[0]])",
            f"{path.name} = torch.stack(path_)",
        ]
        defines.append(path)
    add(m, "viterbi", spec, torch, defines, [x, a])


@kind(1)
def soft_scan(m: Maker) -> None:
    """A step that takes a softmax, or a standard deviation, of what is carried; or rows that data choose."""
    rng = m.rng
    n, t, k = m.size(), m.size(), m.size(2)
    x = m.value([n, t, k])
    h, reads = m.define([n, t, k], sure=False), [x]
    before = f"{h.name}[n, t-1, k]"
    form = rng.randrange(4)
    if form == 0:
        spec, torch = f"softmax[k](2 * {before} + {x.name}[n, t, k])", f"torch.softmax(2 * h_ + {x.name}[:, t], -1)"
    elif form == 1:
        spec = f"{x.name}[n, t, k] + {before} / (1 + norm[k]({before}))"
        torch = f"{x.name}[:, t] + h_ / (1 + root((h_ ** 2).sum(-1, keepdim=True)))"
    elif form == 2:
        rows = m.leaf([t], rng.choice(["i32", "i64"]), bound="3", stem="token")
        table = m.value(["3", k])
        reads += [rows, table]
        spec = f"sin({before} + {table.name}[{rows.name}[t], k]) * {x.name}[n, t, k]"
        torch = f"torch.sin(h_ + {table.name}[{rows.name}[t].long()]) * {x.name}[:, t]"
    else:
        keep = m.leaf([n, t], "bool", stem="keep")
        reads.append(keep)
        spec = f"tanh({before} + {x.name}[n, t, k]) if {keep.name}[n, t] else {before}"
        torch = f"torch.where({keep.name}[:, t, None], torch.tanh(h_ + {x.name}[:, t]), h_)"
    add(
        m, "soft_scan",
        ["scan t:", f"    {h.name}[n, t, k] = {spec}", f"start {h.name} = 0.5"],
        [
            f"h_, steps_h = torch.full(({n}, {k}), 0.5), []",
            f"for t in range({t}):",
            f"    h_ = {torch}",
            "    steps_h.append(h_)",
            f"{h.name} = torch.stack(steps_h, 1)",
        ],
        [h], reads,
    )  # fmt: skip


@kind(1)
def following_scans(m: Maker) -> None:
    """A scan that reads another one, forwards or backwards, also as one scan of two carries of other shapes."""
    rng = m.rng
    n, t, k = m.size(), m.size(), number(m)
    x, w = m.value([n, t, k]), m.value([k])
    h, g = m.define([n, t, k], sure=False), m.define([n, t], sure=False)
    first = f"sin({h.name}[n, t-1, k]) + {x.name}[n, t, k]"
    if rng.random() < 0.4:
        spec = [
            "scan t:",
            f"    {h.name}[n, t, k] = {first} * {g.name}[n, t-1]",
            f"    {g.name}[n, t] = 0.5 * {g.name}[n, t-1] + {h.name}[n, t, k] * {w.name}[k]",
            f"start {h.name} = 0",
            f"start {g.name} = 1",
        ]
        torch = [
            f"h_, g_, steps_h, steps_g = torch.zeros({n}, {k}), torch.ones({n}), [], []",
            f"for t in range({t}):",
            f"    h_ = torch.sin(h_) + {x.name}[:, t] * g_[:, None]",
            f"    g_ = 0.5 * g_ + h_ @ {w.name}",
            "    steps_h.append(h_), steps_g.append(g_)",
            f"{h.name}, {g.name} = torch.stack(steps_h, 1), torch.stack(steps_g, 1)",
        ]
    else:
        back = rng.random() < 0.6
        spec = [
            "scan t:",
            f"    {h.name}[n, t, k] = {first}",
            f"start {h.name} = 0",
            f"scan t{' reversed' if back else ''}:",
            f"    {g.name}[n, t] = 0.7 * {g.name}[n, t{'+1' if back else '-1'}] + {h.name}[n, t, k] * {w.name}[k]",
            f"start {g.name}[n] = {h.name}[n, {t}-1, 0]",
        ]
        torch = [
            f"h_, steps_h, steps_g = torch.zeros({n}, {k}), [], [None] * {t}",
            f"for t in range({t}):",
            f"    h_ = torch.sin(h_) + {x.name}[:, t]",
            "    steps_h.append(h_)",
            f"{h.name} = torch.stack(steps_h, 1)",
            "g_ = h_[:, 0]",
            f"for t in {f'reversed(range({t}))' if back else f'range({t})'}:",
            f"    g_ = 0.7 * g_ + {h.name}[:, t] @ {w.name}",
            "    steps_g[t] = g_",
            f"{g.name} = torch.stack(steps_g, 1)",
        ]
    add(m, "following_scans", spec, torch, [h, g], [x, w])


@kind(1)
def associative(m: Maker) -> None:
    """prefix with a maximum, with the sums of an online softmax, with rotations."""
    rng = m.rng
    n, t = m.size(), m.size()
    x, w = m.value([n, t], sure=True), m.value([n, t])
    f, form = m.name("merge"), rng.choice(["largest", "online", "rotation", "shifted"])
    y = m.define([n, t], sure=False)
    reads = [x, w]
    if form == "largest":
        definition = f"fn {f}(a, b) = max(a, b)"
        spec = [f"{y.name}[n, t] = prefix[t]({f}, {x.name}[n, t])"]
        torch, reads = [f"{y.name} = running('cummax', {x.name}, -1, {t})"], [x]
    elif form == "online":
        definition = (
            f"fn {f}(m1, l1, o1, m2, l2, o2) -> (m, l, o):\n    m = max(m1, m2)\n"
            "    l = l1 * exp(m1 - m) + l2 * exp(m2 - m)\n    o = o1 * exp(m1 - m) + o2 * exp(m2 - m)"
        )
        top, low, out = m.name("top"), m.name("low"), m.name("out")
        spec = [
            f"{top}[n, t], {low}[n, t], {out}[n, t] = prefix[t]({f}, {x.name}[n, t], 1, {w.name}[n, t])",
            f"{y.name}[n, t] = {out}[n, t] / {low}[n, t]",
        ]
        torch = [f"{y.name} = torch.cumsum(torch.exp({x.name}) * {w.name}, 1) / torch.cumsum(torch.exp({x.name}), 1)"]
    elif form == "rotation":
        definition = f"fn {f}(a1, b1, a2, b2) -> (a, b):\n    a = a1 * a2 - b1 * b2\n    b = a1 * b2 + b1 * a2"
        im = m.name("im")
        spec = [
            f"{y.name}[n, t], {im}[n, t] = prefix[t]({f}, cos({x.name}[n, t]), sin({x.name}[n, t]))",
            f"{y.name}[n, t] = {y.name}[n, t] + {w.name}[n, t] * {im}[n, t]",
        ]
        torch = [
            f"angle_ = torch.cumsum({x.name}, 1)",
            f"{y.name} = torch.cos(angle_) + {w.name} * torch.sin(angle_)",
        ]
    else:
        definition = f"fn {f}(s1, k1, s2, k2) -> (s, k):\n    s = s1 + s2 + k1 * k2\n    k = k1 + k2"
        k = m.name("sums")
        spec = [
            f"{y.name}[n, t], {k}[n, t] = prefix[t]({f}, {w.name}[n, t], {x.name}[n, t])",
            f"{y.name}[n, t] = {y.name}[n, t] + sin({k}[n, t])",
        ]
        torch = [
            f"k_ = torch.cumsum({x.name}, 1)",
            f"{y.name} = torch.cumsum({w.name}, 1) + (k_ ** 2 - torch.cumsum({x.name} ** 2, 1)) / 2 + torch.sin(k_)",
        ]
    m.add(Statement(f"associative.{form}", spec, torch, [y], definitions=[definition],
                    reads=frozenset(v.name for v in reads)))  # fmt: skip


@kind(1.5)
def passes(m: Maker) -> None:
    """Loops: values that change places, a start that is a number, a derivative in each pass, a loop in a loop."""
    rng = m.rng
    n, k = m.size(), m.size()
    x, w = m.value([n, k]), m.value([n, k])
    y = m.define([n, k], sure=False)
    steps = rng.choice([2, 3, 5])
    form = rng.choice(["swap", "constant", "energy", "nested", "sinkhorn", "routing", "scatter"])
    reads = [x, w]
    a, b, c = m.name("old"), m.name("new"), m.name("next")
    loop, torch_loop = f"for l in 0..{steps}:", f"for l in range({steps}):"
    if form == "swap":
        spec = [f"{a} = {x.name}", f"{b} = {w.name}", loop, f"    {c} = sin({a}) + {b}", f"    {a} = {b}",
                f"    {b} = {c}", f"{y.name} = {a} + 2 * {b}"]  # fmt: skip
        torch = [f"a_, b_ = {x.name}, {w.name}", torch_loop, "    a_, b_ = b_, torch.sin(a_) + b_",
                 f"{y.name} = a_ + 2 * b_"]  # fmt: skip
    elif form == "constant":
        spec = [f"{a}[n: {n}, k: {k}] = 0", loop, f"    {a} = tanh({a} + {x.name}) + {w.name} / (l + 1)",
                f"{y.name} = {a}"]  # fmt: skip
        torch = [f"a_ = torch.zeros({n}, {k})", torch_loop,
                 f"    a_ = torch.tanh(a_ + {x.name}) + {w.name} / (l + 1)", f"{y.name} = a_"]  # fmt: skip
    elif form == "energy":
        e, g = m.name("energy"), m.name("slope")
        spec = [f"{a} = {x.name}", loop, f"    {e} = sum(log(1 + ({a} - {w.name})^2)) + sum(sin({a}))",
                f"    {g} = grad({e}, {a})", f"    {a} = {a} - 0.1 * {g}", f"{y.name} = {a}"]  # fmt: skip
        torch = [f"a_ = {x.name}", torch_loop,
                 f"    e_ = torch.log(1 + (a_ - {w.name}) ** 2).sum() + torch.sin(a_).sum()",
                 "    a_ = a_ - 0.1 * torch.autograd.grad(e_, a_, create_graph=True)[0]", f"{y.name} = a_"]  # fmt: skip
    elif form == "nested":
        spec = [f"{a} = {x.name}", loop, "    for p in 0..2:", f"        {a} = cos({a} * (p + 1)) + {w.name} / (l + 1)",
                f"    {a} += {x.name}", f"{y.name} = {a}"]  # fmt: skip
        torch = [f"a_ = {x.name}", torch_loop, "    for p in range(2):",
                 f"        a_ = torch.cos(a_ * (p + 1)) + {w.name} / (l + 1)", f"    a_ = a_ + {x.name}",
                 f"{y.name} = a_"]  # fmt: skip
    elif form == "sinkhorn":
        spec = [f"{a}[n: {n}] = 0", f"{b}[k: {k}] = 0", loop,
                f"    {a}[n] = -logsumexp[k]({x.name}[n, k] + {b}[k])",
                f"    {b}[k] = -logsumexp[n]({x.name}[n, k] + {a}[n])",
                f"{y.name}[n, k] = exp({x.name}[n, k] + {a}[n] + {b}[k]) * {w.name}[n, k]"]  # fmt: skip
        torch = [f"a_, b_ = torch.zeros({n}), torch.zeros({k})", torch_loop,
                 f"    a_ = -torch.logsumexp({x.name} + b_, 1)",
                 f"    b_ = -torch.logsumexp({x.name} + a_[:, None], 0)",
                 f"{y.name} = torch.exp({x.name} + a_[:, None] + b_) * {w.name}"]  # fmt: skip
    elif form == "routing":
        spec = [f"{a}[n: {n}, k: {k}] = 0", loop, f"    {b}[n, k] = softmax[k]({a}[n, k])",
                f"    {c}[k] = tanh({b}[n, k] * {x.name}[n, k])", f"    {a}[n, k] += {x.name}[n, k] * {c}[k]",
                f"{y.name}[n, k] = {a}[n, k] + {w.name}[n, k] * {c}[k]"]  # fmt: skip
        torch = [f"a_ = torch.zeros({n}, {k})", torch_loop,
                 f"    c_ = torch.tanh((torch.softmax(a_, -1) * {x.name}).sum(0))", f"    a_ = a_ + {x.name} * c_",
                 f"{y.name} = a_ + {w.name} * c_"]  # fmt: skip
    else:
        src, dst = m.leaf(["4"], "i32", bound=n, stem="src"), m.leaf(["4"], "i32", bound=n, stem="dst")
        reads += [src, dst]
        spec = [f"{a} = {x.name}", loop, f"    {b}[n: {n}, k: {k}] = 0",
                f"    {b}[{dst.name}[m], k] += sin({a}[{src.name}[m], k])", f"    {a} = {a} / 2 + {b}",
                f"{y.name} = {a} * {w.name}"]  # fmt: skip
        torch = [f"a_ = {x.name}", torch_loop,
                 f"    a_ = a_ / 2 + torch.zeros({n}, {k}).index_add(0, {dst.name}.long(), "
                 f"torch.sin(a_[{src.name}.long()]))", f"{y.name} = a_ * {w.name}"]  # fmt: skip
    add(m, f"passes.{form}", spec, torch, [y], reads)
