"""How reads beyond an array, joins and axes of one entry are written: as NumPy has them, and with the same values."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from shipped import text_of

from dslc.compiler import compile_text, imported

ROOT = Path(__file__).parents[2]
#: all specs that have a model
SPECS = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("specs/*/*.dsl") if p.stem != "mixers")


def compiled(text: str, folder: Path) -> tuple[str, ModuleType]:
    """What `forward` computes as text, and the module."""
    spec = folder / "spec.dsl"
    spec.write_text(text, encoding="utf-8")
    code = compile_text(spec, dtype="f64")
    return code.split("def forward(")[1].split("\ndef ")[0], imported(code, "spec")


#: a formula, how it is written, and its value
READS = {
    "shifted by one": ("y[t: T] = (x[t-1] else 0)", "np.pad(x, ((1, 0),))[:T]", lambda x: np.r_[0, x[:-1]]),
    "shifted by three": ("y[t: T] = (x[t-3] else 0)", "np.pad(x, ((3, 0),))[:T]",
                         lambda x: np.r_[0, 0, 0, x][: len(x)]),
    "the next but one": ("y[t: T] = (x[t+2] else 7)", "np.pad(x, ((0, 2),), constant_values=7)[2:]",
                         lambda x: np.r_[x, 7, 7][2:]),
    "longer": ("y[t: T + 2] = (x[t] else 0)", "np.pad(x, ((0, 2),))", lambda x: np.r_[x, 0, 0]),
    "to a known length": ("y[t: 4] = (x[t] else 0)", "np.pad(x, ((0, 4),))[:4]", lambda x: np.r_[x, 0, 0, 0, 0][:4]),
    "every other": ("y[t: (T + 1) // 2] = (x[2*t] else 0)", "x[::2]", lambda x: x[::2]),
    "inside": ("y[t: T] = (x[T - 1 - t] else 0)", "x[::-1]", lambda x: x[::-1]),
}  # fmt: skip


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("length", [1, 2, 3, 5, 6])
def test_reads_beyond_an_array_are_those_of_a_padded_one(what: str, length: int, tmp_path: Path) -> None:
    formula, code, value = READS[what]
    text, m = compiled(f"model m(x: f64[T]) -> y:\n    {formula}\n", tmp_path)
    assert code in text and "shifted(" not in text and "gather(" not in text
    x = np.arange(1.0, length + 1)
    np.testing.assert_array_equal(m.forward({}, x), value(x))


#: a formula, how its windows are written, and where entry (t, u) of them is read
WINDOWS = {
    "same": ("(x[t + u - 1] else 0)", "T", "np.pad(x, ((1, 1),)), 3, 0)", lambda t, u: t + u - 1),
    "strided": ("(x[2*t + u - 1] else 0)", "(T + 1) // 2", "np.pad(x, ((1, 1),)), 3, 0)[::2]",
                lambda t, u: 2 * t + u - 1),
    "dilated": ("(x[t + 2*u - 2] else 0)", "T", "np.pad(x, ((2, 2),)), 5, 0)[:, ::2]", lambda t, u: t + 2 * u - 2),
    "causal": ("(x[t + u - 2] else 0)", "T", "np.pad(x, ((2, 0),)), 3, 0)", lambda t, u: t + u - 2),
    "both": ("(x[2*t + 3*u - 3] else 0)", "(T + 1) // 2", "np.pad(x, ((3, 3),)), 7, 0)[::2, ::3]",
             lambda t, u: 2 * t + 3 * u - 3),
}  # fmt: skip


@pytest.mark.parametrize("what", WINDOWS)
@pytest.mark.parametrize("length", [1, 2, 3, 6, 9])
def test_windows_are_views_of_a_padded_array(what: str, length: int, tmp_path: Path) -> None:
    formula, count, code, place = WINDOWS[what]
    text, m = compiled(f"model m(x: f64[T], w: f64[3]) -> y:\n    y[t: {count}] = {formula} * w[u]\n", tmp_path)
    assert f"sliding_window_view({code}" in text and " windows(" not in text
    x, w = np.arange(1.0, length + 1), np.array([1.0, -2.0, 5.0])
    reads = [[(place(t, u), u) for u in range(3)] for t in range(eval(count, {"T": length}))]
    expected = [sum(x[k] * w[u] for k, u in row if 0 <= k < length) for row in reads]
    np.testing.assert_array_equal(m.forward({}, x, w), expected)


def test_arrays_one_behind_the_other_are_concatenated(tmp_path: Path) -> None:
    text, m = compiled(
        "model m(a: f64[N, 3], b: f64[N, K], c: f64[N, 2]) -> y: [N, K + 5]:\n"
        "    y[n, j] = (a[n, j] else 0) + (b[n, j - 3] else 0) + (c[n, j - K - 3] else 0)\n",
        tmp_path,
    )
    assert "np.concatenate((a, b, c), axis=1)" in text
    parts = [np.random.default_rng(0).normal(size=(4, k)) for k in (3, 6, 2)]
    np.testing.assert_array_equal(m.forward({}, *parts), np.concatenate(parts, 1))


def test_zeros_behind_an_array_are_as_many_as_a_where_leaves_room_for(tmp_path: Path) -> None:
    text, m = compiled("model m(x: f64[T]) -> y: [8] where T <= 8:\n    y[t: 8] = (x[t] else 0)\n", tmp_path)
    assert "np.pad(x, ((0, 8 - T),))" in text and "[:8]" not in text
    for length in (1, 5, 8):
        np.testing.assert_array_equal(m.forward({}, np.ones(length)), [1] * length + [0] * (8 - length))
    with pytest.raises(ValueError, match="needs T <= 8, found T = 9"):
        m.forward({}, np.ones(9))


def test_another_shape_with_an_axis_of_one_entry_is_one_reshape(tmp_path: Path) -> None:
    text, m = compiled(
        "model m(x: f64[N, 6]) -> y: [N, 2, 3, 1]:\n    y[n, h, w, c: 1] = x[n, (h w)] where h = 2, w = 3\n", tmp_path
    )
    assert "x.reshape(N, 2, 3, 1)" in text and "None" not in text
    x = np.random.default_rng(0).normal(size=(4, 6))
    np.testing.assert_array_equal(m.forward({}, x), x.reshape(4, 2, 3, 1))


def test_a_convolution_and_its_gradient_make_windows_once() -> None:
    text = text_of("specs/convolution/cnn.dsl").split("def loss_grad_metrics(")[1].split("\ndef ")[0]
    # two convolutions, and the gradient by the input of the second
    assert text.count("sliding_window_view(") == 3 and text.count("_windows.T @ ") == 2


def test_what_overlaps_is_added(tmp_path: Path) -> None:
    text, m = compiled(
        "model m(a: f64[3], b: f64[3]) -> y: [5]:\n    y[j] = (a[j] else 0) + (b[j - 2] else 0)\n", tmp_path
    )
    assert "concatenate" not in text
    np.testing.assert_array_equal(m.forward({}, np.ones(3), np.ones(3)), [1, 1, 2, 1, 1])


def test_a_gap_between_arrays_is_0(tmp_path: Path) -> None:
    text, m = compiled(
        "model m(a: f64[2], b: f64[2]) -> y: [5]:\n    y[j] = (a[j] else 0) + (b[j - 3] else 0)\n", tmp_path
    )
    assert "concatenate" not in text
    np.testing.assert_array_equal(m.forward({}, np.ones(2), np.ones(2)), [1, 1, 0, 1, 1])


#: what nobody would write: signs and numbers that cancel, positions along one entry, comparisons that are known
ODD = (r"np\.arange\(1\)", r"\b0 == 0\b", r"\b2 \* 0\.5\b", r"- -", r"-\(-", r"~\(", r"\(1 \* ", r"\*\* 1\b",
       r"np\.where\((True|False)", r"\.T\.T\b", r"\bshifted\(x, axis, start, 1", r"\+ 0\b(?!\.)", r"\[:, :\]",
       )  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_no_shipped_spec_has_what_nobody_would_write(spec: str) -> None:
    code = text_of(spec).split("# ---- what")[0]
    lines = [line.split("  # ")[0] for line in code.splitlines() if not line.lstrip().startswith(("#", "raise"))]
    assert not [line for line in lines for odd in ODD if re.search(odd, line)]


def test_pieces_that_are_the_same_along_the_axis_of_a_join_compile(tmp_path: Path) -> None:
    spec = tmp_path / "same.dsl"
    spec.write_text(
        "model m(x: [3]) -> y:\n    v[i: 4] = atanh(-0.4)\n    y[i] = concat[i](x[i], v[i], v[i])\n", encoding="utf-8"
    )
    module = imported(compile_text(spec, dtype="f64"), "same")
    found = module.forward(module.init(0), np.arange(3.0))
    np.testing.assert_allclose(found, [0, 1, 2, *8 * [np.arctanh(-0.4)]], rtol=1e-12)


#: statements that read an axis from its end, and their value
BACKWARDS = {
    "every second": ("turned = x[::-1]\n    y = turned[::2]", "(T + 1) // 2", lambda x: x[::-1][::2]),
    "pairs": ("y[t: T // 2] = x[T - 1 - 2*t]", "T // 2", lambda x: x[::-1][::2][: len(x) // 2]),
    "every third": ("y[t: (T + 2) // 3] = x[T - 1 - 3*t]", "(T + 2) // 3", lambda x: x[::-1][::3]),
    "the last two": ("y[t: 2] = x[T - 1 - 2*t]", "2", lambda x: x[[-1, -3]]),
    "all but the last one": ("y[t: T - 1] = x[T - 2 - t]", "T - 1", lambda x: x[-2::-1]),
    "half of them, one by one": ("y[t: T // 2] = x[T // 2 - 1 - t]", "T // 2", lambda x: x[: len(x) // 2][::-1]),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_a_read_from_the_end_reaches_the_first_entry(name: str, tmp_path: Path) -> None:
    """The place before the first one is no -1: that is the last one."""
    statements, size, value = BACKWARDS[name]
    _, module = compiled(f"model m(x: [T]) -> y: [{size}] where T >= 3:\n    {statements}\n", tmp_path)
    for length in range(3, 10):
        x = np.random.default_rng(length).normal(size=length)
        np.testing.assert_array_equal(module.forward({}, x), value(x))
