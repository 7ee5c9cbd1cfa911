"""Kinds of statements that have blocks or definitions: scans, loops, layers, functions, states, modes, draws."""

from __future__ import annotations

from tests.pairs.plan import Maker, Statement, Value, fixed
from tests.pairs.statements import kind
from tests.pairs.switches import on

ACTS = {
    "tanh": "torch.tanh({})",
    "sigmoid": "torch.sigmoid({})",
    "gelu": "torch.nn.functional.gelu({})",
    "sin": "torch.sin({})",
    "relu": "torch.relu({})",
}


def number(m: Maker, least: int = 1) -> str:
    return str(max(least, m.rng.choice([1, 2, 3, 4])))


@kind(4)
def scan(m: Maker) -> None:
    """A recurrence over an axis: forwards or reversed, one carry or two, a start that is a number or data."""
    rng = m.rng
    n, t, k = m.size(), m.size(), number(m)
    x = m.value([n, t, k])
    u = m.leaf([k, k], param=True, stem=rng.choice(["U", "R"]))
    back = rng.random() < 0.35
    prev = "t+1" if back else "t-1"
    h, c = m.define([n, t, k], sure=False), m.define([n, t, k], sure=False)
    reads = {x.name, u.name}
    word = "scan t reversed:" if back else rng.choice(["scan t:", f"scan t in 0..{t}:"])
    order = f"reversed(range({t}))" if back else f"range({t})"
    starts = []
    before = {}
    two = rng.random() < 0.5
    for v in (h, c) if two else (h,):
        roll = rng.random()
        if roll < 0.35:
            starts.append(f"start {v.name} = 0")
            before[v.name] = f"torch.zeros({n}, {k})"
        elif roll < 0.5:
            starts.append(f"start {v.name} = 0.5")
            before[v.name] = f"torch.full(({n}, {k}), 0.5)"
        elif roll < 0.75:
            s = m.value([n, k])
            reads.add(s.name)
            starts.append(rng.choice([f"start {v.name} = {s.name}", f"start {v.name}[n, k] = {s.name}[n, k]"]))
            before[v.name] = s.name
        else:
            s = m.value([k])
            reads.add(s.name)
            starts.append(f"start {v.name}[n: {n}, k] = 2 * {s.name}[k]")
            before[v.name] = f"(2 * {s.name}).expand({n}, {k})"
    act = rng.choice(["tanh", "sin"])
    here = f"{x.name}[n, t, k]"
    if two:
        spec = [
            word,
            f"    fill[n, k] = {act}({here} + {h.name}[n, {prev}, j] * {u.name}[j, k])",
            f"    {c.name}[n, t, k] = 0.8 * {c.name}[n, {prev}, k] + sigmoid(fill[n, k]) * {h.name}[n, {prev}, k]",
            f"    {h.name}[n, t, k] = tanh({c.name}[n, t, k]) + fill[n, k] / 2",
            *starts,
        ]
        body = [
            f"    z_ = torch.{act}({x.name}[:, t] + h_ @ {u.name})",
            "    c_ = 0.8 * c_ + torch.sigmoid(z_) * h_",
            "    h_ = torch.tanh(c_) + z_ / 2",
            "    steps_h[t], steps_c[t] = h_, c_",
        ]
        ends = [f"{h.name}, {c.name} = torch.stack(steps_h, 1), torch.stack(steps_c, 1)"]
        defines = [h, c]
    else:
        form = rng.choice(["matrix", "weighted", "plain", "position"])
        body_spec, step = {
            "matrix": (
                f"{act}({here} + {h.name}[n, {prev}, j] * {u.name}[j, k])",
                f"torch.{act}({x.name}[:, t] + h_ @ {u.name})",
            ),
            "weighted": (
                f"0.5 * {h.name}[n, {prev}, k] + {here} * {u.name}[k, 0]",
                f"0.5 * h_ + {x.name}[:, t] * {u.name}[:, 0]",
            ),
            "plain": (
                f"{h.name}[n, {prev}, k] * sigmoid({here}) + {u.name}[0, k] / {t}",
                f"h_ * torch.sigmoid({x.name}[:, t]) + {u.name}[0] / {t}",
            ),
            "position": (
                f"sin({h.name}[n, {prev}, k] + (t + 1) * {here} / {t}) * sum[j]({u.name}[j, k]^2)",
                f"torch.sin(h_ + (t + 1) * {x.name}[:, t] / {t}) * ({u.name} ** 2).sum(0)",
            ),
        }[form]
        spec = [word, f"    {h.name}[n, t, k] = {body_spec}", starts[0]]
        body = [f"    h_ = {step}", "    steps_h[t] = h_"]
        ends = [f"{h.name} = torch.stack(steps_h, 1)"]
        defines = [h]
    torch = [
        f"h_, c_ = {before[h.name]}, {before.get(c.name)}",
        f"steps_h, steps_c = [None] * {t}, [None] * {t}",
        f"for t in {order}:",
        *body,
        *ends,
    ]
    if rng.random() < 0.3:
        last = m.define([n, k], sure=False)
        spec.append(f"{last.name} = {h.name}[:, {'0' if back else f'{t}-1'}, :]")
        torch.append(f"{last.name} = {h.name}[:, {'0' if back else '-1'}]")
        defines.append(last)
    m.add(Statement("scan", spec, torch, defines, reads=frozenset(reads)))


