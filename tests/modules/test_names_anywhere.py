"""Names of a spec may be words of Python, NumPy, torch, C or the module itself: they keep their meaning."""

from __future__ import annotations

import keyword
import symtable
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_backends import BACKENDS, given, module_of
from dslc.backends.numpy import names
from dslc.backends.triton import frame, text

from dslc.compiler import compile_text
from dslc.frontend import check_text

Array = Any
SPECS = Path(__file__).parents[2] / "specs"

INPUT_AND_SIZE = """
model m(x: f32[{0}, 4], {1}: f32[{0}, 3]) -> y: [{0}, 3] where {0} < 20:
    param w: [4, 3]
    y[n, k] = softmax[k](x[n, j] * w[j, k]) * {0} + max[m](x[m, 0]) + {1}[n, k]

train m(x: f32[{0}, 4], {1}: f32[{0}, 3], target: f32[{0}, 3]):
    minimize sum((m(x, {1}) - target)^2) / {0}
    using sgd(lr = 0.1)
"""


@pytest.mark.point("21")
@pytest.mark.parametrize(
    ("size", "name"),
    [("np", "params"), ("range", "opt"), ("seed", "sum"), ("entry", "sgd_update"), ("N", "N_all"),
     ("params", "params_"), ("id", "stored"), ("refuse", "forward"), ("grads", "loss"), ("math", "found")],
)  # fmt: skip
def test_inputs_and_sizes_have_any_name_on_numpy(size: str, name: str, tmp_path: Path) -> None:
    module = module_of(INPUT_AND_SIZE.format(size, name), "numpy", tmp_path)
    rng = np.random.default_rng(0)
    x, z, target = (rng.normal(size=(5, k)).astype(np.float32) for k in (4, 3, 3))
    params = module.init()
    e = np.exp(x @ params["w"])
    y = e / e.sum(1, keepdims=True) * 5 + x[:, 0].max() + z
    np.testing.assert_allclose(module.forward(params, x, z), y, rtol=1e-5)
    opt = module.init_opt(params)
    module.train_step(params, opt, x, z, target)
    np.testing.assert_allclose(opt["loss"], ((y - target) ** 2).sum() / 5, rtol=1e-5)
    with pytest.raises(ValueError, match=f"{name}: expected {size} = 5 along axis 0, as in x, found 1"):
        module.forward(params, x, z[:1])
    with pytest.raises(ValueError, match=f"needs {size} < 20, found {size} = 20"):
        module.forward(params, np.ones((20, 4), np.float32), np.ones((20, 3), np.float32))


# ---- every place of a name, with every word

#: words of Python, of packages, of C, and of modules on both backends beside those that their tables list
SPELLED = """
id len range sum max min print type list dict set str int float abs any all zip open input eval exec object super iter
next slice tuple enumerate map filter hash vars dir repr round pow sorted property ValueError self

numpy np math os json threading functools torch triton tl sys re struct zipfile Path dtype device array float32 arange
einsum nn cuda autograd Tensor libdevice constexpr

int double float static struct auto register void char const extern volatile restrict main inline

params opt seed space team grads states loss metrics stored cache positions length step grad value name y N_all PARAMS
STATE DTYPE FLOAT MANIFEST forward evaluate init init_opt init_state train_step loss_and_grad loss_grad_metrics save
load load_state update flat arrays parts held new part number rows columns batch h W peak sgd_update forward_of_rows
own_update m BLOCK BLOCK_ROWS KERNEL TENSORS ORDER INPUTS OUTPUTS Module Apply ctx saved tensors addresses table
programs default_device gradient_norm adjoint row_mask base x_ptr y_kernel batch_size N_size params_ np_ d_x d_w total
w2 x2 l i options inputs results
"""
RUNTIME = sorted({*names.OWN, *text.HOST, *frame.RESERVED})
#: words of the language, and those that the specs here have themselves
KEYWORDS = {"reversed", "param", "state", "training"}
OF_THE_SPEC = {"x", "w", "N", "n", "k"}
WORDS = [
    word
    for word in dict.fromkeys([*SPELLED.split(), *RUNTIME])
    if not keyword.iskeyword(word) and word not in KEYWORDS | OF_THE_SPEC
]

MODEL = """{before}
model {model}(x: f32[N, 3]{inputs}) -> {outputs}:
    param w: [3]{declared}
    {y}[n, k] = x[n, k] * w[k]{added}{after}

train {model}(x: f32[N, 3]{inputs}, target: f32[N, 3]):
    minimize mean(({model}({given}){part} - target)^2){metrics}
    using {using}
"""


