"""Names of a spec that C, its headers or the code around them mean something by."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases import QUICK
from compiled import compiler
from dslc.backends.c.runtime import FUNCTIONS
from dslc.backends.c.text import identifier, reserved

from dslc import compile as compiled

ROOT = Path(__file__).parents[3] / "backends" / "c"
SOURCES = [p.read_text(encoding="utf-8") for p in (*ROOT.glob("*.py"), *ROOT.glob("runtime/*.c"))]

NAMES = [
    "int",
    "double",
    "main",
    "y0",
    "f",
    "a",
    "N",
    "w",
    "begin",
    "end",
    "context",
    "gemm_f32",
    "parallel",
    "threads",
    "restrict",
    "errno",
    "NULL",
    "EOF",
    "stdin",
    "I",
    "M_PI",
    "linux",
    "unix",
    "NAN",
    "INFINITY",
    "workspace",
    "memcpy",
    "size_t",
    "int64_t",
    "register",
    "volatile",
    "_Bool",
    "complex",
    "free",
    "signed",
    "grads",
    "seed",
    "first",
    "stop",
    "frame",
    "layout",
    "INLINE",
    "UNROLL",
    "NSIG",
    "R_OK",
    "STA_INS",
    "si_value",
    "padded",
    "taken",
    "larger",
    "wrapped",
    "complex_product",
]
INPUTS = ", ".join(f"{name}: f32[N, 3]" for name in NAMES if name != "N")
SIZES = ", ".join(f"x{k}: f32[{name}]" for k, name in enumerate(NAMES))
#: what is given names -> a model, how many inputs it has
SPECS = {
    "inputs": f"model m({INPUTS}) -> y: [N, 3]:\n    param p: [3] ~ normal\n"
    f"    y[i, k] = p[k] * tanh({' + '.join(f'{name}[i, k]' for name in NAMES if name != 'N')})\n",
    "sizes": f"model m({SIZES}) -> y: [N, 3]:\n    param p: [3] ~ normal\n"
    f"    y[i: N, k] = p[k] * ({' + '.join(f'{name} * sum(x{k})' for k, name in enumerate(NAMES))})\n",
    "parameters": "model m(x: f32[N, 3]) -> y: [N, 3]:\n"
    + "".join(f"    param {name}: [3] ~ normal\n" for name in NAMES if name != "N")
    + f"    y[i, k] = tanh(x[i, k] * ({' + '.join(f'{name}[k]' for name in NAMES if name != 'N')}))\n",
    "values": "model m(x: f32[N, 3]) -> y: [N, 3]:\n    param p: [3] ~ normal\n    v[i, k] = x[i, k] * p[k]\n"
    + "".join(f"    {name}[i] = sum[k](v[i, k]^{n + 2})\n" for n, name in enumerate(NAMES) if name != "N")
    + f"    y[i, k] = tanh({' * '.join(f'{name}[i]' for name in NAMES if name != 'N')}) * x[i, k]\n",
}


@pytest.mark.parametrize("kind", SPECS)
def test_names_that_mean_something_in_c(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSLC_CFLAGS", QUICK)
    head = SPECS[kind].split(" -> ")[0].removeprefix("model m")
    given = ", ".join(x.split(":")[0] for x in head.strip("()").split("], "))
    train = f"\ntrain m{head}:\n    minimize sum(m({given})^2)\n    using sgd(lr = 0.1)\n"
    (tmp_path / "spec.dsl").write_text(SPECS[kind] + train, encoding="utf-8")
    numpy, c = (compiled(tmp_path / "spec.dsl", backend=backend, dtype="f64") for backend in ("numpy", "c"))
    params = numpy.init(0)
    shape = (2,) if kind == "sizes" else (2, 3)
    data = [np.full(shape, 0.1 * (k + 1)) for k in range(head.count(": f32"))]
    wanted, found = (module.loss_and_grad(params, *data) for module in (numpy, c))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
    for name, slope in wanted[1].items():
        np.testing.assert_allclose(found[1][name], slope, rtol=1e-9, err_msg=name)
    c.train_step(params, c.init_opt(params), *data)


def test_names_of_macros_are_taken() -> None:
    """A macro stands for another text wherever its name stands, even behind a dot."""
    headers = sorted({h for text in SOURCES for h in re.findall(r"#include <([\w/]+\.h)>", text)})
    asked = "#define _GNU_SOURCE\n" + "".join(f"#if __has_include(<{h}>)\n#include <{h}>\n#endif\n" for h in headers)
    command = [compiler(), "-dM", "-E", "-x", "c", "-"]
    told = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^#define ([A-Za-z]\w*)(?= |$)", told, re.MULTILINE)
    assert len(found) > 100
    own = {name for text in SOURCES for name in re.findall(r"^ *# *define +([A-Za-z]\w*)", text, re.MULTILINE)}
    assert "INLINE" in own
    assert not [name for name in {*found, *own} if not reserved(name)]


def test_no_value_is_called_as_a_function_of_the_runtime() -> None:
    assert not [name for name in FUNCTIONS if identifier(name) == name]


def test_values_beside_calls_of_the_runtime(tmp_path: Path) -> None:
    spec = """
model m(taken: f32[T]) -> y: [2*T]:
    padded[t: 2*T] = (taken[t] else 0)
    larger[f], wrapped[f] = fft[t -> f](padded[t])
    y[f] = larger[f]^2 + wrapped[f]^2
"""
    (tmp_path / "m.dsl").write_text(spec)
    x = np.array([1.0, -2, 0.5])
    found = compiled(tmp_path / "m.dsl", backend="c", dtype="f64").forward({}, x)
    np.testing.assert_allclose(found, np.abs(np.fft.fft(x, 6)) ** 2, rtol=1e-12)