@kind(2)
def iteration(m: Maker) -> None:
    """A scan over a number of steps, of which the last one counts; or a for that carries a value."""
    rng = m.rng
    x = m.pick([1, 2])
    steps = rng.choice([1, 2, 3, 4])
    y = m.define(x.shape, sure=False)
    here = ", ".join("nk"[: len(x.shape)])
    form = rng.randrange(4 if on("start used again") else 3)
    if form == 0:
        z = m.name("walk")
        spec = [
            f"scan s in 0..{steps}:",
            f"    {z}[s, {here}] = cos({z}[s-1, {here}]) + {x.name}[{here}] / (s + 1)",
            f"start {z} = {x.name}",
            f"{y.name} = {z}[{steps - 1}, {', '.join(':' for _ in x.shape)}]",
        ]
        body = [f"    {y.name} = torch.cos({y.name}) + {x.name} / (s + 1)"]
        torch = [f"{y.name} = {x.name}", f"for s in range({steps}):", *body]
    elif form == 1:
        spec = [
            f"{y.name} = sin({x.name})",
            f"for l in 0..{steps}:",
            f"    {y.name} = tanh({y.name}) + l * {x.name} / {steps}",
        ]
        torch = [
            f"{y.name} = torch.sin({x.name})",
            f"for l in range({steps}):",
            f"    {y.name} = torch.tanh({y.name}) + l * {x.name} / {steps}",
        ]
    elif form == 2:
        spec = [
            f"{y.name} = {x.name}",
            f"for l in 0..{steps}:",
            "    if l % 2 == 0:",
            f"        {y.name} = sin({y.name}) + {1} / (l + 1)",
            f"    elif l < {steps - 1}:",
            f"        {y.name} += {x.name}",
            "    else:",
            f"        {y.name} = {y.name} * {y.name}",
        ]
        torch = [
            f"{y.name} = {x.name}",
            f"for l in range({steps}):",
            "    if l % 2 == 0:",
            f"        {y.name} = torch.sin({y.name}) + 1 / (l + 1)",
            f"    elif l < {steps - 1}:",
            f"        {y.name} = {y.name} + {x.name}",
            "    else:",
            f"        {y.name} = {y.name} * {y.name}",
        ]
    else:
        a = m.name("ahead")
        spec = [
            f"{a} = cos({x.name})",
            f"{y.name} = {a}",
            f"for l in 0..{steps}:",
            f"    {y.name} = sin({y.name} + {a})",
            f"{y.name}[{here}] = {y.name}[{here}] + cos({x.name}[{here}])",
        ]
        torch = [
            f"{a} = torch.cos({x.name})",
            f"{y.name} = {a}",
            f"for l in range({steps}):",
            f"    {y.name} = torch.sin({y.name} + {a})",
            f"{y.name} = {y.name} + torch.cos({x.name})",
        ]
    m.add(Statement("iteration", spec, torch, [y], reads=frozenset([x.name])))


