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


def test_what_no_use_tells_is_still_asked_for() -> None:
    (error,) = check_text(SPEC.format("sort[k]((y[k, d - 1] else 0)) * z[0, k, n]").replace(": [M, 2, 2]", "")).errors
    assert error.code == "E0306"
