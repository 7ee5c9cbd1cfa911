"""Names of a training and of its model: what is one program must be told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dslc
from dslc.frontend import check_text


def errors(text: str) -> list[str]:
    return [d.message for d in check_text(text).errors]


MODEL = """\
model m(x: [N, 3]) -> y: [N, 3]:
    param target: [3] ~ ones
    h = dense(x, 3)
    y[n, k] = h[n, k] * target[k]
    expose h

"""


@pytest.mark.point("expose")
@pytest.mark.parametrize(
    ("name", "train"),
    [
        ("target", "train m(x, target: [N, 3]):\n    minimize mean((m(x) - target)^2)\n"),
        ("h", "train m(x):\n    h = m(x)\n    expose h\n    minimize mean(h^2)\n"),
        ("loss", "train m(x):\n    loss = mean(m(x)^2)\n    expose loss\n    minimize 2 * loss\n"),
        ("far", "train m(x):\n    far = m(x)\n    expose far\n    metric far = mean(far)\n    minimize mean(far^2)\n"),
    ],
)
def test_a_name_of_a_training_that_its_model_has_is_refused(name: str, train: str) -> None:
    """An argument called as a parameter took the parameter's place; of two results of one name one was lost."""
    assert errors(MODEL + train + "    using sgd(lr = 0.1)\n") == [f"`{name}` is defined twice"]


@pytest.mark.point("3")
@pytest.mark.parametrize("head", ["dense(m(x), 3)", "m(dense(x, 3))"])
def test_a_layer_that_a_training_calls_has_parameters_of_its_own(tmp_path: Path, head: str) -> None:
    """Not those of the layer of the same name in the model."""
    file = tmp_path / "m.dsl"
    file.write_text(f"{MODEL}train m(x):\n    minimize mean({head}^2)\n    using sgd(lr = 0.1)\n", encoding="utf-8")
    module = dslc.compile(file, dtype="f64")
    assert [n for n in module.PARAMS if n.endswith("W")] in (["dense.W", "dense2.W"], ["dense2.W", "dense.W"])
    params, x = module.init(), np.random.default_rng(0).standard_normal((4, 3))
    inner = {n: params[f"dense.{n}"] for n in "Wb"}
    outer = {n: params[f"dense2.{n}"] for n in "Wb"}
    first, second = (inner, outer) if head.startswith("dense") else (outer, inner)
    h = x @ first["W"] + first["b"]
    if head.startswith("dense"):
        wanted = (h * params["target"]) @ second["W"] + second["b"]
    else:
        wanted = (h @ second["W"] + second["b"]) * params["target"]
    assert np.isclose(module.loss_and_grad(params, x)[0], np.mean(wanted**2), rtol=1e-12)


@pytest.mark.point("3")
def test_numbered_calls_do_not_take_the_names_of_other_layers(tmp_path: Path) -> None:
    file = tmp_path / "m.dsl"
    file.write_text(
        "layer dense2(x: [N, K]) -> y: [N, K]:\n"
        "    param W: [K, K] ~ normal\n"
        "    y[n, k] = x[n, j] * W[j, k]\n\n"
        "model m(x: [N, 3]) -> y: [N, 3]:\n"
        "    use dense3 = dense2\n"
        "    y = x |> dense(3) |> dense(3) |> dense(3) |> dense2 |> dense3\n",
        encoding="utf-8",
    )
    names = [n for n in dslc.compile(file).PARAMS if n.endswith("W")]
    assert names == ["dense.W", "dense2.W", "dense4.W", "dense22.W", "dense3.W"]
