"""Hard models of six fields (physics, vision, speech, language, graphs, statistics), each beside a torch program."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_programs import PROGRAMS

import dslc

SPECS = Path(__file__).parent / "specs"
#: sizes that parameters need
SIZES: dict[str, dict[str, int]] = {"lattice_boltzmann": {"X": 4, "Y": 5}}


def whole(rng: np.random.Generator, below: int, *shape: int) -> np.ndarray:
    return rng.integers(0, below, shape).astype(np.int32)


def inputs(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Inputs of the training of a spec, in its order; those of the model come first."""
    normal = rng.standard_normal
    match name:
        case "lattice_boltzmann":
            cx = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1], np.int32)
            cy = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1], np.int32)
            w = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
            f = w * (1 + 0.1 * normal((4, 5, 9)))
            return {"f0": f, "cx": cx, "cy": cy, "w": w, "seen": normal((4, 5)) * 0.1}
        case "hamiltonian":
            return {k: normal((3, 2)) for k in ("q0", "p0", "q1", "p1")}
        case "radiance_field":
            rays = {"origin": normal((3, 3)) * 0.1, "direction": normal((3, 3)), "jitter": rng.random((3, 6))}
            return {**rays, "target": rng.random((3, 3))}
        case "spatial_transformer":
            return {"x": normal((2, 8, 8, 1)), "label": whole(rng, 3, 2)}
        case "transducer":
            return {"frames": normal((2, 4, 5)), "label": whole(rng, 6, 2, 3)}
        case "conformer":
            return {"wave": normal((2, 60)), "mel": rng.random((9, 6)), "label": whole(rng, 4, 2)}
        case "crf":
            return {"word": whole(rng, 20, 3, 5), "gold": whole(rng, 4, 3, 5)}
        case "mixture_of_experts":
            return {"token": whole(rng, 11, 2, 5)}
        case "egnn":
            edges = {"src": whole(rng, 6, 9), "dst": whole(rng, 6, 9)}
            edges["src"] = np.where(edges["src"] == edges["dst"], (edges["dst"] + 1) % 6, edges["src"]).astype(np.int32)
            graph = np.array([0, 0, 0, 1, 1, 1], np.int32)
            given = {"kind": whole(rng, 5, 6), "x": normal((6, 3)), **edges, "graph": graph}
            return {**given, "target": normal(2), "pull": normal((6, 3))}
        case "shortest_paths":
            return {"x": normal((5, 3)), "edge": rng.random((5, 5)) < 0.5, "target": normal((5, 5))}
        case "kalman":
            return {"y": normal((2, 4, 2)), "seen": rng.random((2, 4)) < 0.7}
        case "sparse_gp":
            return {"x": normal((7, 2)), "y": normal(7)}
    raise AssertionError(name)


def run(name: str, backend: str) -> None:
    module = dslc.compile(SPECS / f"{name}.dsl", backend=backend, dtype="f64", **SIZES.get(name, {}))
    rng = np.random.default_rng(3)
    given = inputs(name, rng)
    drawn = {k: np.asarray(v) + 0.1 * rng.standard_normal(np.shape(v)) for k, v in module.init(0).items()}
    leaves = {k: torch.tensor(v, requires_grad=True) for k, v in drawn.items()}
    loss, outputs = PROGRAMS[name](leaves, *map(torch.as_tensor, given.values()))
    loss.backward()
    make = torch.as_tensor if backend == "triton" else np.asarray
    params = {k: make(v) for k, v in drawn.items()}
    arrays = {k: make(v) for k, v in given.items()}
    asked = inspect.signature(module.forward).parameters
    got = module.forward(params, **{k: v for k, v in arrays.items() if k in asked})
    got = got if isinstance(got, dict) else {next(iter(outputs)): got}
    for key, value in outputs.items():
        np.testing.assert_allclose(np.asarray(got[key]), value.detach(), rtol=1e-9, atol=1e-10, err_msg=key)
    found, grads = module.loss_and_grad(params, **arrays)
    np.testing.assert_allclose(float(found), loss.item(), rtol=1e-10)
    assert set(grads) == set(leaves)
    for key, leaf in leaves.items():
        expected = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(np.asarray(grads[key]), expected, rtol=1e-8, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hard_model_computes_what_torch_does(name: str) -> None:
    run(name, "numpy")


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernels_of_a_hard_model_compute_what_torch_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    run(name, "triton")
