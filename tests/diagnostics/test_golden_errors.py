"""Every message, to the letter: what dslc says about the example of each code, and about further specs that matter.

The texts stand in tests/golden/errors. `pytest --update-golden` writes them anew; read the difference as a user would.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dslc.diagnostics.kinds import KINDS
from dslc.diagnostics.render import render_all
from dslc.frontend import check_file

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "dslc" / "diagnostics" / "examples"
ERRORS = ROOT / "tests" / "golden" / "errors"
FIXED = ROOT / "tests" / "golden" / "fixed"

#: Files that another spec imports end in this.
HELPER = "_other"

#: Inputs that a readable text file cannot hold; None is no file at all.
GENERATED: dict[str, bytes | None] = {
    "E0001": None,
    "E0002": "fn half(x) = x / 2  # la moitié\n".encode("latin-1"),
    "E0003": b"fn half(x) = x / 2\x00\n",
    "E0004": b"fn half(x) = x / 2\n" * 60_000,
    "E0005": b"fn total(x) = x" + b" + x" * 2_500 + b"\n",
    "E0009": "fn half(x) = x\N{ZERO WIDTH SPACE} / 2\n".encode(),
    "E0109": b"fn nested(x) = " + b"(" * 61 + b"x" + b")" * 61 + b"\n",
}

#: Kinds that checking a spec does not lead to: they belong to later stages.
UNSEEN = {"E0348", "E0350", "E0901", "E0902", "W0804", "W0805", "W0806"}


def specs(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.dsl")) if not path.stem.endswith(HELPER)]


EXAMPLE_SPECS = specs(EXAMPLES)
CASES = specs(ERRORS)
CURES = specs(FIXED)


def report(path: Path) -> str:
    """What `dslc check` says in the folder of a spec."""
    return render_all(check_file(path).diagnostics).replace(f"{path.parent}{os.sep}", "") + "\n"


def generated_input(code: str, folder: Path) -> Path:
    path = folder / f"{code}.dsl"
    content = GENERATED[code]
    if content is not None:
        path.write_bytes(content)
    return path


Golden = Callable[[Path, str], None]


@pytest.mark.parametrize("path", EXAMPLE_SPECS, ids=lambda path: path.stem)
def test_the_example_of_a_code_gives_its_text(path: Path, golden: Golden) -> None:
    golden(ERRORS / f"{path.stem}.txt", report(path))


@pytest.mark.parametrize("code", GENERATED)
def test_a_generated_input_gives_its_text(code: str, tmp_path: Path, golden: Golden) -> None:
    golden(ERRORS / f"{code}.txt", report(generated_input(code, tmp_path)))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_further_spec_gives_its_text(path: Path, golden: Golden) -> None:
    golden(path.with_suffix(".txt"), report(path))


@pytest.mark.parametrize("path", EXAMPLE_SPECS, ids=lambda path: path.stem)
def test_the_example_of_a_code_reports_that_code_alone(path: Path) -> None:
    assert [d.code for d in check_file(path).diagnostics] == [path.stem]


@pytest.mark.parametrize("code", GENERATED)
def test_a_generated_input_reports_its_code_alone(code: str, tmp_path: Path) -> None:
    assert [d.code for d in check_file(generated_input(code, tmp_path)).diagnostics] == [code]


@pytest.mark.parametrize("path", CURES, ids=lambda path: path.stem)
def test_a_spec_mended_as_the_help_says_is_good(path: Path) -> None:
    diagnostics = check_file(path).diagnostics
    assert not diagnostics, render_all(diagnostics)


def test_every_code_has_one_example() -> None:
    shown = [path.stem for path in EXAMPLE_SPECS] + list(GENERATED)
    assert sorted([*shown, *UNSEEN]) == sorted(KINDS)


def test_every_golden_text_has_its_spec() -> None:
    known = {path.stem for path in (*EXAMPLE_SPECS, *CASES)} | set(GENERATED)
    assert {path.stem for path in ERRORS.glob("*.txt")} == known


def test_every_mended_spec_was_broken() -> None:
    broken = {path.stem for path in (*EXAMPLE_SPECS, *CASES)}
    assert {path.stem for path in CURES} <= broken


@pytest.mark.parametrize("folder", [EXAMPLES, ERRORS, FIXED], ids=lambda folder: folder.name)
def test_every_imported_file_is_imported(folder: Path) -> None:
    for path in folder.glob(f"*{HELPER}.dsl"):
        importing = path.with_name(path.name.replace(HELPER, ""))
        assert importing.is_file()
