"""Convolutions over lines that are long enough to be read in place: values and gradients are torch's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dslc import compile as compiled

torch = pytest.importorskip("torch")

#: two convolutions, so that the gradient by the input of one of them is needed
TWO = """
model two(
    x: f32[N, H, W, {channels}]
) -> y: [
    N,
    P = window_count(H, {kernel}, {stride}, {pad}, {dilation}, false),
    Q = window_count(W, {kernel}, {stride}, {pad}, {dilation}, false),
    {out},
] where H > 10, W > 10:
    h = x |> conv2d({middle}, {kernel}, stride = {stride}, pad = {pad}, dilation = {dilation})
    y = h |> conv2d({out}, 3, pad = 1)

train two(x):
    minimize mean[...](two(x)[...]^2)
    using sgd(lr = 0.1)
"""
PLAIN = {"channels": 3, "middle": 8, "out": 4, "kernel": 3, "stride": 1, "pad": 1, "dilation": 1}
CASES = {
    "same": {},
    "valid": {"pad": 0},
    "wide": {"kernel": 5, "pad": 3},
    "strided": {"stride": 2},
    "far_apart": {"stride": 3, "kernel": 2, "pad": 0},
    "dilated": {"dilation": 2, "pad": 2, "middle": 17},
    "one_channel": {"channels": 1, "kernel": 4, "pad": 2},
    "few_outputs": {"out": 2, "middle": 33},
    "deep": {"channels": 130, "middle": 5},
}


def by_torch(
    case: dict[str, int], params: dict[str, np.ndarray], x: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The values of the model, and the gradients of the mean of their squares."""
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in params.items()}

    def conv(x: torch.Tensor, name: str, **how: int) -> torch.Tensor:
        K, b = leaves[f"{name}.K"].permute(3, 2, 0, 1), leaves[f"{name}.b"]
        return torch.nn.functional.conv2d(x, K, b, **how)

    how = {"stride": case["stride"], "padding": case["pad"], "dilation": case["dilation"]}
    y = conv(conv(torch.tensor(x).permute(0, 3, 1, 2), "conv2d", **how), "conv2d2", padding=1)
    (y**2).mean().backward()
    return y.detach().permute(0, 2, 3, 1).numpy(), {name: leaf.grad.numpy() for name, leaf in leaves.items()}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", CASES)
def test_a_convolution_and_its_gradients_are_those_of_torch(name: str, dtype: str, tmp_path: Path) -> None:
    case = PLAIN | CASES[name]
    (tmp_path / "two.dsl").write_text(TWO.format(**case), encoding="utf-8")
    module = compiled(tmp_path / "two.dsl", backend="c", dtype=dtype)
    kind, close = (np.float32, 2e-5) if dtype == "f32" else (np.float64, 1e-12)
    rng = np.random.default_rng(0)
    params = {key: rng.standard_normal(value.shape).astype(kind) for key, value in module.init(0).items()}
    for N, H, W in ((2, 11, 17), (1, 12, 20), (2, 13, 70), (1, 64, 150)):
        x = rng.standard_normal((N, H, W, case["channels"])).astype(kind)
        y, grads = by_torch(case, {k: v.astype(np.float64) for k, v in params.items()}, x.astype(np.float64))
        found: list[np.ndarray] = []
        for threads in (1, 3):  # which share rows out at other places, with the same bits
            module.threads(threads)
            _, own = module.loss_and_grad(params, x)
            found.append(np.concatenate([module.forward(params, x).ravel(), *(v.ravel() for v in own.values())]))
        assert (found[0] == found[1]).all()
        assert np.abs(module.forward(params, x) - y).max() < close * np.abs(y).max()
        for key, value in grads.items():
            assert np.abs(own[key] - value).max() < close * np.abs(value).max(), key
