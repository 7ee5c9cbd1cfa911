"""A run goes on with the backend that its checkpoint records; weights move from one backend to another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dslc.backends.record import Unavailable
from dslc.backends.registry import BACKENDS
from small_runs import normed, run, same_bits, weights

COMPUTING = [name for name, backend in BACKENDS.items() if backend.on_arrays]


@pytest.mark.parametrize("backend", COMPUTING)
def test_a_resumed_run_uses_the_backend_of_its_checkpoint(backend: str, tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    given = ("train", spec, "--data", data, "--checkpoint-every", "3")
    whole = run(*given, "-o", tmp_path / "whole", "--steps", "9", "--backend", backend)
    assert whole.exit_code == 0, whole.output
    assert run(*given, "-o", tmp_path / "parts", "--steps", "4", "--backend", backend).exit_code == 0
    rest = run(*given, "-o", tmp_path / "parts", "--steps", "9", "--json")
    assert json.loads(rest.stdout)["backend"] == backend
    assert same_bits(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


def test_another_backend_than_that_of_the_checkpoint_is_an_error(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    given = ("train", spec, "--data", data, "-o", tmp_path / "run")
    assert run(*given, "--steps", "2", "--backend", "numpy").exit_code == 0
    done = run(*given, "--steps", "4", "--backend", "triton")
    assert done.exit_code == 1
    assert "was made with --backend numpy, not triton" in done.stderr
    assert "use the same --backend to go on; to train anew, use --fresh" in " ".join(done.stderr.split())


def test_a_checkpoint_without_a_backend_is_one_of_numpy(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    given = ("train", spec, "--data", data, "-o", tmp_path / "run", "--json")
    assert run(*given, "--steps", "2", "--backend", "numpy").exit_code == 0
    path = tmp_path / "run" / "checkpoint.npz"
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(arrays["about"].tobytes())
    assert about.pop("backend") == "numpy"
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **arrays)
    assert json.loads(run(*given, "--steps", "3").stdout)["backend"] == "numpy"


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_weights_of_a_run_are_run_on_every_backend(backend: str, tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    assert (
        run("train", spec, "--data", data, "-o", tmp_path / "run", "--steps", "3", "--backend", "numpy").exit_code == 0
    )
    inputs = tmp_path / "x.npz"
    np.savez(inputs, x=np.load(data)["x"][:5])
    found = {}
    for name in ("numpy", backend):
        given = ("--weights", tmp_path / "run/weights.safetensors", "--inputs", inputs, "-o", tmp_path / f"{name}.npz")
        done = run("run", spec, *given, "--backend", name)
        assert done.exit_code == 0, done.output
        assert ("backend: " in done.stderr) == (name == "auto")
        found[name] = np.load(tmp_path / f"{name}.npz")["logits"]
    np.testing.assert_allclose(found[backend], found["numpy"], rtol=1e-5, atol=1e-6)


def test_a_backend_that_cannot_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise Unavailable("there is no abacus: buy one")

    spec, data = normed(tmp_path)
    broken = BACKENDS["numpy"].__class__(**{**vars(BACKENDS["numpy"]), "runs_with": missing})
    monkeypatch.setitem(BACKENDS, "numpy", broken)
    done = run("train", spec, "--data", data, "-o", tmp_path / "run", "--backend", "numpy")
    assert done.exit_code == 1
    assert done.stderr == "Error: the backend numpy cannot be used: there is no abacus: buy one\n"
