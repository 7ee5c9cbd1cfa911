"""Scalar functions in C: errors in units in the last place against mpmath, and what they give at the edges."""

from __future__ import annotations

import ctypes
import math
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as special
from dslc.backends.c.runtime import closure

from dslc.ir.philox import uniform

Points = np.ndarray[Any, Any]
KINDS = {"f32": np.float32, "f64": np.float64}
FLAGS = ["-O2", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
HEAD = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n"


def compiled(code: str, folder: Path, name: str, flags: list[str] = FLAGS) -> ctypes.CDLL:
    """A library of C code that uses definitions of the runtime."""
    if shutil.which("gcc") is None:
        pytest.skip("needs a C compiler")
    (folder / f"{name}.c").write_text(HEAD + code, encoding="utf-8")
    library = str(folder / f"{name}.so")
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags, "-o", library]
    subprocess.run([*command, str(folder / f"{name}.c"), "-lm"], check=True)
    return ctypes.CDLL(library)


# ---- what functions are, and where ------------------------------------------------------------------

mp = mpmath.mp.clone()
mp.dps = 40


def _lgamma(x: Any) -> Any:
    return mp.log(abs(mp.gamma(x))) if x < 1e4 else mp.loggamma(x)


def _digamma(x: Any) -> Any:
    return mp.psi(0, x)


def _softplus(x: Any) -> Any:
    return x + mp.log1p(mp.exp(-x)) if x > 0 else mp.log1p(mp.exp(x))


def _erfcx(x: Any) -> Any:
    if x > 100:  # the first term that is left out is below 1e-37 of the sum
        return sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(12)) / (x * mp.sqrt(mp.pi))
    with mp.workdps(60):
        return mp.exp(x * x) * mp.erfc(x)


#: arguments are drawn from an interval evenly, or by their exponents where its ends have one sign and are far apart
Where = list[tuple[float, float]]
TINY = {"f32": 1e-45, "f64": 5e-324}
WIDE: dict[str, Where] = {"f32": [(-3e38, -1e-45), (1e-45, 3e38)], "f64": [(-1e308, -5e-324), (5e-324, 1e308)]}

