"""Outputs in pages are replaced by real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from refresh import refreshed
from test_snippets import furnish

PAGE = """# A page

```python run
print(1 + 1)
```
```text printed
{}
```

```console run
$ dslc explain E0310 --nothing
{}
```

```dsl file=square.dsl
model square(x: f64[]) -> y:
    y = x^2
```

```console run
$ dslc show square.dsl --stage ir --latex
```
```math
{}
```
"""


def test_outputs_that_are_wrong_become_right_and_the_rest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE.format("3", "nothing", "y = x"), encoding="utf-8")
    furnish(tmp_path, page)
    found = refreshed(page)
    assert "```text printed\n2\n```" in found
    assert "No such option" in found
    assert "--latex\n```\n```math\n\\begin{align*}\ny &= x^{2}\n\\end{align*}\n```" in found
    page.write_text(found, encoding="utf-8")
    assert refreshed(page) == found
