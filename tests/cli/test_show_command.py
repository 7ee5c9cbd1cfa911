"""`dslc show`: the stages behind the syntax tree, one line of a spec, and what the passes changed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dslc.cli.main import cli
from dslc.compiler import compile_text

SPEC = """\
model small(x: f32[N, 3]) -> p: [N, 2]:
    param W: [3, 2] ~ glorot
    z[n, k] = x[n, i] * W[i, k] + 1
    p[n, k] = exp(z[n, k]) / sum[j](exp(z[n, j]))

train small(x):
    minimize mean(small(x)^2)
    using sgd(lr = 0.1)
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.dsl"
    path.write_text(SPEC, encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["show", *map(str, arguments)], catch_exceptions=False)


def shown(*arguments: object) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_ir_is_the_program_as_it_is_built(spec: Path) -> None:
    text = shown(spec, "--stage", "ir")
    assert "sum[i:3](x[n, i] * W[i, k])" in text
    assert "# small.dsl:3  z[n, k] = x[n, i] * W[i, k] + 1" in text
    assert "d_W" not in text


def test_grad_has_the_gradients(spec: Path) -> None:
    text = shown(spec, "--stage", "grad")
    assert "gradient W = d_W" in text


def test_wrt_adds_the_gradient_by_an_input(spec: Path) -> None:
    for stage, line in (("grad", "gradient x = d_x"), ("code", 'grads["x"] =')):
        assert line in shown(spec, "--stage", stage, "--wrt", "x") and line not in shown(spec, "--stage", stage)
    formula = r"{\partial x_{ni}} &= \sum_{k} \frac{\partial \mathcal{L}}{\partial z_{nk}} \, W_{ik}"
    assert formula in shown(spec, "--stage", "grad", "--latex", "--wrt", "x")
    done = run(spec, "--stage", "grad", "--wrt", "W")
    assert done.exit_code == 2 and "cannot differentiate by `W`: it is a parameter" in done.output


def test_simplified_is_the_last_program_and_passes_have_names(spec: Path) -> None:
    stable = shown(spec, "--stage", "stabilise")
    assert "max[" in stable and "max[" not in shown(spec, "--stage", "ir")
    assert "gradient W = d_W" in shown(spec, "--stage", "simplified")


def test_code_is_the_module(spec: Path) -> None:
    text = shown(spec, "--stage", "code")
    assert text == compile_text(spec)
    ast.parse(text)


def test_one_line_of_the_spec(spec: Path) -> None:
    syntax = shown(spec, "--line", 3).splitlines()
    assert syntax and all(line.split()[0] == "3" for line in syntax)
    program = shown(spec, "--stage", "ir", "--line", 3).splitlines()
    assert program and all(line.endswith("# small.dsl:3  z[n, k] = x[n, i] * W[i, k] + 1") for line in program)
    code = shown(spec, "--stage", "code", "--line", 3)
    assert "# small.dsl:3" in code and "# small.dsl:4" not in code and '@ params["W"]' in code
    wrong = run(spec, "--stage", "ir", "--line", 99)
    assert wrong.exit_code == 2 and "--line asks for line 99" in wrong.stderr


def test_one_line_of_the_spec_as_kernels(spec: Path) -> None:
    whole = shown(spec, "-b", "triton", "--stage", "kernels").strip().split("\n\n\n")
    one = shown(spec, "-b", "triton", "--stage", "kernels", "--line", 4).strip().split("\n\n\n")
    assert one == [x for x in whole if "# small.dsl:4 " in x or "# gradient of small.dsl:4 " in x]
    assert 0 < len(one) < len(whole) and all(isinstance(ast.parse(x).body[0], ast.FunctionDef) for x in one)
    groups = shown(spec, "-b", "triton", "--stage", "fused", "--line", 3).splitlines()
    assert groups and all("small.dsl:3" in line for line in groups)


def test_a_line_that_only_calls_layers_says_where_to_look(tmp_path: Path) -> None:
    path = tmp_path / "calls.dsl"
    path.write_text("model m(x: f32[N, 3]) -> y: [N, 2]:\n    y = dense(x, 2)\n", encoding="utf-8")
    done = run(path, "--stage", "code", "--line", 2)
    assert done.exit_code == 0 and done.stdout == ""
    assert "nothing comes from line 2 itself; what a layer computes stands under the layer's own lines" in done.stderr


def test_why_tells_what_each_pass_changed(spec: Path) -> None:
    text = shown(spec, "--why")
    after = text.partition("== stabilise\n")[2].partition("\n== ")[0].splitlines()
    assert any(line.startswith("- ") and "exp(" in line for line in after)
    assert any(line.startswith("+ ") and "max[" in line for line in after)
    assert any(line.startswith("* softmax: ") and line.endswith("(small.dsl:4)") for line in after)
    only = shown(spec, "--why", "--line", 4).splitlines()
    assert only and all("small.dsl:4  p[n, k]" in line or "(small.dsl:4)" in line for line in only)


