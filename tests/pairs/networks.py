"""Kinds of statements that hold parameters and states: layers of layers, one in a loop, dropout, batch norms."""

from __future__ import annotations

import re

from tests.pairs.blocks import called, own_layer
from tests.pairs.plan import Maker, Statement, Value
from tests.pairs.statements import kind


def number(m: Maker, least: int = 1) -> str:
    return str(max(least, m.rng.choice([1, 2, 3, 4])))


def add(
    m: Maker, name: str, spec: list[str], torch: list[str], defines: list[Value], reads: list[Value],
    params: list[Value] | None = None, states: list[Value] | None = None, definitions: list[str] | None = None,
    draws: tuple[str, ...] = (),
) -> None:  # fmt: skip
    words = set(re.findall(r"\w+", " ".join(spec)))
    m.add(Statement(name, spec, torch, defines, reads=frozenset(v.name for v in reads) & words, params=params or [],
                    states=states or [], definitions=definitions or [], draws=draws))  # fmt: skip


@kind(2)
def deep_layers(m: Maker) -> None:
    """Layers that are passed on, named in a loop, sized by it, with a hyper-parameter that chooses a block."""
    rng = m.rng
    k = number(m, 2)
    x = m.value([m.size(), k])
    y = m.define(x.shape, sure=False)
    name, definition, params, body = own_layer(m, k)
    definitions, reads = [definition], [x]
    form = rng.choice(["two levels", "used, two levels", "use in a loop", "widths", "choice", "member", "results",
                       "nested loops", "mixed"])  # fmt: skip
    outer, inner = m.name("wrap_all"), m.name("wrap_one")
    if form in ("two levels", "used, two levels"):
        definitions += [f"layer {inner}(x: [...], body: layer) -> y: [...]:\n    y = x + body(x)",
                        f"layer {outer}(x: [...], body: layer) -> y: [...]:\n    y = {inner}(x, body)\n"
                        f"    y = {inner}(sin(y), body = body)"]  # fmt: skip
        if form == "two levels":
            spec = [f"{y.name} = {outer}({x.name}, {name})"]
            paths = [f"{outer}.{inner}.{name}", f"{outer}.{inner}2.{name}"]
        else:
            f = m.name("shared")
            spec = [f"use {f} = {name}", f"{y.name} = {outer}({x.name}, {f})"]
            paths = [f, f]
        torch = [f"{y.name} = {x.name} + {called(body, x.name, paths[0])}", f"s_ = torch.sin({y.name})",
                 f"{y.name} = s_ + {called(body, 's_', paths[1])}"]  # fmt: skip
    elif form == "use in a loop":
        f = m.name("shared")
        spec = [f"{y.name} = {x.name}", "for l in 0..3:", f"    use {f} = {name}",
                f"    {y.name} = {f}({y.name}) + {f}(cos({y.name}))"]  # fmt: skip
        torch, paths = [f"{y.name} = {x.name}"], [f"{f}.{number}" for number in range(3)]
        for path in paths:
            torch += [f"c_ = torch.cos({y.name})",
                      f"{y.name} = {called(body, y.name, path)} + {called(body, 'c_', path)}"]  # fmt: skip
    elif form == "widths":
        definitions = []
        spec = [f"{inner} = {x.name}", "for l in 0..3:", f"    {inner} = tanh(dense({inner}, l + 2))",
                f"{y.name} = dense({inner}, {k})"]  # fmt: skip
        if any("dense" in line for s in m.plan.statements for line in s.spec):
            return  # another call has another path
        torch, made, width = [f"{y.name} = {x.name}"], [], k
        for turn in range(4):
            path, after = (f"dense.{turn}", str(turn + 2)) if turn < 3 else ("dense2", k)
            act = "torch.tanh({})" if turn < 3 else "{}"
            torch.append(f"{y.name} = " + act.format(f"{y.name} @ params['{path}.W'] + params['{path}.b']"))
            made += [Value(f"{path}.W", (width, after)), Value(f"{path}.b", (after,))]
            width = after
        add(m, "deep_layers.widths", spec, torch, [y], reads, made)
        return
    elif form == "choice":
        which = rng.choice(["smooth", "rough"])
        definitions.append(
            f'layer {outer}(x: [..., K], mode = "smooth", times = 2) -> y: [..., K]:\n    y = x\n'
            f'    for l in 0..times:\n        if mode == "smooth":\n            y = {name}(y)\n        else:\n'
            "            y = sin(y) + l"
        )
        times = rng.choice([1, 2, 3])
        spec = [f'{y.name} = {outer}({x.name}, "{which}", times = {times})']
        torch, paths = [f"{y.name} = {x.name}"], []
        for turn in range(times):
            if which == "smooth":
                paths.append(f"{outer}.{name}.{turn}")
                torch.append(f"{y.name} = {called(body, y.name, paths[-1])}")
            else:
                torch.append(f"{y.name} = torch.sin({y.name}) + {turn}")
    elif form == "member":
        # one layer of several, named alone
        stack, f = m.name("stack"), m.name("net")
        definitions.append(f"layer {stack}(x: [..., K]) -> y: [..., K]:\n    y = x\n    for l in 0..3:\n"
                           f"        y = {name}(y)")  # fmt: skip
        which, p = rng.randrange(3), next(p for p, shape in params if shape)
        spec = [f"use {f} = {stack}", f"{y.name} = {f}({x.name})",
                f"{y.name} = {y.name} * sum(cos({f}.{name}.{which}.{p}))"]  # fmt: skip
        torch, paths = [f"{y.name} = {x.name}"], [f"{f}.{name}.{turn}" for turn in range(3)]
        torch += [f"{y.name} = {called(body, y.name, path)}" for path in paths]
        torch.append(f"{y.name} = {y.name} * torch.cos(params['{f}.{name}.{which}.{p}']).sum()")
    elif form == "results":
        both, r = m.name("both"), m.name("pair")
        definitions.append(f"layer {both}(x: [..., K]) -> (before: [..., K], after: [..., K]):\n"
                           f"    before = {name}(x)\n    after = sin(before) * x")  # fmt: skip
        way = rng.randrange(3)
        if way == 0:
            spec, paths = [f"{r} = {both}({x.name})", f"{y.name} = {r}.before + 2 * {r}.after"], [both, both]
        elif way == 1:
            spec, paths = [f"{y.name} = {both}({x.name}).before + 2 * {both}({x.name}).after"], [both, f"{both}2"]
        else:
            f = m.name("shared")
            spec = [f"use {f} = {both}", f"{y.name} = {f}({x.name}).before + 2 * {f}({x.name}).after"]
            paths = [f, f]
        paths = [f"{path}.{name}" for path in paths]
        torch = [f"b_ = {called(body, x.name, paths[1])}",
                 f"{y.name} = {called(body, x.name, paths[0])} + 2 * torch.sin(b_) * {x.name}"]  # fmt: skip
    elif form == "nested loops":
        spec = [f"{y.name} = {x.name}", "for l in 0..2:", "    for p in 0..2:", f"        {y.name} = {name}({y.name})",
                f"    {y.name} = {y.name} * (l + 1)"]  # fmt: skip
        torch, paths = [f"{y.name} = {x.name}"], []
        for turn in range(2):
            for p in range(2):
                paths.append(f"{name}.{turn}.{p}")
                torch.append(f"{y.name} = {called(body, y.name, paths[-1])}")
            torch.append(f"{y.name} = {y.name} * {turn + 1}")
    else:
        mixer = m.name("mix_rows")
        definitions.append(
            f"layer {mixer}(x: [N, K], body: layer, act: fn, times = 1) -> y: [N, K]:\n"
            "    h = body(x)\n    for l in 0..times:\n        h = h + act(body(h))\n    y = h"
        )
        spec = [f"{y.name} = {mixer}({x.name}, body = {name}, act = sigmoid, times = 2)"]
        paths = [f"{mixer}.{name}", f"{mixer}.{name}2.0", f"{mixer}.{name}2.1"]
        torch = [f"{y.name} = {called(body, x.name, paths[0])}"]
        torch += [f"{y.name} = {y.name} + torch.sigmoid({called(body, y.name, path)})" for path in paths[1:]]
    made = [Value(f"{path}.{p}", shape) for path in dict.fromkeys(paths) for p, shape in params]
    add(m, f"deep_layers.{form.replace(', ', ' ').replace(' ', '_')}", spec, torch, [y], reads, made,
        definitions=definitions)  # fmt: skip


