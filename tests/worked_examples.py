"""Examples of CONTRIBUTING.md: their texts, and a copy of dslc that they are put into."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def examples(heading: str, language: str = "python") -> list[str]:
    """The blocks in a language below a heading of CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def copied(folder: Path) -> Path:
    """dslc as a checkout has it, in a folder of its own."""
    for name in ("dslc", "backends", "grammar"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def insert(file: Path, after: str, text: str) -> None:
    """Put lines below the only line of a file that is as given."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines.count(after) == 1, after
    lines.insert(lines.index(after) + 1, text.rstrip("\n"))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def python(checkout: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Python in a copy, with the dslc of that copy."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "TRITON_INTERPRET": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def dslc(checkout: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line of a copy."""
    return python(checkout, "-m", "dslc.cli.main", *arguments)
