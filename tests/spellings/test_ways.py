"""Models written in many ways: the same values, gradients, dtypes and parameters, and those of a torch program.

A file `models/NAME.txt` has sections that begin with `=== title`. The first one is the `train` that all ways share; the
others are one way each to write the model. `=== title | W: dense.W` says that the parameter `W` of the reference is
called `dense.W` there. A new way is one more section; a new model is a file and a function in references.py.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dslc
from tests.spellings.references import TABLE, Names, Reference

FOLDER = Path(__file__).parent / "models"
FLOATS = {"f64": (np.float64, torch.float64), "f32": (np.float32, torch.float32)}

#: ways that show faults which are not mended yet
OFF: dict[tuple[str, str], str] = {}


def sections(name: str) -> dict[str, str]:
    parts = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("=== ")[1:]
    return {title.strip(): body.strip() + "\n" for title, _, body in (part.partition("\n") for part in parts)}


def ways() -> list[Any]:
    found = []
    for name in sorted(TABLE):
        for number, title in enumerate(list(sections(name))[1:]):
            label = title.partition("|")[0].strip()
            if (name, label) not in OFF:
                found += [pytest.param(name, title, "f64", id=f"{name}-{label}-f64")]
                marks = [] if number % 3 == zlib.crc32(name.encode()) % 3 else [pytest.mark.long]
                found += [pytest.param(name, title, "f32", id=f"{name}-{label}-f32", marks=marks)]
    return found


def data(name: str, r: Reference, sizes: dict[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and parameters, exact in float32."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {sizes}".encode()))
    inputs = {}
    for key, shape in r.inputs.items():
        axes = tuple(sizes[s] if s in sizes else int(s) for s in shape)
        kind = r.kinds.get(key)
        if kind == "bool":
            inputs[key] = rng.random(axes) < 0.7
        elif kind:
            inputs[key] = rng.integers(0, sizes.get(kind) or int(kind), axes).astype(np.int32)
        else:
            inputs[key] = rng.normal(0, 0.8, axes).astype(np.float32)
    return inputs, {key: rng.normal(0, 0.6, shape).astype(np.float32) for key, shape in r.params.items()}


def torch_results(r: Reference, inputs: dict[str, Any], params: dict[str, Any], dtype: str) -> dict[str, Any]:
    kind = FLOATS[dtype][1]
    torch.set_default_dtype(kind)
    try:
        tensors = [{k: torch.as_tensor(a) for k, a in part.items()} for part in (params, inputs)]
        for part in tensors:
            part |= {k: t.to(kind).requires_grad_() for k, t in part.items() if t.is_floating_point()}
        outputs, loss = r.run(*map(Names, tensors))
        leaves = {k: t for part in tensors for k, t in part.items() if t.is_floating_point()}
        wrt = {k: t for k, t in leaves.items() if k != "t"}
        grads = torch.autograd.grad(loss, list(wrt.values()), allow_unused=True)
        found = outputs | {"loss of the train": loss}
        found |= {
            f"gradient by {k}": torch.zeros_like(t) if g is None else g
            for (k, t), g in zip(wrt.items(), grads, strict=True)
        }
        return {k: t.detach().numpy() for k, t in found.items()}
    finally:
        torch.set_default_dtype(torch.float32)


def module_results(
    m: Any, r: Reference, names: dict[str, str], inputs: dict, params: dict, dtype: str
) -> dict[str, Any]:
    kind = FLOATS[dtype][0]
    given = {k: a.astype(kind) if a.dtype.kind == "f" else a for k, a in inputs.items()}
    weights = {names.get(k, k): a.astype(kind) for k, a in params.items()}
    of_model = [a for k, a in given.items() if k not in r.only_train]
    got = m.forward(weights, *of_model)
    loss, grads = m.loss_and_grad(weights, *given.values())
    found = dict(got) if isinstance(got, dict) else {"": got}
    back = {names.get(k, k): k for k in params}
    return found | {"loss of the train": loss} | {f"gradient by {back.get(k, k)}": g for k, g in grads.items()}


@pytest.mark.parametrize(("name", "title", "dtype"), ways())
def test_a_way_to_write_a_model_means_the_same(name: str, title: str, dtype: str, tmp_path: Path) -> None:
    r, texts = TABLE[name], sections(name)
    names = dict(
        tuple(x.strip() for x in pair.split(":")) for pair in title.partition("|")[2].split(",") if pair.strip()
    )
    spec = texts[title] + "\n" + texts["train"]
    file = tmp_path / f"{name}.dsl"
    file.write_text(spec, encoding="utf-8")
    wrt = [k for k in r.inputs if k not in r.kinds and k not in r.only_train]
    m = dslc.compile(file, dtype=dtype, wrt=wrt)
    assert set(m.PARAMS) == {names.get(k, k) for k in r.params}
    for sizes in r.sizes:
        inputs, params = data(name, r, sizes)
        exact, rough = (torch_results(r, inputs, params, precision) for precision in ("f64", "f32"))
        got = module_results(m, r, names, inputs, params, dtype)
        if "" in got:
            got[next(iter(exact))] = got.pop("")
        assert set(got) == set(exact)
        for key, value in exact.items():
            assert got[key].dtype == FLOATS[dtype][0], f"{key} is {got[key].dtype}"
            assert got[key].shape == value.shape, key
            scale, moved = np.abs(value).max(), np.abs(rough[key] - value).max()
            allowed = 1e-11 * scale + 1e-6 * moved + 1e-13 if dtype == "f64" else 3e-6 * scale + 30 * moved + 1e-7
            np.testing.assert_allclose(got[key], value, rtol=0, atol=allowed, err_msg=f"{key} of\n{spec}")


def test_every_model_is_written_in_five_ways_or_more() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(TABLE)
    assert len(TABLE) >= 20
    for name in TABLE:
        assert len(sections(name)) >= 6, name