@dataclass
class Case:
    """A spec with words at one place: y = x w + what `rest` says of x, the other inputs and the parameters."""

    text: str
    rest: Callable[[Array, Sequence[Array], dict[str, Array]], Any] = lambda x, others, params: 0
    others: Sequence[tuple[int, ...]] = ()
    output: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    state: dict[str, float] = field(default_factory=dict)
    lr: float = 0.1


def case(place: str, words: Sequence[str]) -> Case:
    """Words at a place, each with a factor of its own so that none can stand for another."""
    parts = dict.fromkeys(("before", "inputs", "declared", "added", "after", "metrics", "part"), "")
    parts |= {"model": "own_model", "outputs": "z_: [N, 3]", "y": "z_", "given": "x", "using": "sgd(lr = 0.1)"}
    count = {word: k + 1.0 for k, word in enumerate(words)}
    made = Case("")

    def each(line: str) -> str:
        return "".join(line.format(word, c=c) for word, c in count.items())

    match place:
        case "definition":
            parts["before"] = each("\nfn {0}(u_) = u_ + {c}\n")
            parts["added"] = each(" + {0}(0.0)")
            made.rest = lambda *_: sum(count.values())
        case "model":
            parts["model"] = words[0]
        case "layer" | "use":
            layer = "\nlayer {0}(u_: [N, 3]) -> v_: [N, 3]:\n    param b_: [3]\n    v_[n, k] = u_[n, k] + b_[k]\n"
            parts["before"] = each(layer) if place == "layer" else layer.format("shift_")
            parts["declared"] = each("\n    use {0} = shift_()") if place == "use" else ""
            parts["declared"] += each("\n    out_{c:.0f} = {0}(x)")
            parts["added"] = each(" + {c} * out_{c:.0f}[n, k]")
            made.rest = lambda x, _, params: sum(c * (x + params[f"{n}.b_"]) for n, c in count.items())
        case "input":
            parts["inputs"], parts["added"] = each(", {0}: f32[N, 3]"), each(" + {c} * {0}[n, k]")
            parts["given"] = f"x{each(', {0}')}"
            made.others = [(4, 3)] * len(words)
            made.rest = lambda x, others, _: sum(c * o for c, o in zip(count.values(), others, strict=True))
        case "size":
            parts["inputs"] = each(", in_{c:.0f}: f32[{0}, 3]")
            parts["added"] = each(" + sum[j](in_{c:.0f}[j, k]) * {0}")
            parts["given"] = f"x{each(', in_{c:.0f}')}"
            made.others = [(2 + k % 3, 3) for k in range(len(words))]
            made.rest = lambda x, others, _: sum(o.sum(0) * len(o) for o in others)
        case "parameter":
            parts["declared"], parts["added"] = each("\n    param {0}: [3]"), each(" + {c} * x[n, k] * {0}[k]")
            made.rest = lambda x, _, params: sum(c * x * params[n] for n, c in count.items())
        case "state":
            parts["declared"] = each("\n    state {0}: [3] = 0.5") + "\n    training:"
            parts["declared"] += each("\n        {0} <- 0.5 * {0} + {c}")
            parts["added"] = each(" + {0}[k]")
            made.state = {n: 0.25 + c for n, c in count.items()}
            made.rest = lambda x, others, _: sum(made.state.values()) if others else 0.5 * len(words)
        case "local value":
            chain = ["x", *words]
            lines = (f"\n    {b}[n, k] = {a}[n, k] * 0.5 + {count[b]}" for a, b in pairwise(chain))
            parts["declared"], parts["added"] = "".join(lines), f" + {words[-1]}[n, k]"
            made.rest = lambda x, *_: reduce(lambda v, c: v * 0.5 + c, count.values(), x)
        case "index":
            parts["declared"] = each("\n    a_{c:.0f}[{0}, j_] = {c} * x[{0}, j_]")
            parts["added"] = each(" + a_{c:.0f}[n, k] + sum[{0}](x[n, {0}])")
            made.rest = lambda x, *_: sum(count.values()) * x + len(words) * x.sum(1, keepdims=True)
        case "output":
            parts["outputs"] = f"(z_: [N, 3]{each(', {0}: [N, 3]')})"
            parts["after"], parts["part"] = each("\n    {0}[n, k] = {c} * x[n, k]"), ".z_"
            made.output = "z_"
        case "metric":
            parts["metrics"] = each("\n    metric {0} = {c} * mean(x)")
            made.metrics = dict(count)
        case "hyper-parameter":
            parts["before"] = "".join(f"\nlayer plus_{c:.0f}(u_: [N, 3], {n} = {c}) -> v_: [N, 3]:\n"
                                      f"    v_[n, k] = u_[n, k] + {n}\n" for n, c in count.items())  # fmt: skip
            parts["declared"] = each("\n    out_{c:.0f} = plus_{c:.0f}(x, {0} = {c} * 2)")
            parts["added"] = each(" + out_{c:.0f}[n, k]")
            made.rest = lambda x, *_: sum(x + 2 * c for c in count.values())
        case "slot" | "hyper-parameter of an optimizer":
            slots = each("\n    slot {0} = 0") if place == "slot" else ""
            update = each(" + 0.1 * {0}") if place == "slot" else each(" - 0.1 * {0} * grad")
            after = each("\n    {0} <- {c} * grad") if place == "slot" else ""
            hyper = each(", {0} = 0.0") if place != "slot" else ""
            parts["before"] = (
                f"\noptimizer own(lr_ = 0.1{hyper}):{slots}\n    param <- param - lr_ * grad{update}{after}\n"
            )
            given = each(", {0} = {c}") if hyper else ""
            parts["using"] = f"own(lr_ = 0.1{given})"
            made.lr = 0.1 + 0.1 * sum(count.values()) if hyper else 0.1
        case "optimizer":
            parts["before"] = f"\noptimizer {words[0]}(lr_ = 0.1):\n    param <- param - lr_ * grad\n"
            parts["using"] = f"{words[0]}(lr_ = 0.1)"
    made.text = MODEL.format(**parts)
    return made