def own_layer(m: Maker, k: str) -> tuple[str, str, list[tuple[str, tuple[str, ...]]], str]:
    """A layer of the file that keeps its shape [..., K]: name, definition, parameters, torch body of (x, p)."""
    rng = m.rng
    name = m.name(rng.choice(["block", "mixer", "part_layer", "unit"]))
    form = rng.randrange(4)
    if form == 1 and not on("two equal gradients"):
        form = 0
    if form == 0:
        spec = (
            f"layer {name}(x: [..., K]) -> y: [..., K]:\n    param W: [K, K]\n    param b: [K] ~ zeros\n"
            "    y[..., o] = tanh(x[..., i] * W[i, o] + b[o])"
        )
        return name, spec, [("W", (k, k)), ("b", (k,))], "torch.tanh({x} @ {p}W'] + {p}b'])"
    if form == 1:
        spec = (
            f"layer {name}(x: [..., K]) -> y: [..., K]:\n    param a, b: [K] ~ normal(0.5)\n"
            "    y[..., k] = sin(x[..., k] + a[k] + b[k])"
        )
        return name, spec, [("a", (k,)), ("b", (k,))], "torch.sin({x} + {p}a'] + {p}b'])"
    if form == 2:
        spec = (
            f"layer {name}(x: [..., K]) -> y: [..., K]:\n    param s: [] = 1\n    mu[...] = mean[k](x[..., k])\n"
            "    y[..., k] = s * (x[..., k] - mu[...]) + x |> dense(K, bias = false)"
        )
        spec = spec.replace(" + x |> dense(K, bias = false)", "\n    y = y + dense(x, K, bias = false)")
        return (
            name,
            spec,
            [("s", ()), ("dense.W", (k, k))],
            "{p}s'] * ({x} - {x}.mean(-1, keepdim=True)) + {x} @ {p}dense.W']",
        )
    spec = f"layer {name}(x: [..., K]) -> y: [..., K]:\n    y = x + (x |> dense(3) |> tanh |> dense(K)) / 2"
    params = [("dense.W", (k, "3")), ("dense.b", ("3",)), ("dense2.W", ("3", k)), ("dense2.b", (k,))]
    return (
        name,
        spec,
        params,
        "{x} + (torch.tanh({x} @ {p}dense.W'] + {p}dense.b']) @ {p}dense2.W'] + {p}dense2.b']) / 2",
    )


def called(body: str, x: str, path: str) -> str:
    return body.format(x=x, p=f"params['{path}.")


