"""What all tests share: the option `--update-golden`, and the fixture that compares a text with its golden file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# the processes of a parallel run share the cores: threads of one would wait for those of another
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew; read the difference")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`golden(file, text)` asserts that the file holds the text; with `--update-golden` it writes the text there."""

    def compare(file: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        else:
            assert file.is_file(), f"{file} is missing; `pytest --update-golden` writes it"
            assert text == file.read_text(encoding="utf-8")

    return compare
