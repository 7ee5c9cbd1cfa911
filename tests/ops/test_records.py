"""Every record of a scalar operation: complete, its texts right, its derivatives those of torch, on every backend."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch
import torch_operations
from completeness import LOGICAL, WHOLE, missing
from dslc.backends.c.runtime import closure, used
from dslc.backends.numpy import runtime
from dslc.backends.numpy.names import HELPERS
from marks import rows
from samples import load

from dslc.compiler import compile_text
from dslc.ir import nodes as ir
from dslc.meaning.interpret import Interpreter
from dslc.ops.record import ScalarOp
from dslc.ops.table import RECORDS, SCALAR_OPS

torch.set_num_threads(1)

NAMES = tuple(RECORDS)
#: torch's digamma and trigamma have some nine digits
TOLERANCE = {"lgamma": 1e-7, "digamma": 1e-7}


def oracle(record: ScalarOp) -> Callable[..., Any]:
    """The function that a record names, on arrays."""
    if record.name == "trigamma":  # torch wants its order as a number
        return lambda x: scipy.special.polygamma(1, x)
    found = torch_operations.oracle(record)
    return lambda *args: found(*(torch.tensor(a) for a in args)).numpy()


def arguments(record: ScalarOp, points: tuple[Any, ...], dtype: Any = np.float64) -> list[Any]:
    """Points as arrays of the kind that the operation takes."""
    if record.name in LOGICAL:
        return [np.asarray(p, bool) for p in points]
    if record.name in WHOLE:
        return [np.asarray(p, np.int64) for p in points]
    found = [np.asarray(p, dtype) for p in points]
    return [found[0].astype(bool), *found[1:]] if record.name == "select" else found


def columns(record: ScalarOp) -> tuple[list[list[float]], list[float]]:
    """The edges as one list for each argument, and the results."""
    return [list(x) for x in zip(*(p for p, _ in record.edges), strict=True)], [y for _, y in record.edges]


def interpreted(record: ScalarOp, args: list[Any]) -> Any:
    """The value by the reference interpreter."""
    count = len(args[0])
    kinds = {"b": "bool", "i": "i64", "f": "f64"}
    nodes = [ir.intern(ir.Input(f"x{k}", "input", kinds[a.dtype.kind], (count,))) for k, a in enumerate(args)]
    dtype = "bool" if record.gives == "bool" else "i64" if record.gives == "int" else "f64"
    reads = tuple(ir.whole(x) for x in nodes)
    body = ir.op(record.name, reads, dtype)
    return Interpreter({f"x{k}": a for k, a in enumerate(args)}, {}).tensor(ir.comp((count,), body, dtype=dtype))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module with two functions for each record: `numpy` by its NumPy text, `plain` by that for Python numbers."""
    lines = ["import functools, math, os, threading", "import numpy as np", "DTYPE = np.float64", "", *HELPERS.values()]
    for number, r in enumerate(RECORDS.values()):
        names = [f"x{k}" for k in range(len(r.samples))]
        lines.append('@np.errstate(all="ignore")')
        lines.append(f"def numpy_{number}({', '.join(names)}):\n    return {r.numpy.format(*names)}\n")
        lines.append(f"def plain_{number}({', '.join(names)}):\n    return {r.plain.format(*names)}\n")
    return load("\n".join(lines), tmp_path_factory.mktemp("texts"), "texts")


@rows("A02", "A28")
@pytest.mark.parametrize("name", NAMES)
def test_no_field_of_a_record_is_missing(name: str) -> None:
    assert missing(RECORDS[name]) == []


def test_every_kink_stands_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    table = page[page.index("## Derivatives at kinks") : page.index("## Bounds")]
    words = {"select": "a if c else b", "^": "x^y", "pow": "x^y", "sqrt": "sqrt(sum[k]", "sign": "`sign`"}
    for name, record in RECORDS.items():
        if record.kinks:
            assert words.get(name, f"{name}(" if name != "hypot" else "`hypot`") in table, name


@pytest.mark.parametrize("name", NAMES)
def test_samples_lie_in_the_domain_and_results_in_the_range(name: str) -> None:
    record = RECORDS[name]
    for (low, high), points in zip(record.domain, record.samples, strict=True):
        assert all(low <= x <= high for x in points)
    result = interpreted(record, arguments(record, record.samples)).astype(float)
    assert ((result >= record.range[0]) & (result <= record.range[1])).all()


