"""The work of a compilation is bounded: chains are linear, and what grows past a limit is refused with its number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from programs import unit

import dslc
from dslc import compiler
from dslc.compiler import compile_text
from dslc.diagnostics.report import Diagnostic
from dslc.diagnostics.spec_error import SpecError
from dslc.ir import interning
from dslc.ir import nodes as ir
from dslc.ir.namespace import LONGEST, name_lines


def chain(length: int) -> str:
    """c = a + b; a = b; b = c, and the gradient of what comes out."""
    steps = "    c = a + b\n    a = b\n    b = c\n" * length
    return (
        f"model m(x: f64[N]) -> y: [N]:\n    a = x\n    b = sin(x)\n{steps}    e = sum[n](b[n])\n    y = grad(e, x)\n"
    )


@pytest.mark.point("I")
def test_the_gradient_of_a_long_chain_is_a_short_formula(tmp_path: Path) -> None:
    spec = tmp_path / "chain.dsl"
    lines = {}
    for length in (10, 40):
        spec.write_text(chain(length), encoding="utf-8")
        lines[length] = len(compile_text(spec).splitlines())
    assert lines[10] == lines[40]
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    a, b = x, torch.sin(x)
    for _ in range(40):
        a, b = b, a + b
    b.sum().backward()
    np.testing.assert_allclose(dslc.compile(spec).forward({}, x.detach().numpy()), x.grad, rtol=1e-12)


def test_names_of_a_long_chain_do_not_grow_with_it() -> None:
    steps = "    a = log(exp(a) + exp(b))\n" * 60
    program = unit(f"fn f(x: f64[K], b: f64[K]) -> r: [K]:\n    a = x\n{steps}    r = a\n")
    roots = tuple(program.outputs.values())
    name_lines(roots)
    names = [getattr(node, "name", "") for node in ir.schedule(roots)]
    assert names.count("a") > 1 and max(map(len, names)) <= LONGEST


@pytest.mark.point("I")
@pytest.mark.parametrize("backend", ["numpy", "triton"])
def test_derivatives_of_derivatives_end_at_a_limit_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(interning, "MOST_NODES", 2_000)
    spec = tmp_path / "energies.dsl"
    steps = "    g = grad(e, w)\n    e = sum[k](g[k]^2)\n" * 30
    head = "model m(x: f64[N]) -> y: []:\n    param w: [3] ~ normal\n    e = sum[n, k](sin(x[n] * w[k]))\n"
    spec.write_text(f"{head}{steps}    y = e\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"E0902.*expected a program of at most 2,000 operations"):
        compile_text(spec, backend)


@pytest.mark.point("26")
@pytest.mark.parametrize(("scale", "warnings"), [("0.5", []), ("l", ["W0804"])])
def test_a_loop_that_makes_a_long_module_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: str, warnings: list[str]
) -> None:
    monkeypatch.setattr(compiler, "LONG_MODULE", 10)
    spec = tmp_path / "loop.dsl"
    spec.write_text(
        f"model m(x: f64[N]) -> y: [N]:\n    y = x\n    for l in 0..7:\n        y = sin(y * {scale})\n",
        encoding="utf-8",
    )
    found: list[Diagnostic] = []
    compile_text(spec, warn=found.append)
    assert [x.code for x in found] == warnings
    assert all("the 7 passes of this `for` are written one by one" in x.message for x in found)