PLACES = [
    "definition", "model", "layer", "use", "input", "size", "parameter", "state", "local value", "index", "output",
    "metric", "hyper-parameter", "slot", "hyper-parameter of an optimizer", "optimizer",
]  # fmt: skip
#: of these a spec has one
ALONE = ("model", "optimizer")


#: what `check` refuses at a place: what is built into the language, what is kept under that name
BUILT_IN = {"sum", "max", "min", "float", "any", "all", "einsum", "grad", "logdet", "matexp", "solve", "top_k"}
REFUSED = {
    "metric": {"loss"},
    "slot": {"seed", "loss", "metrics", "step", "grad"},
    "hyper-parameter of an optimizer": {"step", "grad"},
}


def runs(made: Case, folder: Path) -> None:
    """The NumPy module computes what the formula says: forward, loss, gradient, a step."""
    module = module_of(made.text, "numpy", folder)
    rng = np.random.default_rng(0)
    x, target, *others = (rng.normal(size=s).astype(np.float32) for s in ((4, 3), (4, 3), *made.others))
    params = {k: rng.normal(size=v.shape).astype(np.float32) for k, v in module.init().items()}
    state = [module.init_state()] if made.state else []
    y = x * params["w"] + made.rest(x, [] if state else others, params)
    found = module.forward(params, x, *others, *state)
    np.testing.assert_allclose(found[made.output] if made.output else found, y, rtol=2e-4, atol=1e-4)
    if state:
        y = x * params["w"] + made.rest(x, [x], params)
    loss, grads = module.loss_and_grad(params, x, *others, target, *state)
    np.testing.assert_allclose(loss, ((y - target) ** 2).mean(), rtol=1e-3)
    grad = (2 * (y - target) * x).sum(0) / y.size
    np.testing.assert_allclose(grads["w"], grad, rtol=1e-3, atol=1e-3)
    opt, before = module.init_opt(params), params["w"].copy()
    module.train_step(params, opt, x, *others, target)
    np.testing.assert_allclose(params["w"], before - made.lr * grad, rtol=1e-3, atol=1e-3 * made.lr * 10)
    for name, c in made.metrics.items():
        np.testing.assert_allclose(opt["metrics"][name], c * x.mean(), rtol=1e-4, atol=1e-5)
    for name, c in made.state.items():
        np.testing.assert_allclose(opt["state"][name], np.full(3, c), rtol=1e-5)


