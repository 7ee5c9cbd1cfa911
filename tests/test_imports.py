"""Imports follow the order of docs/architecture.md: no package imports a later one, no files import each other.

Imports inside functions count, since they only hide a cycle; those under `if TYPE_CHECKING` do not.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"

#: files that import each other, and why
EXCEPTIONS: dict[frozenset[str], str] = {}


def sources() -> dict[str, str]:
    """The text of every module by its name: `backends/` is installed as `dslc.backends`."""
    found = {}
    for path in (*ROOT.glob("dslc/**/*.py"), *ROOT.glob("backends/**/*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] == "dslc" else ("dslc", *parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


@cache
def imports(text: str) -> tuple[tuple[str, str, int], ...]:
    """Modules and names that a text imports from them (none: the module itself), with the lines where it does."""
    found = []
    stack: list[ast.AST] = [ast.parse(text)]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            stack += node.orelse
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, "", node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the whole name of what is imported"
            found += [(str(node.module), alias.name, node.lineno) for alias in node.names]
        stack += ast.iter_child_nodes(node)
    return tuple(found)


def edges(modules: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """Who imports whom, and in which line; `from dslc.check import frame` imports `dslc.check.frame`."""
    found = []
    for importer, text in modules.items():
        for module, name, line in imports(text):
            target = f"{module}.{name}" if f"{module}.{name}" in modules else module
            if target in modules and target != importer:
                found.append((importer, target, line))
    return found


def package(module: str) -> str:
    """What a module belongs to in the order of imports: a folder, a file of `dslc/` itself, or a backend.

    >>> package("dslc.check.frame"), package("dslc.sizes"), package("dslc.backends.numpy.text")
    ('check', 'sizes', 'backends.numpy')
    """
    parts = module.split(".")[1:] or ["dslc"]
    return ".".join(parts[:2] if parts[0] == "backends" else parts[:1])


Order = list[list[list[str]]]


def documented() -> Order:
    """The block below the heading `Imports`: rows of packages, in groups of rows that stand beside each other."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Imports\n")[1]
    found: Order = []
    for line in section.split("```text\n")[1].split("```")[0].splitlines():
        mark = min(line.find(x) for x in "|+" if x in line)
        row = line[mark + 1 :].split()
        if line[mark] == "|":
            found.append([])
        found[-1].append(row)
    return found


def allowed(order: Order) -> dict[str, set[str]]:
    """The packages that each package may import: those before it in its row, and those of earlier groups."""
    found: dict[str, set[str]] = {}
    for group in order:
        earlier = set(found)
        for row in group:
            for k, name in enumerate(row):
                assert name not in found, f"`{name}` stands twice in the order"
                found[name] = earlier | set(row[:k])
    return found


def backward(modules: Mapping[str, str], order: Order) -> list[str]:
    """Imports of packages that the importing package does not stand above."""
    below = allowed(order)
    return [
        f"{a}, line {line}: `{package(a)}` does not stand above `{package(b)}`"
        for a, b, line in edges(modules)
        if package(a) != package(b) and package(b) not in below[package(a)]
    ]


def cycles(modules: Mapping[str, str]) -> list[frozenset[str]]:
    """Files that import each other, directly or through others."""
    below: dict[str, set[str]] = {module: set() for module in modules}
    for a, b, _ in edges(modules):
        below[a].add(b)

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        stack = [start]
        while stack:
            new = below[stack.pop()] - found
            found |= new
            stack += new
        return found

    reach = {module: reached(module) for module in modules}
    return list({frozenset(b for b in reach[a] if a in reach[b]) for a in modules if a in reach[a]})


MODULES = sources()


def test_the_documented_order_names_every_package_once() -> None:
    assert allowed(documented()).keys() == {package(module) for module in MODULES}


def test_no_package_imports_a_later_one() -> None:
    assert backward(MODULES, documented()) == []


def test_no_files_import_each_other() -> None:
    assert [sorted(cycle) for cycle in cycles(MODULES) if cycle not in EXCEPTIONS] == []


@pytest.mark.parametrize(
    ("planted", "noticed"),
    [
        ("from dslc.check.frame import Frame", True),
        ("from dslc.check import frame", True),
        ("import dslc.check.frame", True),
        ("def late():\n    from dslc.check.frame import Frame", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dslc.check.frame import Frame", False),
        ("from dslc.sizes import Size", False),
    ],
)
@pytest.mark.parametrize("module", ["dslc.ir.nodes", "dslc.passes.views"])
def test_a_planted_import_against_the_order_is_noticed(module: str, planted: str, noticed: bool) -> None:
    found = backward({**MODULES, module: f"{MODULES[module]}\n{planted}\n"}, documented())
    assert bool(found) is noticed and all(text.startswith(f"{module}, line") for text in found)


def test_a_planted_cycle_of_files_is_noticed() -> None:
    planted = "def late():\n    from dslc.check import definitions"
    modules = {**MODULES, "dslc.check.equations": f"{MODULES['dslc.check.equations']}\n{planted}\n"}
    found = [cycle for cycle in cycles(modules) if cycle not in EXCEPTIONS]
    assert [{"dslc.check.equations", "dslc.check.definitions"} <= cycle for cycle in found] == [True]