def test_passes_for_kernels_are_shown_with_the_backend_that_has_them(spec: Path) -> None:
    assert "return" in shown(spec, "-b", "triton", "--stage", "place-constants")
    assert "== place constants" in shown(spec, "-b", "triton", "--why")
    assert "== place constants" not in shown(spec, "--why")
    assert run(spec, "--stage", "place-constants").exit_code == 2


def test_kernels_are_those_of_the_triton_module(spec: Path) -> None:
    fused = shown(spec, "--stage", "fused", "-b", "triton")
    assert "(small.dsl:4)" in fused or "small.dsl:4" in fused
    text = shown(spec, "--stage", "kernels", "-b", "triton")
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert names and text.count("@triton.jit") == len(names)
    wrong = run(spec, "--stage", "kernels")
    assert wrong.exit_code == 2 and "the numpy backend has no kernels" in wrong.stderr


def test_an_unknown_stage_is_a_usage_error(spec: Path) -> None:
    wrong = run(spec, "--stage", "stabilize")
    assert wrong.exit_code == 2 and "did you mean stabilise?" in wrong.stderr


def test_a_spec_without_training_has_no_gradients(tmp_path: Path) -> None:
    path = tmp_path / "plain.dsl"
    path.write_text("model plain(x: f32[N]) -> y: [N]:\n    y = 2 * x\n", encoding="utf-8")
    assert "2 * x[n]" in shown(path, "--stage", "ir")
    wrong = run(path, "--stage", "grad")
    assert wrong.exit_code == 2 and "no loss to differentiate" in wrong.stderr


def test_settings_change_what_is_shown() -> None:
    mlp = Path(__file__).parents[2] / "specs/mlp/mlp.dsl"
    assert "h[n:N, o:17]" in shown(mlp, "--stage", "ir", "--set", "hidden=17")


def test_stages_are_completed() -> None:
    from click.shell_completion import ShellComplete

    found = ShellComplete(cli, {}, "dslc", "_DSLC_COMPLETE").get_completions(["show", "a.dsl", "--stage"], "s")
    assert [item.value for item in found] == ["simplified", "step"]


NORM = """\
model norm(x: f32[N, 512]) -> y: [N, 512]:
    h = x |> dense(512) |> layer_norm
    y = h |> dense(512) |> relu
"""


def test_fused_shows_what_statements_compute(tmp_path: Path) -> None:
    path = tmp_path / "norm.dsl"
    path.write_text(NORM, encoding="utf-8")
    lines = shown(path, "--stage", "fused").splitlines()
    assert lines[0] == "0: dense.y [N, 512] with sum in its formula  (dense.dsl:8)"
    assert [line.split()[1] for line in lines] == [
        "dense.y", "layer_norm.mu", "layer_norm.variance", "h", "dense2.y", "y",
    ]  # fmt: skip


def test_memory_shows_how_long_values_live(tmp_path: Path) -> None:
    path = tmp_path / "norm.dsl"
    path.write_text(NORM, encoding="utf-8")
    lines = shown(path, "--stage", "memory").splitlines()
    assert lines[0] == "0: dense.y [N, 512], last read by 3 (h)  (dense.dsl:8)"
    assert lines[-1].startswith("5: y [N, 512], a result")
    kernels = shown(path, "--stage", "memory", "-b", "triton").splitlines()
    assert kernels[0] == "0: dense.y; then h [N, 512], 2048*N bytes  (dense.dsl:8)"
    steps = shown(path, "--stage", "fused", "-b", "triton").splitlines()
    assert kernels[-2].startswith(f"{len(steps) - 1}: y [N, 512], 2048*N bytes, a result")
    assert re.fullmatch(r"at most .*\*N.* of .*\*N.* bytes at a time", kernels[-1])


def test_what_is_passed_on_is_not_called_as_the_input_of_the_model(tmp_path: Path) -> None:
    """`x` of the second layer is not the `x` of the model: it was `x_before` in modules, and `x` in pictures."""
    spec = tmp_path / "net.dsl"
    spec.write_text(
        "model net(x: f32[N, 4]) -> y: [N, 3]:\n    use last = dense(3)\n"
        "    y = x |> dense(8) |> relu |> dense(8) |> tanh |> last\n"
    )
    shown = CliRunner().invoke(cli, ["show", str(spec), "--stage", "ir"], catch_exceptions=False).output
    assert re.search(r"^dense2\.x\[.*relu", shown, re.MULTILINE), shown
    assert re.search(r"^last\.x\[.*tanh", shown, re.MULTILINE), shown
