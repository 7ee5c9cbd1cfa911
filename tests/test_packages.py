"""What is installed is what there is: an editable install would hide a package that is missing from the list."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_folder_with_code_is_a_package_that_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {f"dslc.{p.parent.relative_to(ROOT / 'dslc').as_posix()}" for p in ROOT.glob("dslc/*/*.py")}
    folders |= {
        f"dslc.{p.parent.relative_to(ROOT).as_posix().replace('/', '.')}" for p in ROOT.glob("backends/**/*.py")
    }
    assert set(listed) >= folders | {"dslc", "dslc.grammar"}