@pytest.mark.parametrize("name", NAMES)
def test_values_equal_those_of_the_oracle(name: str, texts: Any) -> None:
    record = RECORDS[name]
    number = NAMES.index(name)
    args = arguments(record, record.samples)
    expected = oracle(record)(*args)
    np.testing.assert_allclose(interpreted(record, args), expected, rtol=1e-13)
    np.testing.assert_allclose(getattr(texts, f"numpy_{number}")(*args), expected, rtol=1e-13)
    plain = [getattr(texts, f"plain_{number}")(*(x.item() for x in xs)) for xs in zip(*args, strict=True)]
    np.testing.assert_allclose(plain, expected, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_values_in_float32_stay_in_float32_and_are_close(name: str, texts: Any) -> None:
    record = RECORDS[name]
    args = arguments(record, record.samples, np.float32)
    if args[-1].dtype != np.float32 or name == "cast":
        return
    found = getattr(texts, f"numpy_{NAMES.index(name)}")(*args)
    exact = [a.astype(np.float64) if a.dtype == np.float32 else a for a in args]
    assert found.dtype == (np.bool_ if record.gives == "bool" else np.float32)
    np.testing.assert_allclose(found, oracle(record)(*exact), rtol=2e-6)


@pytest.mark.parametrize("name", [n for n in NAMES if RECORDS[n].edges])
def test_edges_of_the_domain_are_as_stated(name: str, texts: Any) -> None:
    record = RECORDS[name]
    points, expected = columns(record)
    args = arguments(record, tuple(points))
    if name != "sign":  # torch.sign(nan) is 0
        np.testing.assert_allclose(oracle(record)(*args).astype(float), expected, rtol=1e-12)
    np.testing.assert_allclose(interpreted(record, args).astype(float), expected, rtol=1e-12)
    found = getattr(texts, f"numpy_{NAMES.index(name)}")
    np.testing.assert_allclose(found(*args).astype(float), expected, rtol=1e-12)
    if name not in ("cast", *LOGICAL, *WHOLE):
        small = arguments(record, tuple(points), np.float32)
        np.testing.assert_allclose(found(*small).astype(float), expected, rtol=1e-6)


# ---- compiled modules -------------------------------------------------------------------------------

#: functions of the language with a derivative, and without
SMOOTH = tuple(n for n, r in SCALAR_OPS.items() if not r.flat)
FLAT = tuple(n for n, r in SCALAR_OPS.items() if r.flat and r.gives == "same")


def formulas(name: str) -> tuple[list[str], list[str], list[str]]:
    """Inputs, outputs and equations for one function: f(x), and tanh(f(sin(u) + c)) with two derivatives."""
    count = len(SCALAR_OPS[name].samples)
    ks = range(count)
    inputs = [f"{v}{k}_{name}: f32[N]" for v in "xuc" for k in ks]
    outputs = [f"value_{name}", f"outer_{name}", *(f"{w}{k}_{name}" for w in ("first", "second") for k in ks)]
    lines = [f"value_{name}[n] = {name}({', '.join(f'x{k}_{name}[n]' for k in ks)})"]
    inner = ", ".join(f"sin(u{k}_{name}[n]) + c{k}_{name}[n]" for k in ks)
    lines.append(f"outer_{name}[n] = tanh({name}({inner}))")
    for k in ks:
        lines.append(f"first{k}_{name} = grad(sum(outer_{name}), u{k}_{name})")
        lines.append(f"second{k}_{name} = grad(sum(first{k}_{name}), u{k}_{name})")
    return inputs, outputs, lines


def compiled(names: tuple[str, ...], dtype: str, folder: Path) -> Any:
    """A module with the formulas of several functions."""
    inputs: list[str] = []
    outputs: list[str] = []
    lines: list[str] = []
    for name in names:
        for whole, part in zip((inputs, outputs, lines), formulas(name), strict=True):
            whole += part
    results = ",\n    ".join(f"{x}: [N]" for x in outputs)
    given = ",\n    ".join(inputs)
    text = f"model m(\n    {given}\n) -> (\n    {results}\n):\n" + "".join(f"    {x}\n" for x in lines)
    file = folder / "m.dsl"
    file.write_text(text, encoding="utf-8")
    return load(compile_text(file, dtype=dtype), folder, "m_compiled")


def expectation(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments for the model above, and what torch makes of them in float64."""
    record = SCALAR_OPS[name]
    rng = np.random.default_rng(3)
    values: dict[str, Any] = {}
    us, shifted = [], []
    for k, points in enumerate(record.samples):
        u = rng.uniform(-1, 1, len(points))
        values |= {f"x{k}_{name}": np.array(points), f"u{k}_{name}": u, f"c{k}_{name}": np.array(points) - np.sin(u)}
        us.append(torch.tensor(u, requires_grad=True))
        shifted.append(torch.sin(us[-1]) + torch.tensor(values[f"c{k}_{name}"]))
    function = torch_operations.oracle(record)
    outer = torch.tanh(function(*shifted))
    found = {f"value_{name}": oracle(record)(*arguments(record, record.samples)), f"outer_{name}": outer.detach()}
    firsts = torch.autograd.grad(outer.sum(), us, create_graph=True)
    for k, first in enumerate(firsts):
        found[f"first{k}_{name}"] = first.detach()
        found[f"second{k}_{name}"] = torch.autograd.grad(first.sum(), us[k], retain_graph=True)[0]
    return values, {key: np.asarray(x) for key, x in found.items()}


@pytest.mark.parametrize(("dtype", "tolerance"), [("f64", 1e-9), ("f32", 2e-4)])
@pytest.mark.parametrize("part", range(4))
def test_compiled_modules_agree_with_torch(part: int, dtype: str, tolerance: float, tmp_path: Path) -> None:
    names = tuple(n for n in SMOOTH if len(SCALAR_OPS[n].samples[0]) == 4)[part::4]
    assert names
    module = compiled(names, dtype, tmp_path)
    for name in names:
        values, expected = expectation(name)
        others = {f"{v}{k}_{n}": np.zeros(4) for n in names for v in "xuc" for k in range(SCALAR_OPS[n].arity)}
        found = module.forward({}, **{**others, **values})
        for key, theirs in expected.items():
            rtol = max(tolerance, TOLERANCE.get(name, 0))
            np.testing.assert_allclose(found[key], theirs, rtol=rtol, atol=rtol, err_msg=f"{key} {dtype}")


def test_flat_functions_compile(tmp_path: Path) -> None:
    lines = "".join(f"    y_{n}[i] = {n}(x[i])\n" for n in FLAT)
    outputs = ", ".join(f"y_{n}: [N]" for n in FLAT)
    file = tmp_path / "flat.dsl"
    file.write_text(f"model m(x: f32[N]) -> ({outputs}):\n{lines}", encoding="utf-8")
    module = load(compile_text(file), tmp_path, "flat_compiled")
    points = np.array([-2.5, -1.5, -0.4, 0.0, 0.5, 1.5, 2.5, 7.1])
    found = module.forward({}, points)
    for n in FLAT:
        np.testing.assert_array_equal(found[f"y_{n}"], getattr(np, n)(points.astype(np.float32)))


# ---- special functions of the NumPy runtime ---------------------------------------------------------

RNG = np.random.default_rng(0)
WIDE = np.concatenate([RNG.uniform(-6, 6, 400), RNG.uniform(-1e-5, 1e-5, 20), [1e-20, 0.9999999, 1.0000001]])
POSITIVE = np.concatenate([np.logspace(-20, 10, 100), RNG.uniform(0, 15, 300), 1 + RNG.uniform(-1e-4, 1e-4, 20)])


@pytest.mark.parametrize(("name", "points", "exact", "rtol"), [
    ("erf", WIDE, scipy.special.erf, 1e-13),
    ("erfc", np.concatenate([WIDE, RNG.uniform(6, 26, 100)]), scipy.special.erfc, 1e-13),
    ("erfcx", np.concatenate([WIDE, RNG.uniform(6, 100, 100), [1e6]]), scipy.special.erfcx, 1e-13),
    ("erfinv", np.concatenate([RNG.uniform(-1, 1, 300), 1 - np.logspace(-15, -1, 50)]), scipy.special.erfinv, 1e-13),
    ("lgamma", POSITIVE, scipy.special.gammaln, 1e-13),
    ("lgamma", 2 + RNG.uniform(-1e-4, 1e-4, 20), scipy.special.gammaln, 1e-11),
    ("digamma", POSITIVE, scipy.special.digamma, 1e-13),
    ("trigamma", POSITIVE, lambda x: scipy.special.polygamma(1, x), 1e-13),
    *(
        (("zeta", s), POSITIVE, lambda x, s=s: scipy.special.zeta(s, x), 1e-13) for s in (1.5, 3.0, 4.0, 9.0)
    ),
    ("lgamma", RNG.uniform(-9.9, -0.1, 50), scipy.special.gammaln, 1e-11),
    ("digamma", RNG.uniform(-9.9, -0.1, 50), scipy.special.digamma, 1e-11),
])  # fmt: skip
def test_special_functions_have_all_digits(name: Any, points: Any, exact: Any, rtol: float) -> None:
    name, *first = (name,) if isinstance(name, str) else name
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(getattr(runtime, name)(*first, points), exact(points), rtol=rtol, atol=1e-15)


def test_the_error_function_in_float32_is_within_3e_7() -> None:
    x = np.linspace(-9, 9, 100_001).astype(np.float32)
    with np.errstate(all="ignore"):
        assert np.abs(runtime.erf(x) - scipy.special.erf(x.astype(float))).max() <= 3e-7
        found, exact = runtime.erfc(x), scipy.special.erfc(x.astype(float))
    assert (np.abs(found - exact) / np.maximum(exact, 1)).max() <= 3e-7
    assert (np.abs(found - exact)[x < 9] / exact[x < 9]).max() <= 1e-6
    assert math.isclose(float(runtime.erf(np.float32(1e-6))), 1.1283792e-6, rel_tol=1e-6)


# ---- texts in C -------------------------------------------------------------------------------------

KIND_IN_C = {np.dtype(np.bool_): "_Bool", np.dtype(np.int64): "int64_t", np.dtype(np.float32): "float"}


def kinds_in_c(record: ScalarOp, dtype: Any) -> tuple[str, list[str], str]:
    """The suffix of functions, and the types of the arguments and of the result."""
    kinds = [KIND_IN_C.get(a.dtype, "double") for a in arguments(record, record.samples, dtype)]
    suffix = {"float": "_f32", "double": "_f64"}.get(kinds[-1], "_i64")
    return suffix, kinds, "_Bool" if record.gives == "bool" else kinds[-1]


@pytest.fixture(scope="module")
def c_functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A library with each record as functions `d<number>` on arrays of doubles and `f<number>` on those of floats."""
    if shutil.which("gcc") is None:
        pytest.skip("needs a C compiler")
    lines = []
    for number, (name, r) in enumerate(RECORDS.items()):
        names = [f"x{k}[i]" for k in range(len(r.samples))]
        for dtype, letter in ((np.float64, "d"), (np.float32, "f")):
            suffix, kinds, result = kinds_in_c(r, dtype)
            text = r.c.format(*names, f=suffix).replace("DTYPE", result if name == "cast" else "")
            given = "".join(f", const {kind} *restrict x{k}" for k, kind in enumerate(kinds))
            lines.append(f"void {letter}{number}(int64_t n{given}, {result} *restrict y) {{")
            lines.append(f"    #pragma omp simd\n    for (int64_t i = 0; i < n; i++) y[i] = {text};\n}}")
    code = "\n".join(lines) + "\n"
    head = "#include <math.h>\n#include <stdint.h>\n"
    folder = tmp_path_factory.mktemp("c")
    (folder / "records.c").write_text("\n\n".join([head, *closure(used(code)), code]), encoding="utf-8")
    command = ["gcc", "-O2", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Werror", "-shared"]
    files = ["-fPIC", "-o", str(folder / "records.so"), str(folder / "records.c"), "-lm"]
    subprocess.run([*command, *files], check=True)
    return ctypes.CDLL(str(folder / "records.so"))


@pytest.mark.parametrize("name", NAMES)
def test_texts_in_c_have_the_same_values(name: str, c_functions: Any) -> None:
    record = RECORDS[name]
    points, _ = columns(record) if record.edges else ([], [])
    both = tuple((*s, *e) for s, e in zip(record.samples, points or [[]] * len(record.samples), strict=True))
    for letter, dtype, rtol in (("d", np.float64, 1e-13), ("f", np.float32, 1e-6)):
        args = [np.ascontiguousarray(a) for a in arguments(record, both, dtype)]
        exact = [a.astype(np.float64) if a.dtype == np.float32 else a for a in args]
        *_, result = kinds_in_c(record, dtype)
        found = np.zeros(len(args[0]), np.bool_ if result == "_Bool" else args[-1].dtype)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*args, found)]
        c_functions[f"{letter}{NAMES.index(name)}"](ctypes.c_int64(len(found)), *pointers)
        np.testing.assert_allclose(found.astype(float), interpreted(record, exact).astype(float), rtol=rtol)
