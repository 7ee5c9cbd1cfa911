"""Further hard models of six fields beside torch programs: also by their inputs, in both floats, at sizes of 1."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_more import MORE

import dslc

SPECS = Path(__file__).parent / "specs"
RATES = {"f64": (np.float64, 1e-8, 1e-9), "f32": (np.float32, 3e-3, 3e-4)}


def whole(rng: np.random.Generator, below: int, *shape: int) -> np.ndarray:
    return rng.integers(0, below, shape).astype(np.int32)


def given(name: str, rng: np.random.Generator, least: bool) -> tuple[dict[str, Any], dict[str, int]]:
    """The inputs of a training in its order, at odd sizes or at the least ones, and the sizes that parameters need."""
    normal, n = rng.standard_normal, 1 if least else 3
    graph = {"src": whole(rng, n, 2 * n), "dst": whole(rng, n, 2 * n)}
    match name:
        case "molecular_dynamics":
            x = np.arange(n)[:, None] * np.array([1.3, 0.4, 0.2]) + 0.1 * normal((n, 3))
            return {"x0": x, "v0": normal((n, 3)), "mass": 1 + rng.random(n), "seen": normal((4, n, 3))}, {}
        case "neural_operator":
            t = 6 if least else 7
            return {"u": normal((n, t)), "target": normal((n, t))}, {}
        case "unet":
            h, w = (4, 4) if least else (8, 12)
            return {"x": normal((n, h, w, 1)), "label": whole(rng, 3, n, h, w)}, {"C": 1}
        case "deformable":
            h, w = (1, 1) if least else (5, 4)
            return {"x": normal((n, h, w, 2)), "t": normal((n, 2))}, {"C": 2}
        case "ctc":
            t, u = (1, 1) if least else (9, 3)
            length = np.minimum(whole(rng, u + 1, n), t // 2 + 1).astype(np.int32)
            frames = np.full(n, t, np.int32) - (whole(rng, 2, n) if t > 1 else 0)
            labels = {"label": whole(rng, 5, n, u), "frames": frames.astype(np.int32), "length": length}
            return {"x": normal((n, t, 2)), **labels}, {"C": 2, "K": 5}
        case "tacotron":
            s, t = (1, 1) if least else (4, 5)
            done = (rng.random((n, t)) < 0.3).astype(float)
            return {"text": whole(rng, 7, n, s), "mel": normal((n, t, 2)), "done": done}, {"V": 7}
        case "pointer":
            s, t = (1, 1) if least else (4, 5)
            words = {"source": whole(rng, 9, n, s), "target": whole(rng, 9, n, t)}
            return {**words, "length": 1 + whole(rng, s, n)}, {"V": 9}
        case "gemma":
            return {"token": whole(rng, 11, n, 2 if least else 7)}, {}
        case "edge_attention":
            known = np.ones(n, bool)
            data = {"x": normal((n, 3)), **graph, "e": normal((2 * n, 2))}
            return {**data, "label": whole(rng, 2, n), "known": known}, {}
        case "schnet":
            data = {"kind": whole(rng, 5, n), "x": normal((n, 3)), **graph}
            return {**data, "E": np.array(0.3), "f": normal((n, 3))}, {}
        case "spline_flow":
            d = 2 if least else 4
            return {"x": 1.5 * normal((n, d))}, {"D": d}
        case "iwae":
            s, d = (1, 1) if least else (4, 5)
            return {"x": (rng.random((n, d)) < 0.5).astype(float), "eps": normal((n, s, 2))}, {"D": d}
    raise AssertionError(name)


def run(name: str, backend: str, dtype: str, least: bool) -> None:
    rng = np.random.default_rng(3)
    inputs, sizes = given(name, rng, least)
    kind, rate, floor = RATES[dtype]
    inputs = {k: np.asarray(v).astype(kind) if np.asarray(v).dtype.kind == "f" else v for k, v in inputs.items()}
    wrt = [
        k for k, v in inputs.items() if v.dtype.kind == "f" and k not in ("done", "E") and (name, k) != ("iwae", "x")
    ]
    module = dslc.compile(SPECS / f"{name}.dsl", backend=backend, dtype=dtype, wrt=wrt, **sizes)
    params = {
        k: (np.asarray(v) + 0.1 * rng.standard_normal(np.shape(v))).astype(kind) for k, v in module.init(0).items()
    }
    leaves = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in params.items()}
    wide = {k: torch.tensor(v.astype(float) if v.dtype.kind == "f" else v) for k, v in inputs.items()}
    for k in wrt:
        leaves[k] = wide[k].requires_grad_()
    loss, outputs = MORE[name]({k: leaves[k] for k in params}, *wide.values())
    loss.backward()
    if backend == "triton":
        params, inputs = ({k: torch.tensor(v) for k, v in table.items()} for table in (params, inputs))
    asked = inspect.signature(module.forward).parameters
    got = module.forward(params, **{k: v for k, v in inputs.items() if k in asked})
    got = got if isinstance(got, dict) else {next(iter(outputs)): got}
    found, grads = module.loss_and_grad(params, **inputs)
    assert grads.keys() == leaves.keys()
    slopes = {k: torch.zeros_like(x) if x.grad is None else x.grad for k, x in leaves.items()}
    pairs = [(k, got[k], x.detach()) for k, x in outputs.items()] + [("loss", found, loss.detach())]
    for key, value, expected in [*pairs, *((k, grads[k], x) for k, x in slopes.items())]:
        size = max(1.0, float(expected.abs().max()))
        assert np.asarray(value).dtype == kind, key
        np.testing.assert_allclose(np.asarray(value), expected, rtol=rate, atol=floor * size, err_msg=key)


@pytest.mark.parametrize("least", [False, True], ids=["odd", "least"])
@pytest.mark.parametrize("dtype", RATES)
@pytest.mark.parametrize("name", MORE)
def test_a_further_model_computes_what_torch_does(name: str, dtype: str, least: bool) -> None:
    run(name, "numpy", dtype, least)


@pytest.mark.parametrize("name", [pytest.param(x, marks=() if x == "schnet" else pytest.mark.long) for x in MORE])
def test_a_further_model_in_c_computes_what_torch_does(name: str) -> None:
    run(name, "c", "f64", False)
    run(name, "c", "f32", True)


@pytest.mark.long
@pytest.mark.parametrize("name", MORE)
def test_the_kernels_of_a_further_model_compute_what_torch_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    run(name, "triton", "f64", False)
