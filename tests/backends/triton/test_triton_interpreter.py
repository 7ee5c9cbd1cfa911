"""Triton's interpreter as it is verified with: quicker, with the same bits, and with a bfloat16 that rounds."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from dslc.backends.triton.bfloat16 import as_on_a_device
from dslc.backends.triton.quick_triton import quick
from triton_modules import ROOT

from dslc.compiler import choose
from dslc.frontend import check_file
from dslc.verification import checks
from dslc.verification.backends import LOADERS

#: draws, contractions, scatters, scans of one value and of two, sorting, running products, whole numbers
NAMES = {
    "mlp/mc_dropout": 5, "graph/gcn": 5, "recurrent/lru": 2, "recurrent/gru": 3, "linear/survival": 5,
    "convolution/textcnn": 4,
}  # fmt: skip


def arrays(value: Any) -> list[Any]:
    if isinstance(value, (dict, tuple)):
        return [x for each in (value.values() if isinstance(value, dict) else value) for x in arrays(each)]
    return [np.asarray(value)]


@pytest.mark.wide(6)
@pytest.mark.parametrize(("name", "size"), NAMES.items())
def test_the_quick_interpreter_gives_the_same_bits(name: str, size: int) -> None:
    path = ROOT / f"specs/{name}.dsl"
    settings = {"hidden": 6} if "hidden = " in path.read_text(encoding="utf-8") else {}
    model, train = choose(check_file(path, settings))
    loaded = LOADERS["triton"](path, settings, model.name, "f32")
    names = {s for unit in ("outputs", "training") for s in open_sizes(checks.Subject(model, train, {}, 0), unit)}
    subject = checks.Subject(model, train, dict.fromkeys(names, size), 0, "f32")
    unit, values = subject.unit("training"), subject.inputs("training")
    found = arrays(loaded.call("loss_grad_metrics", unit, values, 3))
    loaded.running = nullcontext
    for a, b in zip(found, arrays(loaded.call("loss_grad_metrics", unit, values, 3)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def open_sizes(subject: checks.Subject, mode: str) -> set[str]:
    shapes = (n for x in subject.unit(mode).inputs.values() for n in x.shape)
    return {s.name for n in shapes for s in getattr(n, "free_symbols", ())}


@triton.jit
def product(out: Any, x: Any, BLOCK: tl.constexpr) -> None:
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * tl.load(x + i))


def test_a_whole_number_that_does_not_fit_is_refused() -> None:
    x, out = torch.full((4,), 70000, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with quick(), pytest.raises(Exception, match="int32 overflow"):
        product[(1,)](out, x, BLOCK=4)
    with quick():
        product[(1,)](out, x // 1000, BLOCK=4)
    assert out.tolist() == [4900] * 4


@triton.jit
def narrowed(out: Any, x: Any, BLOCK: tl.constexpr) -> None:
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(tl.bfloat16))


def test_bfloat16_rounds_as_that_of_torch() -> None:
    x = torch.randn(256, generator=torch.Generator().manual_seed(0))
    out = torch.zeros(256, dtype=torch.bfloat16)
    with as_on_a_device(), quick():
        narrowed[(1,)](out, x, BLOCK=256)
    assert torch.equal(out, x.to(torch.bfloat16))


def test_the_interpreter_is_as_before_afterwards() -> None:
    before = dict(vars(tl.core.tensor))
    with quick():
        assert vars(tl.core.tensor)["__add__"] is not before["__add__"]
    assert dict(vars(tl.core.tensor)) == before