@kind(5)
def layers(m: Maker) -> None:
    """Layers called once, in a loop, shared by `use`, passed as arguments, mapped over named axes."""
    rng = m.rng
    k = number(m)
    rank = rng.choice([1, 2, 3])
    x = m.value([*[m.size() for _ in range(rank - 1)], k])
    name, definition, params, body = own_layer(m, k)
    y = m.define(x.shape, sure=False)
    form = rng.choice(
        ["once", "twice", "loop", "use", "argument", "used_argument", "repeated", "mapped", "checkpoint", "tied"]
    )
    if form == "used_argument" and not on("layer used as argument"):
        form = "use"
    definitions = [definition]
    if form == "once":
        spec, torch, paths = [f"{y.name} = {x.name} |> {name}"], [f"{y.name} = {called(body, x.name, name)}"], [name]
    elif form == "twice":
        spec = [f"{y.name} = {name}({name}({x.name}))"]
        torch = [f"{y.name} = {called(body, x.name, name)}", f"{y.name} = {called(body, y.name, name + '2')}"]
        paths = [name, name + "2"]
    elif form in ("loop", "checkpoint"):
        steps = rng.choice([1, 2, 3])
        inner = f"{y.name} = {name}({y.name})"
        spec = [f"{y.name} = cos({x.name})", f"for l in 0..{steps}:"]
        spec += ["    checkpoint:", f"        {inner}"] if form == "checkpoint" else [f"    {inner}"]
        torch = [
            f"{y.name} = torch.cos({x.name})",
            f"for l in range({steps}):",
            f"    {y.name} = " + called(body, y.name, "@").replace("'@.", f"f'{name}.{{l}}."),
        ]
        if rng.random() < 0.5 and on("start used again"):
            spec.append(f"{y.name} = {y.name} + cos({x.name})")
            torch.append(f"{y.name} = {y.name} + torch.cos({x.name})")
        paths = [f"{name}.{number}" for number in range(steps)]
    elif form == "use":
        f = m.name("shared")
        spec = [f"use {f} = {name}", f"{y.name} = {f}({x.name})", f"{y.name} = {y.name} + {f}(sin({y.name}))"]
        torch = [
            f"{y.name} = {called(body, x.name, f)}",
            f"s_ = torch.sin({y.name})",
            f"{y.name} = {y.name} + {called(body, 's_', f)}",
        ]
        paths = [f]
    elif form == "argument":
        outer = m.name("around")
        definitions.append(f"layer {outer}(x: [...], body: layer, act: fn) -> y: [...]:\n    y = act(x) + body(x)")
        act = rng.choice(list(ACTS))
        spec = [
            f"{y.name} = {outer}({x.name}, {name}, {act})",
            f"{y.name} = {outer}({y.name}, body = {name}, act = tanh)",
        ]
        torch = [
            f"{y.name} = {ACTS[act].format(x.name)} + {called(body, x.name, f'{outer}.{name}')}",
            f"{y.name} = torch.tanh({y.name}) + {called(body, y.name, f'{outer}2.{name}')}",
        ]
        paths = [f"{outer}.{name}", f"{outer}2.{name}"]
    elif form == "used_argument":
        f = m.name("shared")
        spec = [f"use {f} = {name}", f"{y.name} = residual({x.name}, {f})", f"{y.name} = residual({y.name}, {f})"]
        torch = [f"{y.name} = {x.name} + {called(body, x.name, f)}", f"{y.name} = {y.name} + {called(body, y.name, f)}"]
        paths = [f]
    elif form == "repeated":
        if any(s.kind == "layers.repeated" for s in m.plan.statements):
            return  # a second call has another path
        spec = [f"{y.name} = repeated({x.name}, {name}, 2)"]
        torch = [f"{y.name} = {x.name}"]
        paths = [f"repeated.{name}.0", f"repeated.{name}.1"]
        torch += [f"{y.name} = {called(body, y.name, path)}" for path in paths]
    elif form == "mapped" and rank == 3:
        f = m.name("each")
        spec = [f"use {f} = {name}", f"{y.name}[n, t, :] = {f}({x.name}[n, t, :])"]
        torch, paths = [f"{y.name} = {called(body, x.name, f)}"], [f]
    elif form == "tied":
        f = m.name("code")
        spec = [f"use {f} = dense({k})", f"{y.name} = {f}({x.name})"]
        first = f"{x.name} @ params['{f}.W'] + params['{f}.b']"
        i, o = "...", "..."
        spec.append(
            f"{y.name}[{i}, k] = tanh({y.name}[{o}, j]) * {f}.W[k, j]"
            if rank == 1
            else f"{y.name} = {y.name} + sum({f}.W^2)"
        )
        if rank == 1:
            spec[-1] = f"{y.name}[k] = tanh({y.name}[j]) * {f}.W[k, j]"
            torch = [f"{y.name} = torch.tanh({first}) @ params['{f}.W'].T"]
        else:
            torch = [f"{y.name} = {first} + (params['{f}.W'] ** 2).sum()"]
        params, paths, definitions = [("W", (k, k)), ("b", (k,))], [f], []
    else:
        spec, torch, paths = [f"{y.name} = {name}({x.name})"], [f"{y.name} = {called(body, x.name, name)}"], [name]
    # torch text has the paths as keys of params
    made = [Value(f"{path}.{p}", shape) for path in paths for p, shape in params]
    m.add(
        Statement(f"layers.{form}", spec, torch, [y], definitions=definitions, params=made, reads=frozenset([x.name]))
    )


