"""How generated NumPy modules read: short, nothing computed in vain."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from shipped import text_of

from dslc.compiler import compile_text, imported
from tests.backends.test_numpy_specs import (
    test_the_module_of_a_spec_agrees_with_the_interpreter as agrees,
)

ROOT = Path(__file__).parents[2]
READ = ["specs/mlp/mlp.dsl", "specs/transformer/gpt.dsl", "specs/convolution/cnn.dsl", "specs/recurrent/gru.dsl"]


def test_a_deep_model_has_the_module_of_a_shallow_one() -> None:
    four, many = (compile_text(ROOT / "specs/transformer/gpt.dsl", settings={"depth": n}) for n in (4, 48))
    assert len(many.splitlines()) <= 1.2 * len(four.splitlines())


DEEP = """\
layer block(h: [N, E]) -> y: [N, E]:
    y = h + (h |> layer_norm |> dense(E) |> exp)

model deep(x: f32[N, 8], depth = 6) -> y: [N, 8]:
    {begin}
    for l in 0..depth:
        h = h |> block
    y = h
"""


@pytest.mark.parametrize("begin", ["h = x", "h = 2 * x", "h = x |> dense(8)"])
def test_a_loop_that_begins_with_an_input_in_f32_is_built_once_too(begin: str, tmp_path: Path) -> None:
    spec = tmp_path / "deep.dsl"
    spec.write_text(DEEP.format(begin=begin), encoding="utf-8")
    text = compile_text(spec)
    assert "for l in range(6):" in text
    assert text.count("layer_norm_mu = ") == 1
    agrees(str(spec), tmp_path)


@pytest.mark.parametrize("path", READ)
def test_nothing_is_computed_in_vain(path: str) -> None:
    tree = ast.parse(text_of(path))
    for function in (x for x in tree.body if isinstance(x, ast.FunctionDef)):
        names = [x for x in ast.walk(function) if isinstance(x, ast.Name)]
        stored = Counter(x.id for x in names if isinstance(x.ctx, ast.Store))
        loaded = Counter(x.id for x in names if isinstance(x.ctx, ast.Load))
        assert not [name for name in stored if not loaded[name] and name != "_"], function.name


@pytest.mark.parametrize("path", READ)
def test_lines_come_with_the_spec_line(path: str) -> None:
    text = text_of(path)
    assert re.search(r"    # \w+\.dsl:\d+  \S", text)
    assert "# gradient of " in text
    assert not any(word in text for word in ("tmp", "temp0", "var_"))


def test_the_manifest_has_formulas() -> None:
    space: dict[str, object] = {}
    exec(text_of("specs/mlp/mlp.dsl"), space)
    manifest = space["MANIFEST"]
    assert isinstance(manifest, dict)
    # two products for each of 64 x 128, 128 x 128 and 128 x 10 weights, and less than a tenth on top
    flops = int(manifest["forward"]["flops"].split("*N")[0])
    weights = 2 * (64 * 128 + 128 * 128 + 128 * 10)
    assert weights < flops < 1.1 * weights
    assert manifest["forward"]["saved"] == "0"
    assert "N" in manifest["loss_grad_metrics"]["saved"]


def comment_above(text: str, start: str) -> str:
    """The comment above the first line of the gradient that starts with these words; a long one goes on further in."""
    lines = [x.strip() for x in text.split("grads = ")[1].splitlines()]
    found = next(k for k, x in enumerate(lines) if x.startswith(start))
    return next(x for x in reversed(lines[:found]) if re.match(r"# \S", x))


@pytest.mark.parametrize(
    ("path", "start", "place"),
    [
        ("specs/mlp/mlp.dsl", "d_dense2_h = ", "gradient of dense.dsl:8 "),
        ("specs/mlp/mlp.dsl", "d_dense2_y = ", "gradient of mlp.dsl:5 "),
        ("specs/convolution/cnn.dsl", "d_conv_block2_max_pool2d_x = ", "gradient of pooling.dsl:55 "),
        ("specs/convolution/cnn.dsl", "d_conv2d_y = ", "gradient of cnn.dsl:4 "),
        ("specs/convolution/cnn.dsl", 'grads["conv_block.conv2d.b"] = ', "gradient of convolution.dsl:87 "),
        ("specs/transformer/gpt.dsl", "d_dense_y = ", "gradient of attention.dsl:114 "),
        ("specs/transformer/gpt.dsl", "d_attention_v = ", "gradient of attention.dsl:13 "),
        # computed once more, and no gradient
        ("specs/transformer/gpt.dsl", "attention_a = ", "attention.dsl:12 "),
    ],
)
def test_a_gradient_stands_below_the_line_that_it_differentiates(path: str, start: str, place: str) -> None:
    assert comment_above(text_of(path), start).startswith(f"# {place}")


def test_the_line_of_a_scan_comes_with_its_file() -> None:
    assert re.search(r"# recurrent.dsl:28 [^#]*\n    for t in range\(8\):\n", text_of("specs/recurrent/gru.dsl"))


@pytest.mark.parametrize(
    ("path", "number"), [("specs/mlp/mlp.dsl", "0.5 * dense_y * dense_y"), ("specs/convolution/resnet.dsl", "0.1 * ")]
)
def test_known_numbers_are_the_decimals_that_people_mean(path: str, number: str) -> None:
    text = text_of(path)
    assert number in text
    assert not re.search(r"\d99999|\d00000\d", text.split("# ---- what")[0])


def test_gradients_of_parameters_have_their_names_inside_layers_too() -> None:
    text = text_of("specs/transformer/gpt.dsl")
    assert re.search(r'grads\[f"[^"]*\.layer_norm\.scale"\] = np\.sum\(\s*d_layer_norm_y \*', text)
    assert re.search(r'grads\[f"[^"]*\.layer_norm2\.scale"\] = np\.sum\(\s*d_layer_norm2_y \*', text)


def test_a_slice_is_a_part_and_no_transposition() -> None:
    assert "logits_part = logits[:, :T - 1]" in text_of("specs/transformer/gpt.dsl")


def test_the_loop_back_adds_up_no_deviations_and_takes_no_root_twice() -> None:
    text = text_of("specs/transformer/gpt.dsl")
    back = text.split("reversed(range(")[1].split("\ndef ")[0]
    assert not re.search(r"np\.sum\(\w+ - ", back)
    roots = re.findall(r"np\.sqrt\(([^()]*)\)", back)
    assert roots and len(roots) == len(set(roots))


def test_products_of_sizes_are_not_multiplied_out() -> None:
    text = text_of("specs/convolution/resnet.dsl")
    assert "np.mean(down_block1_conv2d_y, axis=(0, 1, 2))" in text
    assert "N*((H + 1) // 2)*((W + 1) // 2)" in text


@pytest.mark.parametrize(
    "path", [*READ, "specs/convolution/resnet.dsl", "specs/recurrent/lstm.dsl", "specs/graph/gat.dsl"]
)
def test_formulas_have_no_signs_brackets_and_commas_to_spare(path: str) -> None:
    text = text_of(path).split("# ---- what")[0]
    code = [line.split("  # ")[0] for line in text.splitlines() if not line.lstrip().startswith("#")]
    for spare in (r"\+ -", r"~\(\w+\)", r"\w, ?\w+,\)", r"\(\(\w+\)\)", r"= \(np\.\w+\([^()]*\)\)$", r"\b\d+ / \d+ \*"):
        assert not [line for line in code if re.search(spare, line)], spare


@pytest.mark.parametrize("path", [*READ, "specs/convolution/resnet.dsl", "specs/transformer/encoder_decoder.dsl"])
def test_names_have_no_numbers_to_tell_them_apart(path: str) -> None:
    text = text_of(path).split("# ---- what")[0]
    assert not re.search(r"^ *\w+[a-zA-Z]_\d+ = ", text, re.MULTILINE)


def test_parameters_of_a_layer_are_written_by_its_path() -> None:
    text = text_of("specs/transformer/gpt.dsl")
    table = re.findall(r'^ {12}"([\w.]+)": ', text.split("PARAMS = {")[1].split("\n}")[0], re.MULTILINE)
    for loop in re.split(r"\n    for l in .*:\n", text.split("\ndef evaluate(")[0])[1:]:
        assert 'layer = f"decoder_stack.transformer_block.{l}"\n' in loop
        read = re.findall(r'params\[f"\{layer\}\.([\w.]+)"\]', loop)
        assert read and set(read) <= set(table)


def test_init_has_the_initialisers_of_the_table_alone() -> None:
    text = text_of("specs/mlp/mlp.dsl")
    init = text.split("def init(")[1].split("\ndef ")[0]
    assert re.findall(r'kind == "(\w+)"', init) == ["glorot"] and init.count("np.zeros(") == 1
    assert "def normal_draws" not in text
    assert "\ndef erf(" not in text


def test_what_the_loss_needs_is_no_gradient() -> None:
    text = text_of("specs/convolution/cnn.dsl").split("def loss_grad_metrics")[1]
    assert "gradient of" not in text.split("grads = ")[0]


def test_a_step_calls_the_helpers_of_the_whole_sequence() -> None:
    text = text_of("specs/transformer/gpt.dsl").split("\ndef step(")[1].split("\ndef ")[0]
    assert "feed_forward_dense2_x = dense_y * normal_cdf(dense_y)" in text
    assert "erfc(" not in text


def test_the_table_has_the_numbers_that_an_initialiser_means(tmp_path: Path) -> None:
    spec = tmp_path / "spec.dsl"
    spec.write_text(
        "model m(x: f32[N, 30], k = 20) -> y:\n"
        "    param a: [30, k] ~ uniform(0.5)\n    param b: [30, k] ~ uniform(1 / k)\n"
        "    param c: [30, k] ~ uniform(-0.1, 0.3)\n    param d: [30, k] ~ uniform\n    param e: [30, k] ~ normal\n"
        "    y = x[n, i] * (a[i, o] + b[i, o] + c[i, o] + d[i, o] + e[i, o])\n",
        encoding="utf-8",
    )
    module = imported(compile_text(spec), "m")
    numbers = {name: numbers for name, (_, _, *numbers) in module.PARAMS.items()}
    assert numbers == {"a": [-0.5, 0.5], "b": [-0.05, 0.05], "c": [-0.1, 0.3], "d": [-1.0, 1.0], "e": [1.0]}
    for name, value in module.init(3).items():
        if name != "e":
            low, high = numbers[name]
            assert low <= value.min() < 0.95 * low + 0.05 * high and 0.05 * low + 0.95 * high < value.max() <= high
