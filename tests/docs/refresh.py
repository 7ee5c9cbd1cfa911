"""Writes real outputs into pages: `python tests/docs/refresh.py docs/book/02.md`.

What stands below each command of a `console run`, in each `text printed` and in each `math` is replaced by what comes
out now; look at the difference before you keep it. The tests compare the same.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
from pathlib import Path

from test_snippets import FENCE, answer, blocks, furnish, performed, sessions


def refreshed(page: Path) -> str:
    """The text of a page with the outputs of its commands and scripts, run in a folder of its own."""
    found: list[str] = []
    said = ""
    for block, below in itertools.pairwise([*blocks(page), None]):
        text = block.text
        if (block.language, block.info) == ("console", "run"):
            shown = [[command, answer(command)] for command, _ in sessions(text)]
            if below is not None and below.language == "math":
                said, shown[-1][1] = f"{shown[-1][1]}\n", ""
            text = "\n".join(f"$ dslc {command}\n{output}".rstrip() + "\n" for command, output in shown)
        elif (block.language, block.info) == ("python", "run"):
            _, said = performed(block)
        elif (block.language, block.info) in (("text", "printed"), ("math", "")):
            text = said
        found.append(f"```{block.language}{' ' * bool(block.info)}{block.info}\n{text}```")
    return FENCE.sub(lambda match: found.pop(0), page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            furnish(Path(folder), page)
            text = refreshed(page)
        page.write_text(text, encoding="utf-8")
