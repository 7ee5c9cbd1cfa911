"""What all tests share: the option `--update-golden`, golden files, and that all modules made are imported."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# the processes of a parallel run share the cores: threads of one would wait for those of another
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# Triton's interpreter must be chosen before triton is imported, whatever test imports it first
os.environ["TRITON_INTERPRET"] = "1"


# most of what a compilation makes lives until its end: looking for cycles among it takes a tenth of the time
gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is `wide(n)`, each n-th runs by default; the others are long."""
    seen: Counter[str] = Counter()
    for item in items:
        wide = item.get_closest_marker("wide")
        if wide is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % wide.args[0]:
                item.add_marker(pytest.mark.long)
            seen[test] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each process gets tests that stand beside each other, which share modules that are compiled once in a process.

    One that is done takes over half of what another has left. Any other way that a command names is followed.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


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


@pytest.fixture(autouse=True, scope="session")
def every_module_is_imported() -> Iterator[None]:
    """A text that cannot be imported fails where it is made, also in tests that look at the text alone.

    Modules for Triton are imported where its interpreter runs; without it they need a device.
    """
    from dslc import compiler  # which imports numpy, after its threads are chosen

    sound = compiler.sound

    def imported(text: str) -> str:
        sound(text)
        if "import triton" not in text or ("triton" in sys.modules and os.environ.get("TRITON_INTERPRET") == "1"):
            compiler.imported(text, "tested")
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "sound", imported)
        yield