def groups(place: str, size: int) -> list[list[str]]:
    """The words that may stand at a place, so many for a spec."""
    never = REFUSED.get(place, BUILT_IN if place in ("definition", "model", "layer", "optimizer") else set())
    words = [word for word in WORDS if word not in never]
    size = 1 if place in ALONE else size
    return [words[k :: -(-len(words) // size)] for k in range(-(-len(words) // size))]


def written(made: Case, folder: Path) -> None:
    """Triton's module is text in which no name is missing; to run it takes long."""
    (folder / "spec.dsl").write_text(made.text, encoding="utf-8")
    compile(compile_text(folder / "spec.dsl", "triton"), "spec", "exec")


@pytest.mark.wide(2)
@pytest.mark.point("21")
@pytest.mark.parametrize("place", PLACES)
def test_a_share_of_words_keeps_its_meaning_at_every_place(place: str, tmp_path: Path) -> None:
    chosen = groups(place, 40)
    for words in chosen[:: len(chosen) // 3] if place in ALONE else chosen[PLACES.index(place) % len(chosen) :][:1]:
        runs(case(place, words), tmp_path)
    if place in ("input", "size", "parameter", "output"):
        written(case(place, groups(place, 20)[0]), tmp_path)


@pytest.mark.long
@pytest.mark.point("21")
@pytest.mark.parametrize("backend", [runs, written])
@pytest.mark.parametrize("place", PLACES)
def test_every_word_keeps_its_meaning_at_every_place(
    place: str, backend: Callable[[Case, Path], None], tmp_path: Path
) -> None:
    for words in groups(place, 40):
        backend(case(place, words), tmp_path)


@pytest.mark.point("21")
@pytest.mark.parametrize(("place", "word"), [(p, w) for p, words in REFUSED.items() for w in sorted(words)])
def test_a_word_that_cannot_keep_its_meaning_is_refused_by_check(place: str, word: str) -> None:
    errors = check_text(case(place, [word]).text).errors
    assert errors and f"`{word}`" in errors[0].message


def read_as_globals(table: symtable.SymbolTable) -> set[str]:
    own = {x.get_name() for x in table.get_symbols() if x.is_global()}
    return own.union(*(read_as_globals(x) for x in table.get_children()))


@pytest.mark.point("21")
@pytest.mark.parametrize("spec", ["linear/nearest", "linear/survival"])
def test_all_that_functions_with_names_of_a_spec_read_is_listed(spec: str) -> None:
    """A name that is not listed could be hidden by an input or a size of that name."""
    path = next(SPECS.rglob(f"{spec.split('/')[1]}.dsl"))
    table = symtable.symtable(compile_text(path, "numpy"), "module", "exec")
    of_the_spec = ("forward", "evaluate", "loss_grad_metrics", "train_step", "init_cache", "step")
    for function in table.get_children():
        if function.get_name().removesuffix("_of_rows") in of_the_spec:
            found = {x for x in read_as_globals(function) if not x.endswith(("_update", "_of_rows"))}
            assert found <= names.OWN


@pytest.mark.point("21")
def test_inputs_that_differ_by_an_ending_stay_two_on_triton(tmp_path: Path) -> None:
    spec = """
model m(params: f32[batch, 3], params_: f32[batch, 3], batch_size: f32[3]) -> y: [batch, 3]:
    y[n, k] = params[n, k] * 2 + params_[n, k] * batch_size[k] * batch
"""
    module = module_of(spec, "triton", tmp_path)
    a, b, c = np.ones((2, 3), np.float32), np.full((2, 3), 3, np.float32), np.full(3, 5, np.float32)
    found = module.forward({}, *(given(x, "triton") for x in (a, b, c)))
    np.testing.assert_array_equal(np.asarray(found), a * 2 + b * c * 2)


@pytest.mark.point("21")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", ["positions", "length"])
def test_sizes_called_like_entries_of_a_cache_are_kept_beside_them(size: str, backend: str, tmp_path: Path) -> None:
    spec = f"""
model m(x: f32[{size}, T, 3]) -> y: [{size}, T, 3]:
    a[n, t, s] = softmax[s](x[n, t, k] * x[n, s, k] if s <= t else -inf)
    y[n, t, k] = a[n, t, s] * x[n, s, k]
"""
    module = module_of(spec, backend, tmp_path)
    x = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
    cache = module.init_cache({}, **{size: 2, "room" if size == "length" else "length": 3})
    for t in range(3):
        y, cache = module.step({}, cache, given(x[:, t], backend))
        e = np.exp(np.einsum("nk,nsk->ns", x[:, t], x[:, : t + 1]))
        wanted = np.einsum("ns,nsk->nk", e / e.sum(1, keepdims=True), x[:, : t + 1])
        np.testing.assert_allclose(np.asarray(y), wanted, rtol=1e-5, atol=1e-6)
