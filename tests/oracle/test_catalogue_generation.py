"""Rows of the catalogue on causal models and on text written by them (chapter 8): properties, sampling, search."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import properties
import pytest
import torch
from catalogue import Array, model
from marks import rows
from properties import causality, equivariance, field_error, shift, shown, support
from scipy import stats
from torch.nn import functional as F

# Triton's interpreter must be chosen before triton is imported
os.environ["TRITON_INTERPRET"] = "1"

torch.set_num_threads(1)

ALL = ["numpy", "c", "triton"]
TEXT = Path("convolution/text.dsl")
CONTINUED = Path("convolution/continued_text.dsl")

#: three tokens: the beginning of a text, 0, and two words; which of them follows which
MARKOV = """
layer chain(token: i32[N, T] < 3) -> logits: [N, T, 3]:
    param P: [3, 3] ~ zeros
    logits[n, t, v] = log(P[token[n, t], v])

model written(prompt: i32[N, P] < 3, beams = 2, steps = 2, temperature = 1.0, end = -1) -> (
    likely: [N, P + steps], drawn: [N, P + steps], best: [N, beams, P + steps], log_p: [N, beams]
) where beams <= 3:
    use net = chain
    likely = continued(prompt, net, 3, steps, temperature = 0.0)
    drawn = continued(prompt, net, 3, steps, temperature = temperature, end = end)
    best, log_p = beam_search(prompt, net, 3, steps, beams = beams, end = end)
