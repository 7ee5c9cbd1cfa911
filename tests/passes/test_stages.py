"""Every pass keeps the meaning of the program: the reference interpreter gives the same values after each of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from samples import sample
from shipped import SMALL

from dslc import pipeline
from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.meaning.interpret import Interpreter
from dslc.passes.verify import verify

ROOT = Path(__file__).parents[2]
SPECS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "specs").glob("*/*.dsl"))

#: one of each kind for a quick run
QUICK = {
    "logistic", "mlp", "maxout", "cnn", "gru", "gcn", "gat", "lru", "aft", "mixer", "hessian",
}  # fmt: skip
LARGE = {"gpt12"}


def check(path: str) -> None:
    checked = check_file(ROOT / path, SMALL.get(Path(path).stem))
    assert checked.program is not None
    if not checked.program.models:
        return
    model, train = choose(checked)
    programs = [pipeline.forward(model), pipeline.forward(model, folded=True)]
    programs += [] if train is None else [pipeline.training(train)]
    for program in programs:
        inputs, sizes = sample(program.unit, np.random.default_rng(0))
        before: dict[str, object] = {}
        for name, outputs in program.stages[1:]:  # the first one is not yet stable
            verify(list(outputs.values()))
            with np.errstate(all="ignore"):
                found = Interpreter(inputs, sizes).run(outputs)
            for key, value in before.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-8, atol=1e-10, err_msg=f"{key} after {name}")
            before = dict(found)


@pytest.mark.wide(4)
@pytest.mark.parametrize("path", [p for p in SPECS if Path(p).stem in QUICK])
def test_passes_keep_the_meaning(path: str) -> None:
    check(path)


@pytest.mark.long
@pytest.mark.parametrize("path", [p for p in SPECS if Path(p).stem not in QUICK | LARGE])
def test_passes_keep_the_meaning_of_every_spec(path: str) -> None:
    check(path)
