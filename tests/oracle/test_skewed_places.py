"""Reads at places that share variables: their adjoints, and the adjoints of these, are those of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_program
from programs import evaluate, sizes

from dslc.autodiff.reverse import gradients, ones
from dslc.builder.build import build
from dslc.frontend import check_text

#: the places of a 9 by 9 matrix that are read for i in 0..3, j in 0..3, k in 0..2
PLACES = [
    "i + j, j",
    "j, i + j",
    "i + j, 4 + i - j",
    "2*i + j, j",
    "j, 2*j + i",
    "2*i + j, 2*j + i",
    "2*i + 3*j, i + j",
    "i + k, i + j + k",
    "i + j + k, j + 2*k",
    "i + j, i + j",
    "i, i",
    "i + j, k",
    "2*i, 2*i + k",
    "8 - i - j, i + k",
]


@pytest.mark.parametrize("places", PLACES)
def test_adjoints_of_skewed_places(places: str) -> None:
    inner = [name for name in "ijk" if name in places]
    left = ", ".join(inner)
    text = f"""
fn f(x: f64[9, 9], w: f64[3, 3, 2]) -> loss: []:
    y[i: 3, j: 3, k: 2] = (x[{places}] else 0.5) * w[i, j, k]
    loss = sum[{left}, {", ".join(n for n in "ijk" if n not in inner)}](sin(y[i, j, k]) * (i + 2 * j - k))
""".replace(", ](", "](")
    checked = check_text(text)
    assert not checked.errors, [d.message for d in checked.errors]
    assert checked.program is not None
    instance = checked.program.definitions["f"]
    program = build(instance)
    rng = np.random.default_rng(0)
    values = {"x": rng.standard_normal((9, 9)), "w": rng.standard_normal((3, 3, 2))}
    sources = [program.inputs["x"], program.inputs["w"]]
    first = gradients({program.outputs["loss"]: ones(())}, sources)
    second = gradients({first[1]: ones((3, 3, 2))}, sources)
    found = evaluate(program, values, {"x": first[0], "w": first[1], "xx": second[0], "ww": second[1]})

    tensors = torch_program.as_tensors(values, ["x", "w"])
    (loss,), _ = torch_program.run(instance, tensors, sizes(program.inputs.values(), values))
    x, w = torch.autograd.grad(loss, [tensors["x"], tensors["w"]], create_graph=True)
    xx, ww = torch.autograd.grad(w.sum(), [tensors["x"], tensors["w"]])
    for name, expected in {"x": x, "w": w, "xx": xx, "ww": ww}.items():
        np.testing.assert_allclose(found[name], expected.detach().numpy(), rtol=1e-12, atol=1e-12, err_msg=name)