"""
#: the first word is 1 or 2 with .6 and .4; behind 1 both are as likely, behind 2 the word 1 has .9
CHAIN = np.array([[0.0, 0.6, 0.4], [0.0, 0.5, 0.5], [0.0, 0.9, 0.1]])


def of(spec: str, folder: Path, **settings: Any) -> Callable[[Array], Array]:
    """A model in NumPy, with parameters that are drawn, as a function of its input."""
    module = model(spec, folder, **settings)
    rng = np.random.default_rng(2)
    params = {name: rng.standard_normal(x.shape) for name, x in module.init(0).items()}
    return lambda x: module.forward(params, x)


def layer(text: str, folder: Path) -> Callable[[Array], Array]:
    """A layer from 2 channels to 2, for any length of 3 or more."""
    return of(f"model row(x: f64[N, T, 2]) -> y: [N, T, 2] where T >= 5:\n    y = x |> {text}\n", folder)


SERIES = np.random.default_rng(0).standard_normal((2, 12, 2))


# ---- what a result depends on


@rows("8.33", "8.34", "8.35", "8.36")
@pytest.mark.parametrize(
    "text", ["masked_conv1d(2, kernel = 5)", "masked_conv1d(2, dilation = 3)", "causal_conv1d(2, kernel = 3)",
             "causal_stack(2, depth = 3)", "causal_conv1d(4) |> masked_conv1d(2)", "conv1d(2, kernel = 1)"],
)  # fmt: skip
def test_causal_layers_see_nothing_that_comes_later(text: str, tmp_path: Path) -> None:
    centred = layer("conv1d(2, kernel = 3, pad = 1)", tmp_path)
    shown(lambda f: causality(f, SERIES), layer(text, tmp_path), centred)


def reach(function: Callable[[Array], Array], length: int) -> Array:
    """Which outputs depend on which inputs of a series."""
    x = np.random.default_rng(1).standard_normal((1, length, 2))
    return support(properties.jacobian(function, x), 1, 1, 3)


@rows("8.07", "8.26")
@pytest.mark.parametrize("rate", [1, 2, 4])
def test_a_dilated_kernel_sees_one_of_so_many_elements(rate: int, tmp_path: Path) -> None:
    def seen(rate: int) -> Callable[[int, int], bool]:
        return lambda s, t: abs(s - t) in (0, rate)

    found = reach(layer(f"conv1d(2, dilation = {rate}, pad = {rate})", tmp_path), 11)
    assert field_error(found, seen(rate)) == 0
    assert field_error(found, seen(3)) > 0


@rows("8.26")
def test_the_rate_of_a_dilation_does_not_change_the_parameters(tmp_path: Path) -> None:
    spec = "model row(x: f64[N, T, 2], r = 1) -> y: [N, T, 2]:\n    y = x |> conv1d(2, dilation = r, pad = r)\n"
    one, four = (model(spec, tmp_path, r=rate).PARAMS for rate in (1, 4))
    assert one == four


@rows("8.26")
def test_a_dilated_kernel_is_a_longer_one_with_zeros_between_its_taps(tmp_path: Path) -> None:
    params = np.random.default_rng(4).standard_normal((3, 2, 2))
    wide = np.zeros((5, 2, 2))
    wide[::2] = params
    spec = "model row(x: f64[N, T, 2], taps = 3, rate = 2) -> y: [N, T, 2]:\n"
    spec += "    use c = conv1d(2, kernel = taps, dilation = rate, pad = 2, bias = false)\n    y = c(x)\n"
    dilated, longer = model(spec, tmp_path), model(spec, tmp_path, taps=5, rate=1)
    np.testing.assert_allclose(
        dilated.forward({"c.K": params}, SERIES), longer.forward({"c.K": wide}, SERIES), rtol=1e-12
    )


@rows("8.27")
def test_rates_that_double_let_the_field_grow_exponentially_without_gaps(tmp_path: Path) -> None:
    for depth, field in ((1, 3), (2, 7), (3, 15)):
        found = reach(layer(f"dilated_stack(2, depth = {depth}, act = tanh)", tmp_path), 21)
        assert found[10].sum() == field == 1 + (3 - 1) * (2**depth - 1)
        assert found[10, 10 - field // 2 : 11 + field // 2].all()
    linear = reach(layer("conv1d(2, pad = 1) |> conv1d(2, pad = 1) |> conv1d(2, pad = 1)", tmp_path), 21)
    assert linear[10].sum() == 7


@rows("8.36")
def test_a_causal_stack_sees_the_last_2_to_the_depth_elements(tmp_path: Path) -> None:
    for depth in (1, 2, 3):
        found = reach(layer(f"causal_stack(2, depth = {depth}, act = tanh)", tmp_path), 12)
        assert field_error(found, lambda s, t, n=2**depth: 0 <= s - t < n) == 0  # type: ignore[misc]
        assert field_error(found, lambda s, t, n=2**depth + 1: 0 <= s - t < n) > 0  # type: ignore[misc]


@rows("8.34")
def test_weights_behind_the_mask_have_a_gradient_of_exactly_zero(tmp_path: Path) -> None:
    spec = "model row(x: f64[N, T, 2]) -> y: [N, T, 2]:\n    y = x |> masked_conv1d(2, kernel = 5)\n"
    spec += "train row(x, t: f64[N, T, 2]):\n    minimize mean_squared_error(row(x), t)\n    using sgd\n"
    module = model(spec, tmp_path)
    _, grads = module.loss_and_grad(module.init(0), SERIES, np.zeros_like(SERIES))
    weight = grads["masked_conv1d.W"]
    assert not weight[3:].any()
    assert np.all(weight[:3])  # (k + 1) c c' weights are left of (2k + 1) c c'
    assert weight[:3].size == 3 * 2 * 2


@rows("8.34")
def test_with_one_channel_the_masked_layer_is_a_lower_triangular_matrix(tmp_path: Path) -> None:
    f = of("model row(x: f64[N, T, 1]) -> y: [N, T, 1]:\n    y = x |> masked_conv1d(1, kernel = 5)\n", tmp_path)
    found = properties.jacobian(f, np.zeros((1, 6, 1))).reshape(6, 6)
    assert not np.triu(found, 1).any()
    assert np.diag(found).all()


@rows("8.07", "8.08")
def test_convolutions_in_one_and_three_dimensions_commute_with_shifts(tmp_path: Path) -> None:
    line = of(
        "model row(x: f64[N, T, 2]) -> y: [N, T, 2]:\n    param K: [3, 2, 2] ~ normal\n"
        "    y[n, t, o] = x[n, wrap(t + u - 1), c] * K[u, c, o]\n",
        tmp_path,
    )
    local = of(
        "model row(x: f64[N, 12, 2]) -> y: [N, 12, 2]:\n    param K: [12, 3, 2, 2] ~ normal\n"
        "    y[n, t, o] = x[n, wrap(t + u - 1), c] * K[t, u, c, o]\n",
        tmp_path,
    )
    shown(lambda f: equivariance(f, SERIES, shift(3, 1)), line, local)
    video = np.zeros((1, 8, 7, 7, 2))
    video[:, 1:4, 1:4, 1:4] = np.random.default_rng(0).standard_normal((1, 3, 3, 3, 2))
    space = of(
        "model row(x: f64[N, D, H, W, 2]) -> y: [N, D, H, W, 2]:\n"
        "    y = x |> conv3d(2, kernel = 3, pad = 1, bias = false)\n",
        tmp_path,
    )
    for axis in (1, 2, 3):  # the results lie inside before and after the shift, so that no border is cut

        def error(f: Callable[[Array], Array], axis: int = axis) -> float:
            return equivariance(f, video, shift(2, axis))

        shown(error, space, lambda x, axis=axis: np.cumsum(space(x), axis))  # type: ignore[misc]


@rows("8.03", "8.08")
def test_a_kernel_of_depth_1_convolves_each_frame_of_a_video_alone(tmp_path: Path) -> None:
    video = np.random.default_rng(3).standard_normal((2, 4, 5, 5, 2))
    kernel, flat = np.zeros((3, 3, 3, 2, 2)), np.random.default_rng(5).standard_normal((3, 3, 2, 2))
    kernel[1] = flat
    body = "    use c = {}(2, kernel = 3, pad = 1, bias = false)\n    y = c(x)\n"
    space = model("model row(x: f64[N, D, H, W, 2]) -> y: [N, D, H, W, 2]:\n" + body.format("conv3d"), tmp_path)
    plane = model("model row(x: f64[N, H, W, 2]) -> y: [N, H, W, 2]:\n" + body.format("conv2d"), tmp_path)
    frames = [plane.forward({"c.K": flat}, video[:, i]) for i in range(4)]
    np.testing.assert_allclose(space.forward({"c.K": kernel}, video), np.stack(frames, 1), rtol=1e-12)


#: sound in stereo by a kernel of 128 taps: how much the largest memory of the process grows, in MB
SOUND = """
import resource, sys
from pathlib import Path
import numpy as np
from catalogue import model