@kind(1)
def dropped(m: Maker) -> None:
    """Dropout: torch finds the mask in what the module gives, and must find the gradient through it."""
    rng = m.rng
    n, k = m.size(), m.size()
    x = m.value([n, k])
    kept, y = m.define([n, k], stem="kept"), m.define([n, k], sure=False)
    # what dropout lets pass of ones is its mask: a layer with a name draws once for each call
    form = rng.choice(["alone", "twice", "loop"])
    spec = [f"{kept.name} = dropout(1 + 0 * {x.name}^2, 0.4)", f"{y.name} = sin({x.name}) * {kept.name}"]
    torch = [
        "if not training:",
        f"    {kept.name} = torch.ones({n}, {k})",
        f"{y.name} = torch.sin({x.name}) * {kept.name}",
    ]
    if form == "twice":
        spec.append(f"{y.name} = {y.name} + {kept.name} * {x.name}")
        torch.append(f"{y.name} = {y.name} + {kept.name} * {x.name}")
    elif form == "loop":
        spec += ["for l in 0..3:", "    checkpoint:", f"        {y.name} = sin({y.name}) * {kept.name} + {x.name}"]
        torch += ["for l in range(3):", f"    {y.name} = torch.sin({y.name}) * {kept.name} + {x.name}"]
    add(m, f"dropped.{form}", spec, torch, [kept, y], [x], draws=(kept.name,))


