"""Check the types of the package with the folders that are mapped into it: `python tests/check_types.py`.

`mypy` by itself looks for `dslc.backends` in `dslc/`, where it is not. Here it sees a tree of links in which each
folder has its place in the package; arguments are passed on to it. Exits with the code of `mypy`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONFIGURATION = ROOT / "pyproject.toml"


def mapped() -> dict[str, str]:
    """The folder of each package that has one of its own, by its path in the tree; packages before what is in them.

    >>> mapped()
    {'dslc': 'dslc', 'dslc/backends': 'backends', 'dslc/grammar': 'grammar'}
    """
    folders = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["tool"]["setuptools"]["package-dir"]
    return {name.replace(".", "/"): folders[name] for name in sorted(folders)}


def lay_out(tree: Path) -> None:
    """Links to all files, each package where it is once it is installed."""
    for package, folder in mapped().items():
        (tree / package).mkdir()
        for entry in (ROOT / folder).iterdir():
            (tree / package / entry.name).symlink_to(entry)


def in_the_repository(report: str) -> str:
    """The lines of a report with the paths that files have in the repository."""
    lines = report.splitlines(keepends=True)
    for package, folder in mapped().items():
        lines = [f"{folder}/{x.removeprefix(f'{package}/')}" if x.startswith(f"{package}/") else x for x in lines]
    return "".join(lines)


def main() -> int:
    with tempfile.TemporaryDirectory() as tree:
        lay_out(Path(tree))
        # a cache of its own: `mypy` by itself would leave modules there that lack the backends
        options = ["--config-file", str(CONFIGURATION), "--cache-dir", str(ROOT / ".mypy_cache" / "package")]
        command = [sys.executable, "-m", "mypy", *options, *sys.argv[1:]]
        found = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True)
    print(in_the_repository(found.stdout), end="")
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