#: name: meaning, intervals for float and for double, units in the last place for each (what is absolute: see below)
FUNCTION: dict[str, tuple[Callable[..., Any], Where, Where, float, float]] = {
    "exp": (mp.exp, [(-104, 89)], [(-746, 710)], 1.1, 1),
    "exp2": (lambda x: mp.power(2, x), [(-150, 128.5)], [(-1075, 1025)], 1.2, 1.2),
    "expm1": (mp.expm1, [(-20, 89), (-1, 1)], [(-40, 710), (-1, 1)], 1.5, 1),
    "log": (mp.log, [(0.5, 2)], [(0.5, 2)], 1, 1),
    "log2": (lambda x: mp.log(x, 2), [(0.5, 2)], [(0.5, 2)], 2, 2),
    "log10": (mp.log10, [(0.5, 2)], [(0.5, 2)], 2, 2),
    "log1p": (mp.log1p, [(-0.9999, 3)], [(-0.9999, 3)], 1, 1),
    "sqrt": (mp.sqrt, [], [], 0.5, 0.5),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), [], [], 1.5, 1.5),
    "sin": (mp.sin, [(-10, 10), (-1e5, 1e5)], [(-10, 10), (-1e5, 1e5)], 1, 1),
    "cos": (mp.cos, [(-10, 10), (-1e5, 1e5)], [(-10, 10), (-1e5, 1e5)], 1, 1),
    "tan": (mp.tan, [(-10, 10), (-1e5, 1e5)], [(-10, 10), (-1e5, 1e5)], 1, 1),
    "asin": (mp.asin, [(-1, 1)], [(-1, 1)], 2.5, 1),
    "acos": (mp.acos, [(-1, 1)], [(-1, 1)], 1.5, 1),
    "atan": (mp.atan, [(-5, 5)], [(-5, 5)], 2.2, 1),
    "sinh": (mp.sinh, [(-89.5, 89.5), (-2, 2)], [(-711, 711), (-2, 2)], 2, 2),
    "cosh": (mp.cosh, [(-89.5, 89.5), (-2, 2)], [(-711, 711), (-2, 2)], 1.5, 1.5),
    "tanh": (mp.tanh, [(-10, 10), (-1, 1)], [(-20, 20), (-1, 1)], 1.5, 1.5),
    "asinh": (mp.asinh, [(-5, 5)], [(-5, 5)], 1, 2),
    "acosh": (mp.acosh, [(1, 2)], [(1, 2)], 1, 2),
    "atanh": (mp.atanh, [(-1, 1)], [(-1, 1)], 1, 2),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), [(-104, 20), (-3, 3)], [(-746, 40), (-3, 3)], 2, 2),
    "softplus": (_softplus, [(-104, 20), (-3, 3)], [(-746, 40), (-3, 3)], 2, 2),
    "erf": (mp.erf, [(-5, 5)], [(-7, 7)], 1.2, 1),
    "erfc": (mp.erfc, [(-5, 10.2), (-1, 1)], [(-7, 27.3), (-1, 1)], 4, 3),
    "normal_cdf": (lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, [(-14.3, 6), (-2, 2)], [(-38.6, 9), (-2, 2)], 4, 3),
    "erfcx": (_erfcx, [(-9.4, 10), (-1, 1)], [(-26.7, 100), (-1, 1)], 4, 2.5),
    "erfinv": (mp.erfinv, [(-1, 1), (0.999, 1)], [(-1, 1), (0.999, 1)], 1, 2.5),
    "lgamma": (_lgamma, [(-20.5, 20), (0.5, 3)], [(-20.5, 20), (0.5, 3)], 1, 4),
    "digamma": (_digamma, [(-20.5, 20), (0.5, 3)], [(-20.5, 20), (0.5, 3)], 1, 12),  # 12 where reflected, else 5
    "trigamma": (lambda x: mp.psi(1, x), [(-20.5, 20), (0.5, 3)], [(-20.5, 20), (0.5, 3)], 1, 5),
}
#: where a function crosses 0 between floats, errors are counted in units in the last place of 1 below 1
ABSOLUTE = {"lgamma", "digamma"}
#: arguments that are positive, or on both sides, over the whole range of exponents
ALL_POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "trigamma"}
ALL = {"sin", "cos", "tan", "atan", "asinh", "expm1", "tanh", "erf"}


