"""The NumPy module of every spec agrees with the reference interpreter: loss, gradients and outputs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import load, sample, separate
from shipped import SMALL

from dslc import pipeline
from dslc.compiler import choose, compile_text
from dslc.frontend import check_file
from dslc.meaning.interpret import Interpreter

ROOT = Path(__file__).parents[2]
SPECS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "specs").glob("*/*.dsl"))

#: random draws are float32
ROUNDED = {"augmented", "mc_dropout", "flow"}
#: what is too large for a quick test, made narrower
SETTINGS: dict[str, dict[str, object]] = {
    **SMALL,
    "gpt12": {"vocabulary": 7, "context": 64, "width": 4, "heads": 2},
    "vit": {"side": 8, "width": 16, "depth": 2},
    "metaformer": {"side": 8, "width": 16},
    "mixer": {"side": 8, "width": 16},
}


@pytest.mark.wide(3)
@pytest.mark.parametrize("path", SPECS)
def test_the_module_of_a_spec_agrees_with_the_interpreter(path: str, tmp_path: Path) -> None:
    settings = SETTINGS.get(Path(path).stem, {})
    checked = check_file(ROOT / path, settings)
    assert checked.program is not None
    if not checked.program.models:
        return  # a file of layers for others to import
    model, train = choose(checked)
    module = load(compile_text(ROOT / path, settings=settings, dtype="f64"), tmp_path)
    tolerance = 1e-5 if Path(path).stem in ROUNDED else 1e-9
    rng = np.random.default_rng(0)

    program = pipeline.forward(model)
    unit = program.unit
    inputs, sizes = sample(unit, rng)
    params = separate(unit, inputs, unit.params)
    data = [inputs[k] for k, x in unit.inputs.items() if x.role == "input"]
    state = [separate(unit, inputs, unit.states)] if unit.states else []
    with np.errstate(all="ignore"):
        expected = Interpreter(inputs, sizes).run(dict(program.stages)["stabilise"])
        found = module.forward(params, *data, *state)
    found = found if isinstance(found, dict) else dict.fromkeys(expected, found)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)

    if train is None:
        return
    program = pipeline.training(train)
    unit = program.unit
    inputs, sizes = sample(unit, rng)
    trained = pipeline.trained(unit, train)
    with np.errstate(all="ignore"):
        wanted = Interpreter(inputs, sizes).run(dict(program.stages)["differentiate"])
        wanted = {k.removeprefix(pipeline.GRADIENT): v for k, v in wanted.items()}
        data = [inputs[k] for k, x in unit.inputs.items() if x.role == "input"]
        state = [separate(unit, inputs, unit.states)] if unit.states else []
        params = separate(unit, inputs, unit.params)
        loss, by_name, _, states = module.loss_grad_metrics(params, *data, *state)
        next_states = {k: v for k, v in wanted.items() if k.startswith(pipeline.STATE)}
        updated = separate(unit, {k.removeprefix(pipeline.STATE): v for k, v in next_states.items()}, unit.states)
    gradients = separate(unit, wanted, trained)
    np.testing.assert_allclose(loss, wanted["loss"], rtol=tolerance)
    assert set(by_name) == set(gradients)
    for name, value in {**gradients, **updated}.items():
        given = by_name[name] if name in by_name else states[name]
        np.testing.assert_allclose(given, value, rtol=tolerance, atol=tolerance, err_msg=name)


def test_a_module_runs_without_dslc(tmp_path: Path) -> None:
    (tmp_path / "mlp.py").write_text(compile_text(ROOT / "specs/mlp/mlp.dsl"), encoding="utf-8")
    script = (
        "import sys, numpy as np\n"
        "sys.modules['dslc'] = None\n"
        "import mlp\n"
        "p = mlp.init(0); o = mlp.init_opt(p)\n"
        "x = np.zeros((3, 64), np.float32); y = np.array([0, 1, 2])\n"
        "p, o = mlp.train_step(p, o, x, y)\n"
        "print(mlp.forward(p, x).shape, o['step'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(3, 10) 1", done.stderr


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    module = load(compile_text(ROOT / "specs/mlp/mlp.dsl"), tmp_path)
    params = module.init(0)
    with pytest.raises(ValueError, match="x: expected 64 along axis 1, found 63"):
        module.forward(params, np.zeros((2, 63)))
    with pytest.raises(ValueError, match=r"label: expected 0 <= value < 10, found 10 at \(1,\)"):
        module.loss_and_grad(params, np.zeros((2, 64)), np.array([0, 10]))
    with pytest.raises(TypeError, match="label: expected int64, found float64"):
        module.loss_and_grad(params, np.zeros((2, 64)), np.zeros(2))


def test_float32_stays_float32(tmp_path: Path) -> None:
    module = load(compile_text(ROOT / "specs/mlp/mlp.dsl"), tmp_path)
    params = module.init(0)
    x = np.zeros((2, 64), np.float32)
    assert module.forward(params, x).dtype == np.float32
    _, grads = module.loss_and_grad(params, x, np.array([0, 1]))
    assert {g.dtype for g in grads.values()} == {np.dtype(np.float32)}


def test_naive_formulas_are_stable(tmp_path: Path) -> None:
    spec = tmp_path / "naive.dsl"
    spec.write_text(
        "model naive(x: f32[N, K], z: f32[N]) -> (p: [N, K], lse: [N], sp: [N], ls: [N], small: [N]):\n"
        "    p[n, k] = exp(x[n, k]) / sum[j](exp(x[n, j]))\n"
        "    lse[n] = log(sum[k](exp(x[n, k])))\n"
        "    sp = log(1 + exp(z))\n"
        "    ls = log(1 / (1 + exp(-z)))\n"
        "    small = log(1 + z * 1e-30)\n",
        encoding="utf-8",
    )
    module = load(compile_text(spec), tmp_path)
    x = np.array([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4]], np.float32)
    z = np.array([1e3, -1e3], np.float32)
    out = module.forward({}, x, z)
    np.testing.assert_allclose(out["p"], [[1, 0, 0], [1 / 3] * 3], rtol=1e-6)
    np.testing.assert_allclose(out["lse"], [1e4, -1e4 + np.log(3)], rtol=1e-6)
    np.testing.assert_allclose(out["sp"], [1e3, 0])
    np.testing.assert_allclose(out["ls"], [0, -1e3])
    np.testing.assert_allclose(out["small"], z * 1e-30, rtol=1e-6)


def test_gradients_that_are_views_update_their_parameters(tmp_path: Path) -> None:
    module = load(compile_text(ROOT / "specs/mlp/xor.dsl", "numpy"), tmp_path)
    real = module.loss_grad_metrics

    def transposed(*arguments: Any, **options: Any) -> Any:
        loss, grads, *rest = real(*arguments, **options)
        return loss, {name: np.array(g, order="F") for name, g in grads.items()}, *rest

    updated = []
    for function in (real, transposed):
        module.loss_grad_metrics = function
        params = module.init(0)
        x = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
        updated.append(module.train_step(params, module.init_opt(params), x, np.ones(3, np.float32))[0])
    for name, value in updated[0].items():
        np.testing.assert_array_equal(updated[1][name], value, err_msg=name)