@kind(3)
def functions(m: Maker) -> None:
    """Functions of the file: short, with a block, with several results, with a derivative by hand, with stop_grad."""
    rng = m.rng
    x = m.pick([1, 2])
    y = m.define(x.shape, sure=False)
    f = m.name("bent")
    form = rng.randrange(7)
    defines, reads = [y], {x.name}
    if form == 0:
        definition = f"fn {f}(x, slope = 0.2) = x if x > 0 else slope * x"
        spec = [f"{y.name} = {f}({x.name}, slope = 0.3)"]
        torch = [f"{y.name} = torch.where({x.name} > 0, {x.name}, 0.3 * {x.name})"]
    elif form == 1:
        definition = f"fn {f}(x) -> y:\n    y = round(x)\n    backward (dy) -> dx:\n        dx = 2 * dy"
        spec = [f"{y.name} = {f}(3 * {x.name}) * {x.name}"]
        torch = [f"{y.name} = (torch.round(3 * {x.name}).detach() + 6 * ({x.name} - {x.name}.detach())) * {x.name}"]
    elif form == 2:
        definition = (
            f"fn {f}(x, a) -> y:\n    s = tanh(a * x)\n    y = s\n    backward (dy) -> (dx, da):\n"
            "        dx = dy * a * (1 - s^2)\n        da = dy * x * (1 - s^2)"
        )
        a = m.value([])
        reads.add(a.name)
        here = ", ".join("nk"[: len(x.shape)])
        spec = [f"{y.name}[{here}] = {f}({x.name}[{here}], {a.name})"]
        torch = [f"{y.name} = torch.tanh({a.name} * {x.name})"]
    elif form == 3:
        other = m.value(x.shape)
        reads.add(other.name)
        z = m.define(x.shape, sure=False)
        definition = f"fn {f}(x: [...], y: [...]) -> (p: [...], q: [...]):\n    p = sin(x) * y\n    q = p + cos(y)"
        spec = [f"{y.name}, {z.name} = {f}({x.name}, {other.name})"]
        torch = [f"{y.name} = torch.sin({x.name}) * {other.name}", f"{z.name} = {y.name} + torch.cos({other.name})"]
        defines.append(z)
    elif form == 4:
        definition = ""
        spec = [f"{y.name} = {x.name} * stop_grad(sin({x.name}))"]
        torch = [f"{y.name} = {x.name} * torch.sin({x.name}).detach()"]
    elif form == 5:
        definition = f"fn {f}(x, g: fn) = g(x) + g(2 * x)"
        act = rng.choice(list(ACTS))
        spec = [f"{y.name} = {f}({x.name}, {act})"]
        torch = [f"{y.name} = {ACTS[act].format(x.name)} + {ACTS[act].format(f'2 * {x.name}')}"]
    else:
        definition = f"fn {f}(x, n: int) = x^n if x > 0 else 0"
        spec = [f"{y.name} = {x.name} |> {f}(2) |> tanh"]
        torch = [f"{y.name} = torch.tanh(torch.where({x.name} > 0, {x.name} ** 2, 0))"]
    m.add(
        Statement(
            "functions", spec, torch, defines, definitions=[definition] if definition else [], reads=frozenset(reads)
        )
    )


@kind(1.5)
def modes(m: Maker) -> None:
    """A layer with a state that training changes and inference uses."""
    rng = m.rng
    n, c = m.size(), number(m)
    x = m.value([n, c])
    f = m.name("centred")
    keep = rng.choice(["0.9", "0.5"])
    y = m.define([n, c], sure=False)
    definition = (
        f"layer {f}(x: [N, C], keep = 0.99) -> y: [N, C]:\n    state centre: [C] = 0\n    training:\n"
        "        mu[c] = mean[n](x[n, c])\n        centre <- keep * centre + (1 - keep) * mu\n    inference:\n"
        "        mu = centre\n    y[n, c] = x[n, c] - mu[c]"
    )
    state = Value(f"{f}.centre", (c,))
    torch = [
        "if training:",
        f"    mu_ = {x.name}.mean(0)",
        f"    next_states['{state.name}'] = {keep} * states['{state.name}'] + (1 - {keep}) * mu_.detach()",
        "else:",
        f"    mu_ = states['{state.name}']",
        f"{y.name} = {x.name} - mu_",
    ]
    m.add(
        Statement(
            "modes",
            [f"{y.name} = {f}({x.name}, {keep})"],
            torch,
            [y],
            definitions=[definition],
            states=[state],
            reads=frozenset([x.name]),
        )
    )