@kind(1)
def states(m: Maker) -> None:
    """States that training changes: two of them, called twice, in a loop, batch norms."""
    rng = m.rng
    n, c = m.size(2), number(m)
    n = n if m.surely(n, 2) else "3"
    x = m.value([n, c])
    y = m.define([n, c], sure=False)
    form = rng.choice(["batch_norm", "twice", "loop", "counter"])
    f = m.name("tracked")
    definition = (
        f"layer {f}(x: [N, C]) -> y: [N, C]:\n    param g: [C] ~ ones\n    state mean: [C] = 0\n"
        "    state count: [] = 0\n    training:\n        mu[c] = mean[n](x[n, c])\n        count <- count + 1\n"
        "        mean <- mean + (mu - mean) / count\n    inference:\n        mu = mean\n"
        "    y[n, c] = g[c] * (x[n, c] - mu[c]) + count / 2"
    )
    step = (
        "if training:\n    mu_ = {x}.mean(0)\n    next_states['{p}.count'] = next_states['{p}.count'] + 1\n"
        "    d_ = (mu_.detach() - next_states['{p}.mean']) / next_states['{p}.count']\n"
        "    next_states['{p}.mean'] = next_states['{p}.mean'] + d_\nelse:\n    mu_ = states['{p}.mean']\n"
        "{y} = params['{p}.g'] * ({x} - mu_) + next_states['{p}.count'] / 2"
    )
    definitions = [definition]

    def made(path: str) -> tuple[list[Value], list[Value]]:
        return [Value(f"{path}.g", (c,))], [Value(f"{path}.mean", (c,)), Value(f"{path}.count", ())]

    if form == "batch_norm":
        if any(s.kind == "states.batch_norm" for s in m.plan.statements):
            return  # a second call has another path
        b = "batch_norm"
        definitions = []
        spec = [f"{y.name} = tanh(batch_norm({x.name}, momentum = 0.8))"]
        torch = ["if training:", f"    mu_, v_ = {x.name}.mean(0), {x.name}.var(0, unbiased=False)",
                 f"    next_states['{b}.running_mean'] = 0.8 * states['{b}.running_mean'] + 0.2 * mu_.detach()",
                 f"    next_states['{b}.running_var'] = 0.8 * states['{b}.running_var'] + 0.2 * v_.detach()",
                 "else:", f"    mu_, v_ = states['{b}.running_mean'], states['{b}.running_var']",
                 f"{y.name} = params['{b}.scale'] * ({x.name} - mu_) / torch.sqrt(v_ + 1e-5) + params['{b}.shift']",
                 f"{y.name} = torch.tanh({y.name})"]  # fmt: skip
        params = [Value(f"{b}.scale", (c,)), Value(f"{b}.shift", (c,))]
        kept = [Value(f"{b}.running_mean", (c,)), Value(f"{b}.running_var", (c,))]
    elif form == "twice":
        u = m.name("used")
        spec = [f"use {u} = {f}", f"{y.name} = {u}({x.name})", f"{y.name} = {u}(sin({y.name}))"]
        torch = [*step.format(x=x.name, y=y.name, p=u).split("\n"), f"s_ = torch.sin({y.name})"]
        # the second call goes on from the update of the first one
        torch += step.format(x="s_", y=y.name, p=u).replace("mu_ = states", "mu_ = next_states").split("\n")
        params, kept = made(u)
    elif form == "loop":
        spec = [f"{y.name} = {x.name}", "for l in 0..3:", f"    {y.name} = sin({f}({y.name}))"]
        torch, params, kept = [f"{y.name} = {x.name}"], [], []
        for turn in range(3):
            torch += [*step.format(x=y.name, y=y.name, p=f"{f}.{turn}").split("\n"), f"{y.name} = torch.sin({y.name})"]
            more = made(f"{f}.{turn}")
            params, kept = params + more[0], kept + more[1]
    else:
        spec = [f"{y.name} = {f}({x.name}) * {x.name}"]
        torch = [*step.format(x=x.name, y=y.name, p=f).split("\n"), f"{y.name} = {y.name} * {x.name}"]
        params, kept = made(f)
    add(m, f"states.{form}", spec, torch, [y], [x], params, kept, definitions)


