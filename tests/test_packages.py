"""What is installed is what there is: an editable install would hide a package that is missing from the list."""

from __future__ import annotations

import subprocess
import sys
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


def test_python_in_a_checkout_finds_all_of_dslc() -> None:
    """Without the finder of an editable install: as after `pip install .`, where the folder `dslc` comes first."""
    code = (
        "import sys; sys.meta_path = [x for x in sys.meta_path if 'editable' not in repr(x).lower()]\n"
        "import dslc; print(dslc.compile('specs/mlp/mlp.dsl').forward.__name__, dslc.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("forward"), done.stderr
