"""Where the ranges of indices come from, and what they make of shapes."""

from __future__ import annotations

import pytest

from dslc.diagnostics.render import render_all
from dslc.frontend import check_text
from dslc.sizes import show


def shapes(text: str) -> dict[str, str]:
    """The shapes of the outputs of a spec's last definition."""
    checked = check_text(text)
    assert not checked.diagnostics, render_all(checked.diagnostics)
    assert checked.program is not None
    *_, instance = checked.program.definitions.values()
    return {x.name: "[" + ", ".join(show(s) for s in x.shape) + "]" for x in instance.outputs}


def codes(text: str) -> list[str]:
    return [d.code for d in check_text(text).diagnostics]


@pytest.mark.parametrize(
    "binder",
    [
        "y[n, p] = max[a](x[n, 2*p + a]) where a = 2",
        "y[n, p] = max[a: 2](x[n, 2*p + a]) where a = 2",
        "y[n, p] = logsumexp[a](x[n, 2*p + a]) where a = 2",
        "y[n, p] = max[a](x[n, 2*p + a]) - min[a](x[n, 2*p + a]) where a = 2",
    ],
)
def test_a_where_gives_a_bound_index_its_range(binder: str) -> None:
    assert shapes(f"fn f(x: [N, 8]) -> y:\n    {binder}\n") == {"y": "[N, 4]"}


def test_a_where_gives_the_range_of_a_new_axis() -> None:
    text = "fn f(x: [N, 8]) -> y:\n    y[n, j], place[n, j] = top_k[k -> j](x[n, k]) where j = 3\n"
    assert shapes(text) == {"y": "[N, 3]"}


def test_a_where_gives_the_range_of_draws() -> None:
    assert shapes("fn f(x: [N]) -> y:\n    y[n, k] = x[n] + normal[k]() where k = 5\n") == {"y": "[N, 5]"}


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("x[n, T-1-t]", "T"),
        ("x[n, T - 2 - t]", "T - 1"),
        ("x[n, t + 2] - x[n, t + 1]", "T - 2"),
        ("x[n, t + 1] + x[n, T - 3 - t]", "T - 2"),
        ("x[n, T - 1 - 2*t]", "(T + 1) // 2"),
    ],
)
def test_an_index_of_affine_reads_takes_the_largest_range(value: str, size: str) -> None:
    assert shapes(f"fn f(x: [N, T]) -> y where T >= 4:\n    y[n, t] = {value}\n") == {"y": f"[N, {size}]"}


def test_an_inferred_range_is_not_empty() -> None:
    assert codes("fn f(x: [N, T]) -> y:\n    y[n, t] = x[n, t + 1]\n") == ["E0323"]


def test_a_later_equation_may_give_the_length_of_a_scan() -> None:
    text = """
fn f(x: [N, T]) -> (p, y: [N, T]):
    scan t:
        p[t, n] = 2 * p[t-1, n]
        y[n, t] = x[n, t] * p[t, n]
    start p = 1
"""
    assert shapes(text) == {"p": "[T, N]", "y": "[N, T]"}


def test_a_carried_value_does_not_make_sizes_equal() -> None:
    text = """
layer f(x: [N, T, K], h0: [N, M]) -> y: [N, K]:
    scan t:
        h[n, t, k] = x[n, t, k]
    start h = h0
    y[n, k] = h[n, T-1, k]
"""
    assert codes(text) == ["E0301"]


def test_an_index_without_brackets_on_the_left_is_summed_where_that_is_clear() -> None:
    text = """
fn f(x: [N, K], y: [N, K]) -> (a: [], b: [], c: []):
    a = mean[n](x[n, k])
    b = x[n, k] * y[n, k]
    c = x[n, k]
"""
    assert shapes(text) == {"a": "[]", "b": "[]", "c": "[]"}


def test_modes_may_meet_in_the_default_float() -> None:
    text = """
layer f(x: f32[N, K]) -> y: [N, K]:
    state seen: [N, K] = 0
    training:
        z = x
    inference:
        z = seen
    y = z
"""
    assert shapes(text) == {"y": "[N, K]"}


@pytest.mark.parametrize(
    "steps",
    [
        "        p[t, l: L] = x[t, l] + p[t-1, l-1]\n",
        "        p[t, l: L] = p[t-1, l-1] + x[t, l]\n",
        "        q[l: L] = p[t-1, l+1]\n        p[t, l] = x[t, l] + q[l]\n",
        "        scan s in 0..2:\n            q[s, l: L] = q[s-1, l] + p[t-1, l-1]\n        start q = 0\n"
        "        p[t, l] = x[t, l] + q[1, l]\n",
    ],
)
def test_reads_of_earlier_steps_must_stay_inside_also_where_the_size_is_found_out_later(steps: str) -> None:
    text = f"fn f(x: [T, L]) -> y: [T, L]:\n    scan t:\n{steps}    start p[l: L] = 0\n    y = p\n"
    assert codes(text) == ["E0308"]


def test_reads_of_earlier_steps_may_say_what_is_outside() -> None:
    steps = "    scan t:\n        p[t, l: L] = x[t, l] + (p[t-1, l-1] else 0)\n    start p[l: L] = 0\n"
    assert codes(f"fn f(x: [T, L]) -> y: [T, L]:\n{steps}    y = p\n") == []
