"""Kinds of statements with derivatives inside of the spec, linear algebra and Fourier transforms."""

from __future__ import annotations

from tests.pairs.plan import Maker, Statement, Value
from tests.pairs.statements import kind


@kind(4)
def derivative(m: Maker) -> None:
    """grad, jvp, vjp, jacobian or hessian of a small formula by an input, a parameter or a value on the way."""
    rng = m.rng
    k, o = m.size(), m.size()
    x, w = m.value([k], fresh=0.6), m.value([k, o])
    source = rng.choice(["leaf", "value"])
    s, y, e = m.name("inner"), m.name("curve"), m.name("energy")
    spec, torch = [], []
    if source == "value":
        spec.append(f"{s} = sin({x.name}) + {x.name}")
        torch.append(f"{s} = torch.sin({x.name}) + {x.name}")
    else:
        s = x.name
    spec += [f"{y}[o] = tanh({s}[k] * {w.name}[k, o])", f"{e} = sum[o]({y}[o]^2) + sum[k]({s}[k]^3) / {k}"]
    torch += [f"{y} = torch.tanh({s} @ {w.name})", f"{e} = ({y} ** 2).sum() + ({s} ** 3).sum() / {k}"]
    form = rng.choice(["grad", "jvp", "vjp", "jacobian", "hessian", "grad_grad", "by_w"])
    reads = {x.name, w.name}
    if form == "grad":
        r = m.define([k], sure=False)
        spec.append(f"{r.name} = grad({e}, {s})")
        torch.append(f"{r.name} = torch.autograd.grad({e}, {s}, create_graph=True)[0]")
    elif form == "by_w":
        r = m.define([k, o], sure=False)
        spec.append(f"{r.name} = grad({e}, {w.name})")
        torch.append(f"{r.name} = torch.autograd.grad({e}, {w.name}, create_graph=True)[0]")
    elif form == "jvp":
        v = m.value([k])
        reads.add(v.name)
        r = m.define([o], sure=False)
        spec.append(f"{r.name} = jvp({y}, {s}, {v.name})")
        torch.append(f"{r.name} = (1 - {y} ** 2) * ({v.name} @ {w.name})")
    elif form == "vjp":
        v = m.value([o])
        reads.add(v.name)
        r = m.define([k], sure=False)
        spec.append(f"{r.name} = vjp({y}, {s}, {v.name})")
        torch.append(f"{r.name} = torch.autograd.grad({y}, {s}, {v.name}, create_graph=True)[0]")
    elif form == "jacobian":
        r = m.define([o, k], sure=False)
        spec.append(f"{r.name} = jacobian({y}, {s})")
        torch.append(f"{r.name} = (1 - {y} ** 2)[:, None] * {w.name}.T")
    elif form == "hessian":
        r = m.define([k, k], sure=False)
        spec.append(f"{r.name} = hessian({e}, {s})")
        torch += [
            f"g_ = torch.autograd.grad({e}, {s}, create_graph=True)[0]",
            f"{r.name} = torch.stack([torch.autograd.grad(g_[i], {s}, create_graph=True)[0] for i in range({k})])",
        ]
    else:
        r = m.define([k], sure=False)
        g = m.name("slope")
        spec += [f"{g} = grad({e}, {s})", f"{e} = sum({g}^2)", f"{r.name} = grad({e}, {s})"]
        torch += [
            f"g_ = torch.autograd.grad({e}, {s}, create_graph=True)[0]",
            f"{r.name} = torch.autograd.grad((g_ ** 2).sum(), {s}, create_graph=True)[0]",
        ]
    if x.name == w.name:
        return
    m.add(Statement(f"derivative.{form}", spec, torch, [r], reads=frozenset(reads)))


def well_conditioned(m: Maker, k: str) -> tuple[Value, str, list[str], list[str], Value]:
    """A symmetric positive matrix made of a value: B B' + identity."""
    b = m.value([k, k])
    a = m.define([k, k], sure=False)
    spec = [f"{a.name}[i, j] = {b.name}[i, l] * {b.name}[j, l] / {k} + (i + 1.5 if i == j else 0)"]
    torch = [f"{a.name} = {b.name} @ {b.name}.T / {k} + torch.diag(torch.arange({k}) + 1.5)"]
    return a, a.name, spec, torch, b


