"""The page about modules shows one of them whole, as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dslc.compiler import compile_text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "modules.md"


def test_the_page_shows_the_module_of_the_mlp(golden: Callable[[Path, str], None]) -> None:
    text = compile_text(ROOT / "specs" / "mlp" / "mlp.dsl")
    before, start, rest = PAGE.read_text(encoding="utf-8").partition('```python\n"""mlp')
    assert start
    golden(PAGE, f"{before}```python\n{text}```\n{rest.partition('```' + chr(10))[2]}")
