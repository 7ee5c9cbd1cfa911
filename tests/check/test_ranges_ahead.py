"""A value that needs the range of an index at once finds it wherever the statement tells it, also further right."""

from __future__ import annotations

import pytest

from dslc.frontend import check_text

SPEC = """
model m(y: [M, 2], z: [2, M, 2]) -> u: [M, 2, 2] where M >= 3:
    u[k, d, n] = {}
"""


@pytest.mark.parametrize(
    "formula",
    [
        "sort[k](erf((y[k, d - 1] else 0))) + 1.5 * z[d, k, n]",
        "1.5 * z[d, k, n] + sort[k](erf((y[k, d - 1] else 0)))",
        "sort[k]((y[k, d - 1] else 0)) if n <= d else z[d, k, n]",
        "cumsum[k]((y[k, 1 - d] else 0)) * z[d, k, n]",
    ],
)
def test_the_order_of_terms_does_not_matter(formula: str) -> None:
    text = SPEC.format(formula).replace(" -> u: [M, 2, 2]", " -> u")
    assert check_text(text).errors == []


@pytest.mark.parametrize(
    "formula",
    [
        "mean[b](cumprod[k](y[k, 0] if k <= b else 2) + z[b, k, n] * z[d, k, n])",
        "sum[b](z[b, k, n] * z[d, k, n] * sort[k](y[k, 0] if b > k else 0))",
        "var[b](cumsum[k](y[k, 0] if k <= b else 2) + sum[b](y[b, d]) + z[b, k, n])",
    ],
)
def test_the_order_of_terms_does_not_matter_for_a_bound_index(formula: str) -> None:
    assert check_text(SPEC.format(formula)).errors == []


def test_a_use_of_another_index_of_the_same_name_tells_nothing() -> None:
    (error,) = check_text(SPEC.format("sum[b](sort[k](y[k, 0] if b > k else 0) + sum[b](y[b, d])) + z[d, k, n]")).errors
    assert error.code == "E0306"


def test_what_no_use_tells_is_still_asked_for() -> None:
    (error,) = check_text(SPEC.format("sort[k]((y[k, d - 1] else 0)) * z[0, k, n]").replace(": [M, 2, 2]", "")).errors
    assert error.code == "E0306"


def test_the_range_of_a_read_of_a_scan_that_is_still_building_is_asked_for_by_name() -> None:
    """The size of what is carried has no name yet, so none is shown."""
    text = (
        "fn f(x: [T, S]) -> y: [T, S]:\n    scan t:\n        one = (a[t-1, s-1] else 0)\n"
        "        a[t, s: S] = x[t, s] + one\n    start a = 0\n    y = a\n"
    )
    errors = check_text(text).errors
    assert "E0306" in {e.code for e in errors}
    assert not [e.help for e in errors if e.help and "?" in e.help]