@kind(3)
def algebra(m: Maker) -> None:
    rng = m.rng
    k = m.size()
    a, name, spec, torch, b = well_conditioned(m, k)
    reads = {b.name}
    form = rng.choice(["solve", "solve_matrix", "logdet", "cholesky", "eigh", "inv", "det", "matexp", "batch"])
    if form == "solve":
        v = m.value([k])
        reads.add(v.name)
        y = m.define([k], sure=False)
        spec.append(f"{y.name} = solve({name}, {v.name})")
        torch.append(f"{y.name} = torch.linalg.solve({name}, {v.name})")
    elif form == "solve_matrix":
        o = m.size()
        v = m.value([k, o])
        reads.add(v.name)
        y = m.define([k, o], sure=False)
        spec.append(f"{y.name} = solve({name}, {v.name})")
        torch.append(f"{y.name} = torch.linalg.solve({name}, {v.name})")
    elif form == "batch":
        n = m.size()
        v = m.value([n, k])
        reads.add(v.name)
        y = m.define([n, k], sure=False)
        many = m.name("many")
        spec += [
            f"{many}[n, i, j] = {name}[i, j] + ({v.name}[n, i]^2 if i == j else 0)",
            f"{y.name}[n, :] = solve({many}[n, :, :], {v.name}[n, :])",
        ]
        torch += [
            f"{many} = {name} + torch.diag_embed({v.name} ** 2)",
            f"{y.name} = torch.linalg.solve({many}, {v.name}[:, :, None])[:, :, 0]",
        ]
    elif form in ("logdet", "det"):
        y = m.define([], sure=False)
        spec.append(f"{y.name} = {form}({name}) / 3")
        torch.append(f"{y.name} = torch.{form}({name}) / 3")
    elif form in ("cholesky", "inv", "matexp"):
        y = m.define([k, k], sure=False)
        call = {
            "cholesky": "torch.linalg.cholesky({})",
            "inv": "torch.linalg.inv({})",
            "matexp": "torch.matrix_exp({})",
        }[form]
        given = f"{name} / 10" if form == "matexp" else name
        spec.append(f"{y.name} = {form}({given})")
        torch.append(f"{y.name} = " + call.format(given))
    else:
        y = m.define([k, k], sure=False)
        value, vector = m.name("lam"), m.name("vec")
        spec += [
            f"{value}, {vector} = eigh({name})",
            f"{y.name}[i, j] = {vector}[i, l] * sqrt({value}[l]) * {vector}[j, l]",
        ]
        torch += [
            f"{value}, {vector} = torch.linalg.eigh({name})",
            f"{y.name} = {vector} @ torch.diag(torch.sqrt({value})) @ {vector}.T",
        ]
    m.add(Statement(f"algebra.{form}", spec, torch, [a, y], reads=frozenset(reads)))


@kind(1.5)
def fourier(m: Maker) -> None:
    rng = m.rng
    n, t = m.size(), m.size()
    x = m.value([n, t])
    re, im, y = m.define([n, t], sure=False), m.define([n, t], sure=False), m.define([n, t], sure=False)
    spec = [f"{re.name}[n, f], {im.name}[n, f] = fft[t -> f]({x.name}[n, t])"]
    torch = [f"f_ = torch.fft.fft({x.name})", f"{re.name}, {im.name} = f_.real, f_.imag"]
    defines = [re, im]
    if rng.random() < 0.5:
        rest = m.name("rest")
        spec += [
            f"{y.name}[n, t], {rest}[n, t] = ifft[f -> t]({re.name}[n, f] / (f + 1), {im.name}[n, f] if f < 2 else 0)",
        ]
        torch += [
            f"f_ = torch.complex({re.name} / (torch.arange({t}) + 1), {im.name} * (torch.arange({t}) < 2))",
            f"{y.name} = torch.fft.ifft(f_).real",
        ]
        defines.append(y)
    m.add(Statement("fourier", spec, torch, defines, reads=frozenset([x.name])))