@kind(1.5)
def draws(m: Maker) -> None:
    """A draw that is an output too, so that torch can take it from there."""
    rng = m.rng
    x = m.pick([1, 2])
    here = ", ".join("nk"[: len(x.shape)])
    noise = m.define(x.shape, stem="noise")
    y = m.define(x.shape, sure=False)
    draw = rng.choice([f"bernoulli[{here}](0.7)", f"normal[{here}](0, 0.5)", f"uniform[{here}](-1, 1)"])
    if not x.shape:
        return
    bound = ", ".join(f"{i}: {s}" for i, s in zip("nk", x.shape, strict=False))
    spec = [f"{noise.name}[{bound}] = {draw}", f"{y.name}[{here}] = {x.name}[{here}] * {noise.name}[{here}] / 0.7"]
    torch = [f"{y.name} = {x.name} * {noise.name} / 0.7"]
    m.add(Statement("draws", spec, torch, [noise, y], reads=frozenset([x.name]), draws=(noise.name,)))


@kind(2)
def prefix(m: Maker) -> None:
    """A linear recurrence as an associative operation."""
    rng = m.rng
    n, t, k = m.size(), m.size(), m.size()
    a, b = m.value([n, t, k]), m.value([n, t, k])
    f = m.name("after")
    d, h = m.define([n, t, k], sure=False), m.define([n, t, k], sure=False)
    definition = f"fn {f}(a1, b1, a2, b2) -> (a, b):\n    a = a1 * a2\n    b = a2 * b1 + b2"
    spec = [f"{d.name}[n, t, :], {h.name}[n, t, :] = prefix[t]({f}, {a.name}[n, t, :], {b.name}[n, t, :])"]
    if rng.random() < 0.5:
        spec = [f"{d.name}[n, t, k], {h.name}[n, t, k] = prefix[t]({f}, {a.name}[n, t, k], {b.name}[n, t, k])"]
    torch = [
        f"{d.name} = torch.cumprod({a.name}, 1)",
        f"h_, steps_h = torch.zeros({n}, {k}), []",
        f"for t in range({t}):",
        f"    h_ = {a.name}[:, t] * h_ + {b.name}[:, t]",
        "    steps_h.append(h_)",
        f"{h.name} = torch.stack(steps_h, 1)",
    ]
    m.add(Statement("prefix", spec, torch, [d, h], definitions=[definition], reads=frozenset([a.name, b.name])))


