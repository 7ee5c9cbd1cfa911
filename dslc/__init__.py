"""dslc: a symbolic compiler for differentiable models written in index notation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Installed, grammar/ and backends/ are packages of dslc. In a checkout they stand beside it, and Python that runs there
# takes this folder for the package, whatever is installed.
_CHECKOUT = Path(__file__).parents[1]
if (_CHECKOUT / "grammar" / "dslc.lark").is_file() and not (Path(__file__).parent / "grammar").is_dir():
    __path__.append(str(_CHECKOUT))

if TYPE_CHECKING:
    from dslc.compiler import compile_module as compile  # noqa: F401
    from dslc.frontend import check_file as check  # noqa: F401
    from dslc.weights.trees import flat, nested  # noqa: F401


def __getattr__(name: str) -> Any:
    """The functions of `dslc` are imported when they are first used, so that `import dslc` is quick."""
    if name == "compile":
        from dslc.compiler import compile_module

        return compile_module
    if name == "check":
        from dslc.frontend import check_file

        return check_file
    if name in ("flat", "nested"):
        from dslc.weights import trees

        return getattr(trees, name)
    raise AttributeError(f"module 'dslc' has no attribute {name!r}")
