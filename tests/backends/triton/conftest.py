"""The quick interpreter of kernels, which warns of what NumPy warns of."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_interpreter(request: pytest.FixtureRequest) -> Iterator[None]:
    """All kernels run in the quick interpreter, but for the tests that compare the two of them.

    It gives the same bits, and refuses whole numbers that do not fit, which the plain one lets go around.
    """
    if request.module.__name__.endswith("test_triton_interpreter") or "triton" not in sys.modules:
        yield
        return
    from dslc.backends.triton.quick_triton import quick

    with quick():
        yield