@kind(1)
def mapped(m: Maker) -> None:
    """Functions mapped over indices: derivatives of each element, derivatives by hand, layers with an axis kept."""
    rng = m.rng
    n, k = m.size(), m.size()
    x, w = m.value([n, k]), m.value([k])
    f = m.name("curve")
    form = rng.choice(["hessian", "grad", "jvp", "hand", "scan"])
    definition = f"fn {f}(x: [K], w: [K]) -> "
    shape = [n, k]
    if form == "hessian":
        shape = [n, k, k]
        definition += "y: [K, K]:\n    e = sum(sin(x) * w) + sum(x)^3 / 3\n    y = hessian(e, x)"
        torch = [f"{{y}} = torch.diag_embed(-torch.sin({x.name}) * {w.name}) + "
                 f"2 * {x.name}.sum(1)[:, None, None] * torch.ones({k}, {k})"]  # fmt: skip
    elif form == "grad":
        definition += "y: [K]:\n    e = sum(tanh(x * w)^2)\n    y = grad(e, x)"
        torch = [f"t_ = torch.tanh({x.name} * {w.name})", f"{{y}} = 2 * t_ * (1 - t_ ** 2) * {w.name}"]
    elif form == "jvp":
        definition += "y: [K]:\n    s[k] = softmax[k](x[k])\n    y = jvp(s, x, w)"
        torch = [
            f"s_ = torch.softmax({x.name}, -1)",
            f"{{y}} = s_ * ({w.name} - (s_ * {w.name}).sum(-1, keepdim=True))",
        ]
    elif form == "hand":
        definition += ("y: [K]:\n    y = x * w\n    backward (dy) -> (dx, dw):\n        dx = 2 * dy * w\n"
                       "        dw = dy * x")  # fmt: skip
        torch = [f"{{y}} = {x.name} * {w.name} + ({x.name} - {x.name}.detach()) * {w.name}.detach()"]
    else:
        definition += "y: [K]:\n    scan k:\n        y[k] = 0.5 * (y[k-1] else w[0]) + sin(x[k] * w[k])"
        torch = [f"h_, steps_h = {w.name}[0].expand({n}), []", f"for k in range({k}):",
                 f"    h_ = 0.5 * h_ + torch.sin({x.name}[:, k] * {w.name}[k])", "    steps_h.append(h_)",
                 "{y} = torch.stack(steps_h, 1)"]  # fmt: skip
    y = m.define(shape, sure=False)
    left = ", ".join(["n", *(":" for _ in shape[1:])])
    spec = [f"{y.name}[{left}] = {f}({x.name}[n, :], {w.name})"]
    add(m, f"mapped.{form}", spec, [line.replace("{y}", y.name) for line in torch], [y], [x, w],
        definitions=[definition])  # fmt: skip


