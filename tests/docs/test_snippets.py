"""The documentation is checked: every spec in it is good or has the error it announces, every output is real.

The word after the fence of a block says what is tested:

    ```dsl                      a complete spec without errors
    ```dsl error E0113          a spec whose first error is E0113
    ```dsl file=blocks.dsl      saved under that name for the later blocks of the page
    ```console run              each `$ dslc ...` prints what follows it
    ```math                     what the last command of the console above it prints, as formulas
    ```python run               runs without an error
    ```text printed             what the script above it prints
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dslc.cli.main import cli
from dslc.diagnostics.render import render_all
from dslc.frontend import check_text
from dslc.ops import table
from dslc.syntax import tree

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    info: str
    text: str

    @property
    def expected_error(self) -> str | None:
        found = re.search(r"\berror (\w+)", self.info)
        return found.group(1) if found else None

    @property
    def file(self) -> str | None:
        found = re.search(r"\bfile=(\S+)", self.info)
        return found.group(1) if found else None

    def __str__(self) -> str:
        folder = "book/" if self.page.parent.name == "book" else ""
        return f"{folder}{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, m.start()) + 1, m.group(1), m.group(2).strip(), m.group(3))
        for m in FENCE.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks(page)]
SPECS = [b for b in ALL if b.language == "dsl"]
COMMANDS = [b for b in ALL if b.language == "console" and b.info == "run"]
SCRIPTS = [b for b in ALL if b.language == "python" and b.info == "run"]
PRINTED = {a: b.text for a, b in itertools.pairwise(ALL) if b.language == "text" and b.info == "printed"}
FORMULAS = {a: b.text.rstrip() for a, b in itertools.pairwise(ALL) if b.language == "math"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    block: Block = request.getfixturevalue("block")
    furnish(tmp_path, block.page)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def furnish(folder: Path, page: Path) -> None:
    """The named specs of a page, and the project's specs."""
    for block in blocks(page):
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
    (folder / "specs").symlink_to(ROOT / "specs")


@pytest.mark.parametrize("block", SPECS, ids=str)
def test_specs_in_the_docs_are_as_announced(block: Block, folder: Path) -> None:
    errors = check_text(block.text, str(block)).errors
    if block.expected_error is None:
        assert not errors, render_all(errors)
    else:
        assert errors, f"expected {block.expected_error}, found no error"
        assert errors[0].code == block.expected_error, render_all(errors)


@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_commands_in_the_docs_print_what_is_shown(block: Block, folder: Path) -> None:
    shown = [(command, output.rstrip()) for command, output in sessions(block.text)]
    assert shown
    if block in FORMULAS:
        assert shown[-1][1] == ""
        shown[-1] = (shown[-1][0], FORMULAS[block])
    assert [(command, answer(command)) for command, _ in shown] == shown


def sessions(text: str) -> list[tuple[str, str]]:
    """The commands of a console, with what stands below each."""
    parts = (x.partition("\n") for x in re.split(r"^\$ dslc ", text, flags=re.MULTILINE)[1:])
    return [(command, output) for command, _, output in parts]


def answer(command: str) -> str:
    return CliRunner().invoke(cli, shlex.split(command), catch_exceptions=False).output.rstrip()


@pytest.mark.parametrize("block", SCRIPTS, ids=str)
def test_scripts_in_the_docs_run_and_leave_finite_numbers(block: Block, folder: Path) -> None:
    names, said = performed(block)
    assert said == PRINTED.get(block, "")
    floats = [x for x in names.values() if isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f"]
    assert floats and all(np.isfinite(x).all() for x in floats)


def performed(block: Block) -> tuple[dict[str, object], str]:
    """What a script defines and prints."""
    names: dict[str, object] = {"__name__": "snippet"}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(block.text, str(block), "exec"), names)
    return names, said.getvalue()


def test_what_is_printed_stands_below_a_script() -> None:
    assert [str(block) for block in PRINTED if block not in SCRIPTS] == []


def test_formulas_stand_below_a_command() -> None:
    assert [str(block) for block in FORMULAS if block not in COMMANDS] == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name == "book"], ids=lambda page: page.name)
def test_each_spec_of_a_page_of_the_book_is_used_there(page: Path) -> None:
    """The pages of the book are run as they stand, so a spec that nothing runs would be shown untested."""
    used = "".join(b.text for b in blocks(page) if b.info == "run")
    specs = [b for b in blocks(page) if b.language == "dsl" and b.expected_error is None]
    assert [str(b) for b in specs if b.file is None or b.file not in used] == []


def test_every_construct_has_an_example() -> None:
    """Each kind of definition, statement and expression of the syntax tree occurs in the reference."""
    used = set()
    for block in blocks(ROOT / "docs" / "language.md"):
        if block.language == "dsl":
            parsed = check_text(block.text, str(block)).parsed
            assert parsed is not None
            used |= {type(node) for node in parsed.module.walk()}
    kinds = {c for c in vars(tree).values() if isinstance(c, type) and issubclass(c, tree.Node)}
    assert kinds - used == {tree.Node}


@pytest.mark.parametrize(
    "names",
    [
        table.SCALAR_OPS, table.REDUCTIONS, table.ALONG_AXIS, table.DRAWS, table.INITIALIZERS, table.DERIVATIVES,
        table.CONSTANTS, table.SPECIAL, table.EXTERNALS, table.CASTS,
    ],
    ids=["scalar", "reductions", "along", "draws", "initialisers", "derivatives", "constants", "special", "externals",
         "casts"],
)  # fmt: skip
def test_the_reference_names_every_operation(names: dict[str, object] | tuple[str, ...]) -> None:
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    prose = " ".join(re.findall(r"`[^`\n]+`", FENCE.sub("", page)))
    assert [name for name in names if not re.search(rf"\b{name}\b", prose)] == []


def test_the_reserved_words_are_those_of_the_grammar() -> None:
    grammar = (ROOT / "grammar" / "dslc.lark").read_text(encoding="utf-8")
    listed = next(b for b in blocks(ROOT / "docs" / "language.md") if b.text.startswith("import from"))
    assert sorted(listed.text.split()) == sorted(set(re.findall(r'"([a-z]+)"', grammar)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def test_the_map_names_every_file() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "dslc").rglob("*.py")) if p.name != "__init__.py"]
    assert [f for f in files if f"`{f}`" not in text] == []
    named = re.findall(r"`(dslc/[\w/]+\.py)`", text)
    assert [f for f in named if not (ROOT / f).is_file()] == []


def test_the_readme_shows_the_spec_that_it_runs() -> None:
    """The first spec of the README stands in specs/mlp/mlp.dsl, line for line."""
    shown = next(b for b in SPECS if b.page.name == "README.md")
    file = (ROOT / "specs" / "mlp" / "mlp.dsl").read_text(encoding="utf-8")
    assert shown.text in file