def points(name: str, dtype: str, count: int) -> Points:
    """Arguments of one function: near the middle evenly, far out by exponents, and tiny ones."""
    _, single, double, *_ = FUNCTION[name]
    rng = np.random.default_rng(len(name))
    parts = [rng.uniform(low, high, count) for low, high in (single if dtype == "f32" else double)]
    if name in ALL_POSITIVE | ALL:
        low, high = np.log(TINY[dtype]), np.log(3e38 if dtype == "f32" else 1e308)
        parts.append(np.exp(rng.uniform(low, high, count)))
        if name in ALL:
            parts.append(-np.exp(rng.uniform(low, high, count // 4)))
    elif name not in ("acosh", "digamma"):
        tiny = np.exp(rng.uniform(np.log(TINY[dtype]), 0, count // 4))
        parts += [tiny, -tiny]
    elif name == "acosh":
        parts.append(np.exp(rng.uniform(0, 88 if dtype == "f32" else 709, count)))
    else:
        parts.append(np.exp(rng.uniform(-10, 80, count)))
    found = np.concatenate(parts).astype(KINDS[dtype])
    if name in ("lgamma", "digamma", "trigamma", "erfinv", "atanh"):  # infinite at some whole numbers: edges, below
        found = found[found != np.round(found)]
    return found


def in_units(found: Points, exact: list[Any], dtype: str, absolute: bool) -> Points:
    """Errors in units in the last place of the exact results; infinite ones where numbers that exist are not found."""
    kind = KINDS[dtype]
    info = np.finfo(kind)
    largest, least = mp.mpf(float(info.max)), -(info.nmant - info.minexp)
    errors = np.zeros(len(exact))
    for k, y in enumerate(exact):
        value = float(found[k])
        unit = mp.ldexp(1, max(least, (mp.frexp(y)[1] if y else least) - 1 - info.nmant))
        if absolute and abs(y) < 1:
            unit = mp.ldexp(1, -info.nmant - 1)
        if math.isnan(value):
            errors[k] = math.inf
        elif math.isinf(value):
            errors[k] = 0.0 if abs(y) > largest - unit and (y > 0) == (value > 0) else math.inf
        else:
            errors[k] = float(abs(mp.mpf(value) - y) / unit)
    return errors


def loops(names: list[str], arity: int = 1) -> str:
    """Functions `NAME_all` that apply functions to every element of arrays."""
    lines = closure(names)
    for name in names:
        kind = "float" if name.endswith("_f32") else "double"
        args = [f"const {kind} *restrict x{k}" for k in range(arity)]
        call = f"{name}({', '.join(f'x{k}[i]' for k in range(arity))})"
        lines.append(
            f"void {name}_all(ptrdiff_t n, {', '.join(args)}, {kind} *restrict y) {{\n    #pragma omp simd\n"
            f"    for (ptrdiff_t i = 0; i < n; i++) y[i] = {call};\n}}"
        )
    return "\n\n".join(lines) + "\n"


def applied(library: ctypes.CDLL, name: str, *args: Any) -> Points:
    """A function of the library on arrays."""
    kind = KINDS[name[-3:]]
    arrays = [np.ascontiguousarray(a, kind) for a in np.broadcast_arrays(*args)]
    out = np.empty_like(arrays[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
    getattr(library, f"{name}_all")(ctypes.c_ssize_t(out.size), *pointers)
    return out


ONE = [f"{name}_{dtype}" for name in FUNCTION for dtype in KINDS]
TWO = [f"{name}_{dtype}" for name in ("power", "atan2", "hypot", "zeta") for dtype in KINDS]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(loops(ONE), tmp_path_factory.mktemp("one"), "one")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(loops(TWO, 2), tmp_path_factory.mktemp("two"), "two")


def errors(name: str, dtype: str, library: ctypes.CDLL, count: int) -> tuple[Points, Points]:
    x = points(name, dtype, count)
    exact = [FUNCTION[name][0](mp.mpf(float(v))) for v in x]
    return x, in_units(applied(library, f"{name}_{dtype}", x), exact, dtype, name in ABSOLUTE)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", FUNCTION)
def test_functions_are_right_to_the_last_digits(name: str, dtype: str, one: ctypes.CDLL) -> None:
    x, wrong = errors(name, dtype, one, 300)
    worst = int(np.argmax(wrong))
    assert wrong[worst] <= FUNCTION[name][3 + (dtype == "f64")], (float(x[worst]), wrong[worst])


def test_functions_are_right_without_fused_products(tmp_path: Path) -> None:
    """As on a processor from before 2013: no multiplication with addition in one step, no instruction for rounding."""
    library = compiled(loops(ONE), tmp_path, "plain", [f for f in FLAGS if "march" not in f])
    for name in FUNCTION:
        for dtype in KINDS:
            x, wrong = errors(name, dtype, library, 60)
            worst = int(np.argmax(wrong))
            limit = FUNCTION[name][3 + (dtype == "f64")]
            assert wrong[worst] <= limit, (name, dtype, float(x[worst]), wrong[worst])


@pytest.mark.long
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", FUNCTION)
def test_functions_are_right_at_very_many_places(name: str, dtype: str, one: ctypes.CDLL) -> None:
    x, wrong = errors(name, dtype, one, 30_000)
    worst = int(np.argmax(wrong))
    assert wrong[worst] <= FUNCTION[name][3 + (dtype == "f64")], (float(x[worst]), wrong[worst])


# ---- edges ------------------------------------------------------------------------------------------

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5]


def edges(dtype: str) -> Points:
    info = np.finfo(KINDS[dtype])
    least, normal, largest = float(info.smallest_subnormal), float(info.tiny), float(info.max)
    far = [least, -least, normal, -normal, largest, -largest]
    return np.array([*EDGES, *far]).astype(KINDS[dtype])


def expectation(name: str, x: Points) -> Points:
    """What a function gives at edges, in double."""
    others: dict[str, Callable[[Points], Points]] = {
        "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "normal_cdf": special.ndtr,
        "softplus": lambda x: np.logaddexp(0, x), "trigamma": lambda x: special.polygamma(1, x),
        "lgamma": special.gammaln, "digamma": special.digamma, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
        "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        found = (others.get(name) or getattr(np, name, None) or getattr(special, name))(x)
    if name == "trigamma":
        found = np.where(x == -np.inf, np.inf, np.where((x < 0) & (x == np.round(x)), np.inf, found))
    if name == "erfinv":
        found = np.copysign(found, x)
    if name == "lgamma":
        found = np.where(x == -np.inf, np.inf, found)
    return np.asarray(found, np.float64)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", FUNCTION)
def test_edges(name: str, dtype: str, one: ctypes.CDLL) -> None:
    x = edges(dtype)
    found = applied(one, f"{name}_{dtype}", x)
    with np.errstate(all="ignore"):
        expected = expectation(name, x.astype(np.float64)).astype(KINDS[dtype])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    keep = ~np.isnan(expected)
    tiny = np.finfo(KINDS[dtype]).smallest_subnormal
    tolerance = 5e-7 if dtype == "f32" else 2e-15
    for v, y, z in zip(x[keep], found[keep], expected[keep], strict=True):
        assert y == z or abs(float(y) - float(z)) <= max(tolerance * abs(float(z)), 2 * float(tiny)), (v, y, z)
        assert np.signbit(y) == np.signbit(z), (v, y, z)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, -2.5, math.inf, -math.inf, math.nan, 1e30, -1e30]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("name", "meaning"), [("power", np.power), ("atan2", np.arctan2), ("hypot", np.hypot)])
def test_edges_of_functions_of_two_numbers(name: str, meaning: Any, dtype: str, two: ctypes.CDLL) -> None:
    far = list(edges(dtype)[-6:])
    x, y = (v.ravel().astype(KINDS[dtype]) for v in np.meshgrid([*SPECIAL, *far], [*SPECIAL, *far]))
    found = applied(two, f"{name}_{dtype}", x, y)
    with np.errstate(all="ignore"):
        expected = meaning(x.astype(np.float64), y.astype(np.float64)).astype(KINDS[dtype])
    np.testing.assert_allclose(found, expected, rtol=5e-7 if dtype == "f32" else 2e-15, atol=2e-45)
    keep = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[keep]), np.signbit(expected[keep]))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", ["power", "atan2", "hypot", "zeta"])
def test_functions_of_two_numbers_are_right_to_the_last_digits(name: str, dtype: str, two: ctypes.CDLL) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 1000)) * 10.0 ** rng.integers(-3, 4, (2, 1000))
    meaning: Callable[..., Any] = {"power": mp.power, "atan2": mp.atan2, "hypot": mp.hypot, "zeta": _zeta}[name]
    if name == "power":
        x = abs(x)
    if name == "zeta":
        x, y = rng.choice([1.5, 3.0, 4.0, 9.0], 200), np.exp(rng.uniform(-3, 5, 200))
    x, y = x.astype(KINDS[dtype]), y.astype(KINDS[dtype])
    exact = [meaning(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    wrong = in_units(applied(two, f"{name}_{dtype}", x, y), exact, dtype, False)
    limits = {"power": (1, 1), "atan2": (4, 1), "hypot": (1, 1), "zeta": (1, 4)}
    worst = int(np.argmax(wrong))
    assert wrong[worst] <= limits[name][dtype == "f64"], (x[worst], y[worst], wrong[worst])


def _zeta(s: Any, x: Any) -> Any:
    return mp.zeta(s, x)


def test_sines_of_large_floats(one: ctypes.CDLL) -> None:
    worst = [16367173 * 2.0**72, 3.4e38, 2.0**100, 6381956970095103 * 2.0**60, 710.0, 2.0**24, 2.0**27 + 16]
    x = np.array([*worst, *(-v for v in worst)], np.float32)
    for name, meaning in (("sin", mpmath.sin), ("cos", mpmath.cos), ("tan", mpmath.tan)):
        with mpmath.workdps(80):
            exact = [mp.mpf(meaning(mpmath.mpf(float(v)))) for v in x]
        assert in_units(applied(one, f"{name}_f32", x), exact, "f32", False).max() <= 1


# ---- whole numbers and random bits ------------------------------------------------------------------


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    names = ["floor_divide_i64", "remainder_i64", "power_i64", "uniform_f32", "uniform_f64"]
    lines = closure(names)
    for name in names[:3]:
        lines.append(f"int64_t {name}_of(int64_t x, int64_t y) {{ return {name}(x, y); }}")
    for kind, name in (("float", "uniform_f32"), ("double", "uniform_f64")):
        lines.append(
            f"void {name}_all(int64_t n, uint64_t seed, uint32_t site, int64_t first, int lane, {kind} *y) {{\n"
            f"    #pragma omp simd\n    for (int64_t i = 0; i < n; i++) y[i] = {name}(seed, site, first + i, lane);\n}}"
        )
    found = compiled("\n\n".join(lines) + "\n", tmp_path_factory.mktemp("others"), "others")
    for name in names[:3]:
        function = getattr(found, f"{name}_of")
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_int64] * 2
    return found


WHOLE = [0, 1, -1, 2, -2, 3, -3, 7, -7, 8, 10**12, -(10**12), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("x", WHOLE)
@pytest.mark.parametrize("y", WHOLE)
def test_division_of_whole_numbers_is_that_of_python(x: int, y: int, others: ctypes.CDLL) -> None:
    q, r = divmod(x, y) if y else (0, 0)
    assert (others.floor_divide_i64_of(x, y), others.remainder_i64_of(x, y)) == ((q + 2**63) % 2**64 - 2**63, r)


@pytest.mark.parametrize("x", WHOLE)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 62, 63, 64, -1, -2, -3])
def test_powers_of_whole_numbers(x: int, n: int, others: ctypes.CDLL) -> None:
    exact = x**n if n >= 0 else {1: 1, -1: -1 if n % 2 else 1}.get(x, 0)
    assert others.power_i64_of(x, n) == (exact + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("lane", range(4))
@pytest.mark.parametrize(("seed", "site", "first"), [(0, 0, 0), (2**64 - 1, 3, 5), (12345678901234567, 2**31, 2**33)])
def test_random_bits_are_those_of_the_interpreter(
    seed: int, site: int, first: int, lane: int, dtype: str, others: ctypes.CDLL
) -> None:
    found = np.empty(1000, KINDS[dtype])
    getattr(others, f"uniform_{dtype}_all")(
        ctypes.c_int64(1000), ctypes.c_uint64(seed), ctypes.c_uint32(site), ctypes.c_int64(first), ctypes.c_int(lane),
        ctypes.c_void_p(found.ctypes.data),
    )  # fmt: skip
    np.testing.assert_array_equal(found, uniform(seed, site, first + np.arange(1000), lane))


# ---- loops ------------------------------------------------------------------------------------------

#: functions that call libm
CALLS = {f"{n}_f64" for n in ("expm1", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
                              "acosh", "atanh", "lgamma")}  # fmt: skip


def test_loops_become_vector_code(tmp_path: Path) -> None:
    if shutil.which("gcc") is None or platform.machine() != "x86_64":
        pytest.skip("needs a C compiler for x86-64")
    (tmp_path / "loops.c").write_text(HEAD + loops(ONE), encoding="utf-8")
    flags = [f for f in FLAGS if "march" not in f]
    command = ["gcc", *flags, "-march=x86-64-v3", "-fopt-info-vec", "-c", "-o", str(tmp_path / "x.o")]
    done = subprocess.run([*command, str(tmp_path / "loops.c")], capture_output=True, text=True, check=True)
    lines = {int(n) for n in re.findall(r":(\d+):\d+: optimized: loop vectorized", done.stderr)}
    code = (HEAD + loops(ONE)).splitlines()
    found = {m[1] for n in lines for m in re.finditer(r"= (\w+)\(", code[n - 1])}
    assert found == set(ONE) - CALLS
