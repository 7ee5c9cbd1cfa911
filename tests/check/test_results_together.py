"""One name for all results of a call: `r = f(x)`, then `r.loss`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from natural import BACKENDS, agree, normal

from dslc.compiler import compile_text, imported
from dslc.frontend import check_text

PARTS = """fn parts(x: [N, K]) -> (bent: [N, K], power: [N]):
    bent = tanh(x)
    power[n] = sum[k](x[n, k]^2)

"""


def twice(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * (x**2).sum(1, keepdim=True) + torch.tanh(x)[:, :1]


def again(x: torch.Tensor) -> torch.Tensor:
    total, h = torch.zeros(x.shape[0], dtype=x.dtype), x
    for _ in range(3):
        total, h = total + (h**2).sum(1), torch.tanh(h)
    return h * total[:, None]


def along(x: torch.Tensor) -> torch.Tensor:
    h = [torch.tanh(x[:, 0])]
    for t in range(1, x.shape[1]):
        step = x[:, t] + h[-1]
        h.append(torch.tanh(step) / (1 + (step**2)))
    return torch.stack(h, 1)


def largest(x: torch.Tensor) -> torch.Tensor:
    values, places = torch.topk(x, 2, dim=1)
    return values * (1 + places)


CASES: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "read as wholes and by places": (
        PARTS
        + """fn f(x: [N, K]) -> y: [N, K]:
    r = parts(x)
    r_bent = 7 * x
    y[n, k] = r.bent[n, k] * r.power[n] + r.bent[n, 0] + 0 * r_bent[n, k]
""",
        twice,
    ),
    "a new one in each pass of a loop": (
        PARTS
        + """fn f(x: [N, K]) -> y: [N, K]:
    h = x
    total[n] = 0 * x[n, 0]
    for l in 0..3:
        r = parts(h)
        h = r.bent
        total = total + r.power
    y[n, k] = h[n, k] * total[n]
""",
        again,
    ),
    "in a scan": (
        """fn step(a: [N], b: [N]) -> (total: [N], bent: [N]):
    total = a + b
    bent = tanh(total)

fn f(x: [N, T]) -> y: [N, T]:
    scan t:
        r = step(x[:, t], y[:, t-1])
        y[n, t] = r.bent[n] / (1 + r.total[n]^2) if t > 0 else r.bent[n]
    start y = 0
""",
        along,
    ),
    "an operation": (
        """fn f(x: [N, K]) -> y: [N, 2] where K >= 2:
    value[n, j], place[n, j] = top_k[k -> j: 2](x[n, k])
    r = pair(value, place)
    y[n, j] = r.a[n, j] * (1 + r.b[n, j])

fn pair(a_: [N, J], b_: i64[N, J]) -> (a: [N, J], b: i64[N, J]):
    a = a_
    b = b_
""",
        largest,
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_results_with_one_name_are_those_of_the_call(case: str, backend: str, tmp_path: Path) -> None:
    text, meaning = CASES[case]
    agree(text, meaning, {"x": normal(3, 4)}, tmp_path, backend)


def test_a_training_takes_its_loss_and_metrics_from_one_call(tmp_path: Path) -> None:
    spec = tmp_path / "together.dsl"
    model = """model m(x: f32[N, 3]) -> (y: [N, 2], loss: []):
    y = dense(x, 2)
    loss = mean(y^2)

train m(x):
"""
    ways = [
        "    minimize m(x).loss\n    metric largest = max(m(x).y)\n    using sgd(lr = 0.1)\n",
        "    r = m(x)\n    minimize r.loss\n    metric largest = max(r.y)\n    using sgd(lr = 0.1)\n",
    ]
    modules = []
    for way in ways:
        spec.write_text(model + way, encoding="utf-8")
        modules.append(imported(compile_text(spec, "numpy", {}), "together"))
    x, params = normal(4, 3).astype("float32"), modules[0].init(seed=0)
    first, second = (module.loss_grad_metrics(params, x) for module in modules)
    assert str(first) == str(second)


@pytest.mark.parametrize(
    ("line", "code", "help"),
    [
        ("y = r", "E0507", "take one: `r.bent` or `r.power`"),
        ("y = r + 1", "E0414", "take one by its name: `r.bent` or `r.power`"),
        ("y[n, k] = r[n, k]", "E0414", "take one by its name: `r.bent` or `r.power`"),
        ("y = r.powr", "E0415", "did you mean `power`?"),
        ("y = r.bent.W", "E0415", "it is one value; `r` has `bent` and `power`"),
        ("y = r.bent.power", "E0415", "it is one value; `r` has `bent` and `power`"),
    ],
)
def test_misuse_is_told_with_the_names(line: str, code: str, help: str) -> None:
    text = PARTS + f"fn f(x: [N, K]) -> y: [N, K]:\n    r = parts(x)\n    {line}\n"
    (found,) = check_text(text, "misuse.dsl").diagnostics
    assert (found.code, help in (found.help or "")) == (code, True), found.help


def test_results_of_a_call_for_each_row_are_named_one_by_one() -> None:
    stats = "fn stats(x: [K]) -> (mu: [], peak: []):\n    mu = mean(x)\n    peak = max(x)\n\n"
    text = f"{stats}fn f(x: [N, K]) -> y: [N]:\n    {{}} = stats(x[n, :])\n    y[n] = {{}} * {{}}\n"
    (found,) = check_text(text.format("r[n]", "r[n].mu", "r[n].peak"), "rows.dsl").diagnostics
    assert found.help is not None and found.help.startswith("name every result: `mu[n], peak[n] = ...`; or take one")
    assert not check_text(text.format("mu[n], peak[n]", "mu[n]", "peak[n]"), "rows.dsl").diagnostics