folder = Path(sys.argv[1])
for backend in "numpy", "c":
    module = model((folder / "sound.dsl").read_text(), folder, backend, "f32")
    x, params = np.ones((1, 200_000, 2), np.float32), module.init(0)
    module.loss_and_grad(params, x[:, :1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loss, grads = module.loss_and_grad(params, x)
    assert np.isfinite(loss)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
SOUND_SPEC = """
model sound(x: f32[N, T, 2]) -> y: [N, T - 127, 1] where T >= 128:
    y = x |> conv1d(1, kernel = 128)

train sound(x) where T >= 128:
    minimize mean(sound(x)^2)
    using sgd
"""


@rows("8.02")
def test_a_long_sound_needs_no_table_of_all_its_windows(tmp_path: Path) -> None:
    (tmp_path / "sound.dsl").write_text(SOUND_SPEC)
    paths = os.pathsep.join(str(x) for x in (Path(__file__).parents[1], Path(__file__).parents[2]))
    command, given = [sys.executable, "-c", SOUND, str(tmp_path)], {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    table = 200_000 * 128 * 2 * 4 / 2**20
    for grown in done.stdout.split():
        assert float(grown) < table / 8


# ---- forecasts


@rows("8.10")
def test_one_set_of_parameters_takes_series_of_any_length(tmp_path: Path) -> None:
    """Two layers and a mean: for a sequence alone, and for the same one with zeros behind it and a mask."""
    module = model(Path("convolution/padded.dsl"), tmp_path)
    params = {name: np.random.default_rng(6).standard_normal(x.shape) for name, x in module.init(0).items()}
    long, short = np.random.default_rng(7).standard_normal((2, 9, 4))
    short = short[:4]
    batch = np.stack([long, np.vstack([short, np.full((5, 4), 7.0)])])
    found = module.forward(params, batch, np.array([9, 4]))
    for x, y in ((long, found[0]), (short, found[1])):
        np.testing.assert_allclose(module.forward(params, x[None], np.array([len(x)]))[0], y, rtol=1e-12)
    assert not np.allclose(module.forward(params, batch, np.array([9, 9]))[1], found[1])


@rows("8.11")
def test_one_layer_on_padded_series_is_exact_and_two_are_not_without_a_mask(tmp_path: Path) -> None:
    f = layer("conv1d(2, pad = 1)", tmp_path)
    g = layer("conv1d(2, pad = 1) |> relu |> conv1d(2, pad = 1)", tmp_path)
    short = SERIES[:, :7]
    padded = np.concatenate([short, np.zeros((2, 5, 2))], 1)
    np.testing.assert_allclose(f(padded)[:, :7], f(short), rtol=1e-12)
    assert np.abs(g(padded)[:, :7] - g(short)).max() > 1e-3


@rows("8.29", "8.37", "8.39")
@pytest.mark.parametrize("backend", ALL)
def test_the_loss_at_all_positions_is_that_of_one_forecast_for_each_true_past(backend: str, tmp_path: Path) -> None:
    module = model(Path("convolution/forecast.dsl"), tmp_path, backend)
    params = module.init(1)
    x = np.random.default_rng(0).standard_normal((3, 9, 1))
    each = [np.mean((module.forward(params, x[:, :t])[:, -1] - x[:, t]) ** 2) for t in range(1, 9)]
    loss, _ = module.loss_and_grad(params, x)
    np.testing.assert_allclose(loss, np.mean(each), rtol=1e-12)


@rows("8.29", "8.38")
def test_a_forecast_of_a_sine_is_learnt_and_goes_on_by_itself(tmp_path: Path) -> None:
    forecast, ahead = (model(Path(f"convolution/{x}.dsl"), tmp_path) for x in ("forecast", "ahead"))
    series = np.sin(0.5 * np.arange(300))[:, None]
    batch = np.stack([series[i : i + 16] for i in range(0, 280, 5)])
    params = forecast.init(0)
    opt = forecast.init_opt(params)
    for _ in range(300):
        params, opt = forecast.train_step(params, opt, batch)
    # one value alone does not tell whether a sine rises or falls, so the first forecast keeps an error
    errors = ((forecast.forward(params, batch)[:, :-1] - batch[:, 1:]) ** 2).mean((0, 2))
    assert errors[0] > 0.05 and errors[4:].max() < 1e-3

    def astray(params: dict[str, Array]) -> float:
        return float(np.abs(ahead.forward(params, series[None, 100:112])[0] - series[112:136]).max())

    assert astray(params) < 0.1 < astray(forecast.init(0))


@rows("8.30")
def test_a_linear_forecast_is_a_power_of_the_companion_matrix(tmp_path: Path) -> None:
    spec = """
layer linear(x: [N, T, C]) -> y: [N, C]:
    param a: [T] ~ normal
    y[n, c] = a[t] * x[n, t, c]

model row(x: f64[N, 4, 1]) -> y: [N, 9, 1]:
    y = rollout(x, f = linear, steps = 9)
"""
    module = model(spec, tmp_path)
    a, x = np.array([0.3, -0.5, 0.2, 0.6]), np.random.default_rng(1).standard_normal(4)
    found = module.forward({"rollout.predict.a": a}, x[None, :, None])[0, :, 0]
    companion = np.vstack([np.eye(4)[1:], a])
    expected = [(np.linalg.matrix_power(companion, s) @ x)[-1] for s in range(1, 10)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@rows("8.38")
@pytest.mark.parametrize("backend", ALL)
def test_a_row_is_the_same_whatever_stands_behind_it(backend: str, tmp_path: Path) -> None:
    module = model(Path("convolution/forecast.dsl"), tmp_path, backend)
    params, rng = module.init(3), np.random.default_rng(0)
    known = rng.standard_normal((1, 2, 1))
    fillers = [np.zeros((1, 2, 1)), rng.standard_normal((1, 2, 1)), np.zeros((1, 0, 1))]
    read = [module.forward(params, np.concatenate([known, x], 1))[0, 1] for x in fillers]
    np.testing.assert_allclose(read[1], read[0], rtol=1e-12)
    np.testing.assert_allclose(read[2], read[0], rtol=1e-12)
    last = module.forward(params, np.concatenate([known, fillers[1]], 1))[0, 3]
    assert np.abs(last - module.forward(params, np.concatenate([known, fillers[0]], 1))[0, 3]).max() > 1e-4


# ---- text


@rows("8.43")
def test_the_probabilities_of_all_texts_sum_to_1(tmp_path: Path) -> None:
    module = model(TEXT, tmp_path, vocabulary=3)
    params = {name: 0.3 * np.random.default_rng(1).standard_normal(x.shape) for name, x in module.init(0).items()}
    every = np.array(list(itertools.product([0], *([range(3)] * 4))), np.int32)
    logits = torch.tensor(module.forward(params, every))
    score = model(
        "model row(logits: f64[N, 5, 3], token: i32[N, 5] < 3) -> p: [N]:\n"
        "    p = exp(log_probability(logits, token))\n",
        tmp_path,
    )
    p = score.forward({}, logits.numpy(), every)
    assert abs(p.sum() - 1) < 1e-12
    step = torch.log_softmax(logits, -1)[:, :-1].gather(2, torch.tensor(every[:, 1:, None]).long())[..., 0]
    np.testing.assert_allclose(np.log(p), step.sum(1), rtol=1e-10)


def torch_text(params: dict[str, Array], token: torch.Tensor) -> torch.Tensor:
    """The model of text.dsl."""
    p = {name.removeprefix("net."): torch.tensor(x) for name, x in params.items()}
    h = p["embedding.W"][token]
    for level in range(4):
        weight = p[f"causal_stack.causal_conv1d.{level}.K"].flip(0).permute(2, 1, 0)
        left = F.pad(h.mT, (2**level, 0))
        h = F.gelu(F.conv1d(left, weight, p[f"causal_stack.causal_conv1d.{level}.b"], dilation=2**level).mT)
    return h @ p["dense.W"] + p["dense.b"]


def torch_beams(params: dict[str, Array], prompt: list[int], steps: int, beams: int) -> list[tuple[float, list[int]]]:
    """A search over lists: each of the best texts with each next token, of which the best are kept."""
    kept: list[tuple[float, list[int]]] = [(0.0, prompt)]
    for _ in range(steps):
        every = []
        for score, text in kept:
            after = torch.log_softmax(torch_text(params, torch.tensor([text]))[0, -1], 0)
            every += [(score + float(x), [*text, v]) for v, x in enumerate(after)]
        kept = sorted(every, reverse=True)[:beams]
    return kept


@rows("8.31", "8.41", "8.47", "8.48")
@pytest.mark.parametrize("backend", ALL)
def test_prompts_are_continued_as_by_loops_over_lists(backend: str, tmp_path: Path) -> None:
    settings = {"vocabulary": 5, "steps": 4, "beams": 3, "temperature": 0.0}
    module = model(CONTINUED, tmp_path, backend, **settings)
    rng = np.random.default_rng(3)
    params = {name: 0.7 * rng.standard_normal(x.shape) for name, x in module.init(0).items()}
    prompts = np.array([[0, 3], [0, 1]], np.int32)  # both begin with the token 0, the beginning of a text
    found = module.forward(params, prompts)
    for n, prompt in enumerate(prompts.tolist()):
        text = list(prompt)
        for _ in range(4):
            text.append(int(torch_text(params, torch.tensor([text]))[0, -1].argmax()))
        assert found["drawn"][n].tolist() == text
        expected = torch_beams(params, prompt, 4, 3)
        assert found["best"][n].tolist() == [x for _, x in expected]
        np.testing.assert_allclose(found["log_p"][n], [x for x, _ in expected], rtol=1e-10)


@rows("8.47", "8.48")
@pytest.mark.parametrize("backend", ALL)
def test_a_search_finds_the_text_that_greedy_decoding_misses(backend: str, tmp_path: Path) -> None:
    module = model(MARKOV, tmp_path, backend)
    with np.errstate(all="ignore"):
        found = module.forward({"net.P": CHAIN}, np.zeros((1, 1), np.int32))
    assert found["likely"].tolist() == [[0, 1, 1]]  # with probability .6 * .5
    assert found["best"].tolist() == [[[0, 2, 1], [0, 1, 1]]]
    np.testing.assert_allclose(np.exp(found["log_p"]), [[0.36, 0.30]], rtol=1e-12)


@rows("8.48")
def test_one_beam_is_greedy_decoding_and_as_many_as_words_are_exact_for_two_steps(tmp_path: Path) -> None:
    chain = np.random.default_rng(0).dirichlet(np.ones(3), 3)
    one, all_ = (model(MARKOV, tmp_path, beams=x) for x in (1, 3))
    begin = np.zeros((1, 1), np.int32)
    found = one.forward({"net.P": chain}, begin)
    assert found["best"][:, 0].tolist() == found["likely"].tolist()
    p = {(0, a, b): chain[0, a] * chain[a, b] for a in range(3) for b in range(3)}
    best = sorted(p, key=lambda x: -p[x])[:3]
    assert all_.forward({"net.P": chain}, begin)["best"][0].tolist() == [list(x) for x in best]


@rows("8.17", "8.41", "8.48")
@pytest.mark.parametrize("backend", ALL)
def test_behind_the_end_of_a_text_stands_the_end_alone(backend: str, tmp_path: Path) -> None:
    module = model(MARKOV, tmp_path, backend, steps=5, end=2)
    chain = np.array([[0.0, 0.6, 0.4], [0.0, 0.3, 0.7], [0.0, 0.9, 0.1]])
    with np.errstate(all="ignore"):
        found = module.forward({"net.P": chain}, np.zeros((40, 1), np.int32), seed=4)
    ended = 0
    for text in [*found["drawn"].tolist(), *found["best"][0].tolist()]:
        if 2 in text:
            ended += text.index(2) < 5
            assert set(text[text.index(2) :]) == {2}
    assert ended > 10
    # the most probable ones: 1 and then the end, .6 * .7, and the end at once, .4
    assert found["best"][0].tolist() == [[0, 1, 2, 2, 2, 2], [0, 2, 2, 2, 2, 2]]
    np.testing.assert_allclose(np.exp(found["log_p"][0]), [0.42, 0.4], rtol=1e-12)


@rows("8.45", "8.46", "8.31")
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_texts_are_drawn_as_often_as_they_are_probable(temperature: float, tmp_path: Path) -> None:
    module = model(MARKOV, tmp_path, temperature=temperature)
    many = 20_000
    with np.errstate(all="ignore"):
        drawn = module.forward({"net.P": CHAIN}, np.zeros((many, 1), np.int32), seed=1)["drawn"]
    sharp = CHAIN ** (1 / temperature)
    sharp /= sharp.sum(1, keepdims=True)
    texts = [(0, a, b) for a in (1, 2) for b in (1, 2)]
    expected = many * np.array([sharp[0, a] * sharp[a, b] for _, a, b in texts])
    found = np.array([np.all(drawn == x, axis=1).sum() for x in texts])
    assert found.sum() == many
    assert stats.chisquare(found, expected).pvalue > 1e-3
    control = many * np.array([0.3, 0.3, 0.36, 0.04]) if temperature != 1 else np.full(4, many / 4)
    assert stats.chisquare(found, control).pvalue < 1e-9


@rows("8.45")
@pytest.mark.parametrize("backend", ["c", "triton"])
def test_the_same_seed_draws_the_same_text_on_all_backends(backend: str, tmp_path: Path) -> None:
    begin = np.zeros((30, 1), np.int32)
    with np.errstate(all="ignore"):
        first, again, other = (
            model(MARKOV, tmp_path, x, steps=6).forward({"net.P": CHAIN}, begin, seed=seed)["drawn"].tolist()
            for x, seed in (("numpy", 5), (backend, 5), (backend, 6))
        )
    assert first == again != other


@rows("8.51")
def test_a_text_behind_a_context_is_a_text_that_begins_with_it(tmp_path: Path) -> None:
    """p(x | c) = p(c x) / p(c), and with no context the model is that of the text alone."""
    module = model(TEXT, tmp_path, vocabulary=4)
    params = {name: 0.3 * np.random.default_rng(1).standard_normal(x.shape) for name, x in module.init(0).items()}

    def log_p(text: list[int], known: int) -> float:
        steps = torch.log_softmax(torch.tensor(module.forward(params, np.array([text], np.int32))[0]), 1)
        return float(sum(steps[t, text[t + 1]] for t in range(known - 1, len(text) - 1)))

    context, text = [0, 3, 1], [2, 2, 1]
    assert abs(log_p(context + text, 3) - (log_p(context + text, 1) - log_p(context, 1))) < 1e-12
    every = [log_p([*context, *x], 3) for x in itertools.product(range(4), repeat=3)]
    assert abs(np.exp(every).sum() - 1) < 1e-12
    assert abs(log_p([0, *text], 1) - log_p(context + text, 3)) > 1e-3
