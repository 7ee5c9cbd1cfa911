"""Random programs: interpreter, every pass, torch, finite differences and the NumPy module agree on each of them."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable

import pytest
from comparison import SKIPPED, compare, compare_backend
from generator import CONSTRUCTS, Program, numbered, programs
from hypothesis import HealthCheck, Phase, given, seed, settings

from dslc.frontend import check_text

#: programs for each construct: about 150 by default, about 5,000 in the long run
QUICK, LONG = 2, 60


def run(construct: str, count: int, body: Callable[[Program], None], shrink: bool = False) -> None:
    """The same programs every time; a failing one is printed, after shrinking if there is time for that."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    options = settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=phases
    )
    seed(zlib.crc32(construct.encode()))(options(given(programs(construct))(body)))()


@pytest.mark.wide(2)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_few_programs(construct: str) -> None:
    def body(program: Program) -> None:
        compare(program)

    run(construct, QUICK, body)


@pytest.mark.wide(40)
@pytest.mark.parametrize("number", range(120))
def test_modules_in_c_agree_with_the_interpreter(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run.py 0:5000 --backend c` compares more of them."""
    monkeypatch.setenv("DSLC_CFLAGS", "-O1 -march=native -fopenmp-simd -fno-math-errno -ffp-contract=fast")
    compare_backend(numbered(number), "c")


@pytest.mark.long
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_many_programs(construct: str) -> None:
    def body(program: Program) -> None:
        compare(program)

    before = Counter(SKIPPED)
    run(construct, LONG, body, shrink=True)
    skipped = SKIPPED - before
    print(f"{construct}: skipped {dict(skipped)}")
    assert skipped.total() <= LONG / 4, f"too little is compared: {skipped}"


def test_the_quick_programs_contain_every_construct() -> None:
    found: Counter[str] = Counter()
    texts: set[str] = set()

    def body(program: Program) -> None:
        if program.text not in texts:
            texts.add(program.text)
            found.update(set(program.tags))

    for construct in CONSTRUCTS:
        run(construct, QUICK, body)
    report = "\n".join(f"{found[c]:4d} {c}" for c in sorted(CONSTRUCTS))
    print(f"{len(texts)} programs\n{report}")
    assert len(texts) > 1.5 * len(CONSTRUCTS)
    assert not [c for c in CONSTRUCTS if not found[c]], report


def test_generated_programs_are_well_typed() -> None:
    def body(program: Program) -> None:
        assert not check_text(program.text).errors

    for construct in list(CONSTRUCTS)[::8]:
        run(construct, 5, body)
