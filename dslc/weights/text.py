"""The functions for files of weights as text, as modules carry them."""

from __future__ import annotations

from pathlib import Path

_MARK = "# ---- copied into modules ----\n"

#: what the text needs
IMPORTS = ("json", "math", "os", "tempfile", "zipfile")
_TEXT = (Path(__file__).parent / "files.py").read_text(encoding="utf-8")
FILES = _TEXT.partition(_MARK)[2].replace("  # fmt: skip", "")
