"""Sizes that are rounded down: what they mean is decided, and modules are right on both sides of a floor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from natural import BACKENDS, agree, normal
from torch.nn import functional as F

from dslc.frontend import check_text
from dslc.sizes import Facts, extreme, quotient, symbol

pytestmark = pytest.mark.point("23")


def errors(text: str) -> list[tuple[str, str | None]]:
    return [(d.code, d.help) for d in check_text(text).errors]


def pooled(x: torch.Tensor) -> torch.Tensor:
    y = F.max_pool2d(F.max_pool2d(x.permute(0, 3, 1, 2), 2), 2)
    return y.permute(0, 2, 3, 1)


def strided(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = F.max_pool2d(F.conv2d(x.permute(0, 3, 1, 2), k.permute(3, 2, 0, 1), stride=2, padding=1), 2)
    return y.permute(0, 2, 3, 1)


POOLED = """fn f(x: [N, H, W, C]) -> y: [N, H // 4, W // 4, C] where H >= 4, W >= 4:
    y = x |> max_pool2d(2) |> max_pool2d(2)
"""
STRIDED = """fn f(x: [N, H, W, C], K: [3, 3, C, O]) -> y: [N, (H + 1) // 4, (W + 1) // 4, O] where H >= 3, W >= 3:
    h[n, p: (H - 1) // 2 + 1, q: (W - 1) // 2 + 1, o] = (x[n, 2*p + u - 1, 2*q + v - 1, c] else 0) * K[u, v, c, o]
    y = max_pool2d(h, 2)
"""
HALVES = """fn f(x: [N, T], z: [N, (T + 1) // 2]) -> y: [N, (T - 1) // 2 + 1]:
    y = z * x[:, ::2]
"""
ROUNDED_UP = """fn f(x: [N, T], z: [N, T - T // 2]) -> y: [N, (T + 1) // 2]:
    y[n, t] = z[n, t] * x[n, 2*t]
"""
CASES: dict[str, tuple[str, Callable[..., Any], list[tuple[int, ...]]]] = {
    "two poolings": (POOLED, pooled, [(2, 9, 4, 2)]),
    "a strided convolution and a pooling": (STRIDED, strided, [(2, 6, 7, 2), (3, 3, 2, 3)]),
    "a half that is written in two ways": (HALVES, lambda x, z: z * x[:, ::2], [(2, 5), (2, 3)]),
    "a half of an even size": (HALVES, lambda x, z: z * x[:, ::2], [(2, 4), (2, 2)]),
    "a half of one": (HALVES, lambda x, z: z * x[:, ::2], [(2, 1), (2, 1)]),
    "what a half leaves": (ROUNDED_UP, lambda x, z: z * x[:, ::2], [(2, 5), (2, 3)]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_torch(name: str, backend: str, tmp_path: Path) -> None:
    text, meaning, shapes = CASES[name]
    names = [n for n in ("x", "z", "K") if f"{n}: [" in text][: len(shapes)]
    agree(text, meaning, {n: normal(*s) for n, s in zip(names, shapes, strict=True)}, tmp_path, backend)


@pytest.mark.parametrize(
    "body",
    [
        "x |> conv2d(4, pad = 1) |> max_pool2d(2) |> conv2d(8, pad = 1) |> max_pool2d(2)",
        "x |> conv2d(4, stride = 2, pad = 1) |> max_pool2d(2)",
        "x |> conv2d(4, stride = 2, pad = 1) |> conv2d(4, stride = 2, pad = 1) |> max_pool2d(2) |> avg_pool2d(2)",
    ],
)
def test_a_condition_that_is_suggested_suffices(body: str) -> None:
    """Conditions are taken from the help, one message after the other, until there are none."""
    text = (
        "model m(x: f32[N, H, W, 3]) -> y: [N, 10]{}:\n    h = "
        + body
        + "\n    y = h |> global_avg_pool |> dense(10)\n"
    )
    conditions: list[str] = []
    for _ in range(4):
        found = errors(text.format(f" where {', '.join(conditions)}" if conditions else ""))
        if not found:
            return
        ((code, help),) = found
        assert code == "E0318" and help is not None
        conditions.append(help.split("`where ")[1].rstrip("`"))
    pytest.fail(str(found))


FACTS = [
    ("T >= 4", "T == 2*K", "x[n, 3]"),
    ("K >= 2", "T == 2*K", "x[n, 3]"),
    ("T == K + 3", "K >= 1", "x[n, 3]"),
    ("T % 2 == 0", "T >= 3", "x[n, 3]"),
    ("T % 4 == 0", "T % 6 == 0", "x[n, 11]"),
    ("2*T == 3*K", "K > 2", "x[n, 5]"),
    ("T != 1", "T % 2 == K % 2", "x[n, 1]"),
    ("T // 2 >= 2", "K <= T", "x[n, 3]"),
    ("min(T, K) >= 4", "K >= 1", "x[n, 3]"),
]


@pytest.mark.parametrize("facts", FACTS)
@pytest.mark.parametrize("turned", [False, True])
def test_facts_hold_in_any_order(facts: tuple[str, str, str], turned: bool) -> None:
    first, second, value = facts
    conditions = f"{second}, {first}" if turned else f"{first}, {second}"
    assert errors(f"fn f(x: [N, T], z: [K]) -> y: [N] where {conditions}:\n    y[n] = {value} * z[0]\n") == []


@pytest.mark.parametrize(
    "conditions",
    ["T == 2*K, T == 2*K + 1", "3*T == 4*K + 2, K % 3 == 0", "T % 2 == 0, T % 4 == 3", "T >= 3, T // 3 < 1", "T < 1"],
)
def test_facts_that_exclude_each_other_are_noticed(conditions: str) -> None:
    text = f"fn f(x: [N, T], z: [K]) -> y: [N] where {conditions}:\n    y[n] = x[n, 0] * z[0]\n"
    assert [code for code, _ in errors(text)] == ["E0317"]


def test_the_product_of_neighbours_is_even() -> None:
    assert errors("fn f(x: [N]) -> y: [N*(N + 1) / 2]:\n    y[i: N*(N + 1) / 2] = x[0] * i\n") == []


@pytest.mark.parametrize(
    ("size", "where"),
    [
        ("(T - K) // S + 1", "T >= K"),  # the sign of a quotient by a size is that of what is divided
        ("(T // 2 - 1) * (K // 2 - 1)", "T >= 4, K >= 4"),  # a product whose factors are positive
        ("4 * (T // 2 - 1) * (K // 2 - 1)", "T >= 4, K >= 4, T * K <= 4096"),
        ("(T - 2) * (K - 1) * S", "T >= 3, K > 1"),
    ],
)
def test_sizes_are_positive_for_the_reason_that_people_see(size: str, where: str) -> None:
    text = "fn f(x: [T], z: [K], w: [S]) -> y: [{0}]{1}:\n    y[p: {0}] = x[0] * z[0] * w[0]\n"
    assert errors(text.format(size, f" where {where}")) == []
    assert [code for code, _ in errors(text.format(size, ""))] == ["E0323"]


def test_a_maximum_of_fractions_is_no_whole_number() -> None:
    """max(-3/2, -E/3 - 1) is negative for all E."""
    e = extreme("max", (quotient(symbol("E") * 0 - 3, 2), quotient(-symbol("E") - 3, 3)))
    assert not Facts().nonnegative(e)