@kind(1)
def convolutions(m: Maker) -> None:
    """Layers of the library over two axes against those of torch: conv2d, pooling, norms, lstm."""
    rng = m.rng
    form = rng.choice(["conv2d", "max_pool2d", "avg_pool2d", "rms_norm", "group_norm", "lstm"])
    if any(s.kind == f"convolutions.{form}" for s in m.plan.statements):
        return  # a second call has another path
    n, c, o = m.size(), number(m), number(m)
    f = "torch.nn.functional"
    if form == "conv2d":
        x = m.value([n, "6", "5", c])
        stride, pad, dilation = rng.choice([1, 2]), rng.choice([0, 1, 2]), rng.choice([1, 1, 2])
        p, q = ((s + 2 * pad - dilation * 2 - 1) // stride + 1 for s in (6, 5))
        y = m.define([n, str(p), str(q), o], sure=False)
        spec = [f"{y.name} = conv2d({x.name}, {o}, stride = {stride}, pad = {pad}, dilation = {dilation})"]
        torch = ["k_ = params['conv2d.K'].permute(3, 2, 0, 1).contiguous()",
                 f"{y.name} = {f}.conv2d({x.name}.permute(0, 3, 1, 2), k_, params['conv2d.b'], {stride}, {pad}, "
                 f"{dilation}).permute(0, 2, 3, 1)"]  # fmt: skip
        params = [Value("conv2d.K", ("3", "3", c, o)), Value("conv2d.b", (o,))]
    elif form in ("max_pool2d", "avg_pool2d"):
        x = m.value([n, "4", "6", c])
        y = m.define([n, "2", "3", c], sure=False)
        spec = [f"{y.name} = {form}({x.name}, 2)"]
        torch, params = [f"{y.name} = {f}.{form}({x.name}.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)"], []
    elif form == "rms_norm":
        x = m.value([n, c])
        y = m.define([n, c], sure=False)
        spec, params = [f"{y.name} = rms_norm({x.name})"], [Value("rms_norm.scale", (c,))]
        torch = [f"{y.name} = {x.name} / torch.sqrt(({x.name} ** 2).mean(-1, keepdim=True) + 1e-6) * "
                 "params['rms_norm.scale']"]  # fmt: skip
    elif form == "group_norm":
        x = m.value([n, "3", "4"])
        y = m.define(x.shape, sure=False)
        spec = [f"{y.name} = group_norm({x.name}, 2)"]
        torch = [f"{y.name} = {f}.group_norm({x.name}.transpose(1, 2), 2, params['group_norm.scale'], "
                 "params['group_norm.shift']).transpose(1, 2)"]  # fmt: skip
        params = [Value("group_norm.scale", ("4",)), Value("group_norm.shift", ("4",))]
    else:
        t = m.size()
        x = m.value([n, t, c])
        y = m.define([n, t, o], sure=False)
        spec = [f"{y.name} = lstm({x.name}, {o})"]
        torch = [f"h_, c_, steps_h = torch.zeros({n}, {o}), torch.zeros({n}, {o}), []", f"for t in range({t}):",
                 f"    z_ = {{g: {x.name}[:, t] @ params[f'lstm.W{{g}}'] + h_ @ params[f'lstm.U{{g}}'] + "
                 "params[f'lstm.b{g}'] for g in 'fgoc'}",
                 "    c_ = torch.sigmoid(z_['f']) * c_ + torch.sigmoid(z_['g']) * torch.tanh(z_['c'])",
                 "    h_ = torch.sigmoid(z_['o']) * torch.tanh(c_)", "    steps_h.append(h_)",
                 f"{y.name} = torch.stack(steps_h, 1)"]  # fmt: skip
        shapes = {"W": (c, o), "U": (o, o), "b": (o,)}
        params = [Value(f"lstm.{a}{g}", shape) for g in "fgoc" for a, shape in shapes.items()]
    add(m, f"convolutions.{form}", spec, torch, [y], [x], params)