@kind(1.5)
def library(m: Maker) -> None:
    """Layers of the library against those of torch."""
    rng = m.rng
    n, t, k = m.size(), m.size(), number(m, 2)
    form = rng.choice(["layer_norm", "dense", "conv1d", "rnn", "gru", "embedding", "attention"])
    y = None
    if form == "layer_norm":
        x = m.value([n, t, k])
        y = m.define(x.shape, sure=False)
        spec = f"{y.name} = layer_norm({x.name})"
        torch = [
            f"{y.name} = torch.nn.functional.layer_norm({x.name}, [{k}])",
            f"{y.name} = {y.name} * params['layer_norm.scale'] + params['layer_norm.shift']",
        ]
        params = [("layer_norm.scale", (k,)), ("layer_norm.shift", (k,))]
    elif form == "dense":
        x = m.value([n, k])
        o = number(m)
        y = m.define([n, o], sure=False)
        spec = f"{y.name} = {x.name} |> dense({o}) |> gelu"
        torch = [f"{y.name} = torch.nn.functional.gelu({x.name} @ params['dense.W'] + params['dense.b'])"]
        params = [("dense.W", (k, o)), ("dense.b", (o,))]
    elif form == "conv1d":
        t = m.size(3)
        if not m.surely(t, 3):
            t = "4"
        x, o, pad = m.value([n, t, k]), number(m), rng.choice([0, 1])
        size = t if pad else (str(int(t) - 2) if fixed(t) else f"{t} - 2")
        y = m.define([n, size, o], sure=False)
        spec = f"{y.name} = conv1d({x.name}, {o}, pad = {pad})"
        torch = [
            "k_ = params['conv1d.K'].permute(2, 1, 0)",
            f"{y.name} = torch.nn.functional.conv1d({x.name}.transpose(1, 2), k_, padding={pad})",
            f"{y.name} = {y.name}.transpose(1, 2) + params['conv1d.b']",
        ]
        params = [("conv1d.K", ("3", k, o)), ("conv1d.b", (o,))]
    elif form == "rnn":
        x, o = m.value([n, t, k]), number(m)
        y = m.define([n, t, o], sure=False)
        spec = f"{y.name} = rnn({x.name}, {o})"
        torch = [
            f"h_, steps_h = torch.zeros({n}, {o}), []",
            f"for t in range({t}):",
            f"    h_ = torch.tanh({x.name}[:, t] @ params['rnn.W'] + h_ @ params['rnn.U'] + params['rnn.b'])",
            "    steps_h.append(h_)",
            f"{y.name} = torch.stack(steps_h, 1)",
        ]
        params = [("rnn.W", (k, o)), ("rnn.U", (o, o)), ("rnn.b", (o,))]
    elif form == "gru":
        x, o = m.value([n, t, k]), number(m)
        y = m.define([n, t, o], sure=False)
        spec = f"{y.name} = gru({x.name}, {o})"
        p = "params['gru.{}']".format
        torch = [
            f"h_, steps_h = torch.zeros({n}, {o}), []",
            f"for t in range({t}):",
            f"    r_ = torch.sigmoid({x.name}[:, t] @ {p('Wr')} + h_ @ {p('Ur')} + {p('br')})",
            f"    z_ = torch.sigmoid({x.name}[:, t] @ {p('Wz')} + h_ @ {p('Uz')} + {p('bz')})",
            f"    c_ = torch.tanh({x.name}[:, t] @ {p('Wc')} + (r_ * h_) @ {p('Uc')} + {p('bc')})",
            "    h_ = (1 - z_) * h_ + z_ * c_",
            "    steps_h.append(h_)",
            f"{y.name} = torch.stack(steps_h, 1)",
        ]
        params = (
            [(f"gru.W{g}", (k, o)) for g in "rzc"]
            + [(f"gru.U{g}", (o, o)) for g in "rzc"]
            + [(f"gru.b{g}", (o,)) for g in "rzc"]
        )
    elif form == "embedding":
        x = m.leaf([n, t], "i32", bound="5", stem="token")
        y = m.define([n, t, k], sure=False)
        spec = f"{y.name} = embedding({x.name}, 5, {k})"
        torch = [f"{y.name} = params['embedding.W'][{x.name}.long()]"]
        params = [("embedding.W", ("5", k))]
    else:
        x = m.value([n, t, "4"])
        y = m.define(x.shape, sure=False)
        causal = rng.choice(["true", "false"])
        spec = f"{y.name} = attention({x.name}, heads = 2, causal = {causal})"
        p = "params['attention.{}']".format
        mask = f"a_ = a_.masked_fill(torch.arange({t})[None, :] > torch.arange({t})[:, None], -math.inf)"
        torch = [
            *(f"{c}_ = torch.einsum('nte,ehd->nhtd', {x.name}, {p('W' + c)})" for c in "qkv"),
            "a_ = torch.einsum('nhtd,nhsd->nhts', q_, k_) / math.sqrt(2)",
            *([mask] if causal == "true" else []),
            f"{y.name} = torch.einsum('nhts,nhsd,hde->nte', torch.softmax(a_, -1), v_, {p('Wo')})",
        ]
        params = [(f"attention.W{c}", ("4", "2", "2")) for c in "qkv"] + [("attention.Wo", ("2", "2", "4"))]
    # a second call has another path: only the first of each kind is made
    if any(s.kind == f"library.{form}" for s in m.plan.statements):
        return
    made = [Value(name, shape) for name, shape in params]
    m.add(Statement(f"library.{form}", [spec], torch, [y], params=made, reads=frozenset([x.name])))
