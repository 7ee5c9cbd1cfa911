"""`dslc weights`: maps, suggestions, what is refused, and what is told."""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

import dslc
from dslc.cli.main import cli
from dslc.weights.files import read_arrays, write_arrays
from dslc.weights.maps import MapError, apply_map, parse_map

SPEC = """\
layer experts(x: [N, I], count: size) -> y: [N, I]:
    param W: [X = count, I, I] ~ normal
    y[n, i] = sum[e](x[n, j] * W[e, j, i])

model net(x: [N, 6], hidden = 8, out = 3) -> y: [N, out]:
    h = x |> experts(2) |> dense(hidden) |> relu |> layer_norm
    y = dense(h, out)
"""

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.dsl").write_text(SPEC, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["weights", "net.dsl", *arguments], catch_exceptions=False)


def checkpoint() -> dict[str, Any]:
    shapes = {
        "net.expert.0.w": (6, 6), "net.expert.1.w": (6, 6), "net.fc1.weight": (8, 6), "net.fc1.bias": (8,),
        "net.ln.weight": (8,), "net.ln.bias": (8,), "net.fc2.weight": (3, 8), "net.fc2.bias": (3,),
    }  # fmt: skip
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


MAP = """\
prefix net.
expert.*.w -> experts.W: stack          # two of them
fc1.weight -> dense.W: transpose
fc2.weight -> dense2.W: transpose
fc1.bias -> dense.b
fc2.bias -> dense2.b
ln.weight -> layer_norm.scale
ln.bias -> layer_norm.shift
"""


@pytest.mark.point("weights")
@pytest.mark.parametrize("ending", ["safetensors", "npz", "pt"])
def test_a_map_brings_in_every_kind_of_file(ending: str) -> None:
    kept = checkpoint()
    if ending == "pt":
        torch.save({"epoch": 3, "state_dict": {n: torch.tensor(x) for n, x in kept.items()}}, "c.pt")
    else:
        write_arrays(f"c.{ending}", kept)
    Path("net.map").write_text(MAP, encoding="utf-8")
    result = weights("--from", f"c.{ending}", "--map", "net.map", "-o", "w.safetensors")
    assert result.exit_code == 0 and "w.safetensors: 7 arrays brought in" in result.output
    module = dslc.compile("net.dsl")
    params = module.load("w.safetensors")
    np.testing.assert_array_equal(params["experts.W"], np.stack([kept["net.expert.0.w"], kept["net.expert.1.w"]]))
    np.testing.assert_array_equal(params["dense.W"], kept["net.fc1.weight"].T)
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    t = {n.removeprefix("net."): torch.tensor(v) for n, v in kept.items()}
    h = torch.tensor(x) @ t["expert.0.w"] + torch.tensor(x) @ t["expert.1.w"]
    h = torch.relu(torch.nn.functional.linear(h, t["fc1.weight"], t["fc1.bias"]))
    h = torch.nn.functional.layer_norm(h, (8,), t["ln.weight"], t["ln.bias"])
    wanted = torch.nn.functional.linear(h, t["fc2.weight"], t["fc2.bias"]).numpy()
    np.testing.assert_allclose(module.forward(params, x), wanted, rtol=2e-4, atol=1e-4)


@pytest.mark.point("weights")
def test_a_suggestion_is_a_map_that_fits() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))
    Path("net.dsl").write_text(SPEC.replace("experts(2) |> ", ""), encoding="utf-8")
    torch.save(net.state_dict(), "c.pt")
    result = weights("--from", "c.pt", "-o", "w.npz")
    assert result.exit_code == 1 and not Path("w.npz").exists()
    assert "0.weight -> dense.W: transpose" in result.output and "1.bias -> layer_norm.shift" in result.output
    Path("net.map").write_text(result.output, encoding="utf-8")
    again = weights("--from", "c.pt", "--map", "net.map", "-o", "w.npz")
    assert again.exit_code == 0, again.output
    np.testing.assert_array_equal(read_arrays("w.npz")["dense2.W"], net[2].weight.detach().numpy().T)
    equal = weights("--from", "w.npz", "-o", "again.safetensors")  # its names are those of the model
    assert equal.exit_code == 0 and "all is there" not in equal.output


@pytest.mark.point("weights")
def test_what_is_missing_left_over_or_of_another_shape_is_told_and_nothing_written() -> None:
    kept = checkpoint()
    del kept["net.fc2.bias"]
    kept["spare"] = np.ones(2)
    write_arrays("c.npz", kept)
    Path("net.map").write_text(
        MAP.replace("fc1.weight -> dense.W: transpose", "fc1.weight -> dense.W"), encoding="utf-8"
    )
    command = ("--from", "c.npz", "--map", "net.map", "-o", "w.safetensors")
    result = weights(*command)
    assert result.exit_code == 1 and not Path("w.safetensors").exists()
    assert "1 missing, 1 of another shape: nothing is written" in result.output
    assert "spare [2]" in result.output and "line 6 of the map is about nothing" in result.output
    told = json.loads(weights(*command, "--json").output)
    assert (told["ok"], told["missing"], told["left_over"], told["file"]) == (False, ["dense2.b"], ["spare"], None)
    assert {p["name"]: p["how"] for p in told["parameters"]}["dense.W"] == "another shape"
    assert weights(*command, "--partial").exit_code == 1  # another shape is no missing one
    Path("net.map").write_text(MAP, encoding="utf-8")
    result = weights(*command, "--partial")
    assert result.exit_code == 0 and "fresh" in result.output
    module = dslc.compile("net.dsl")
    np.testing.assert_array_equal(module.load("w.safetensors")["dense2.b"], module.init(0)["dense2.b"])


@pytest.mark.point("weights")
def test_sizes_and_dtypes_are_those_of_the_options() -> None:
    write_arrays("c.npz", dslc.compile("net.dsl", hidden=4).init(1))
    assert weights("--from", "c.npz").exit_code == 1
    result = weights("--from", "c.npz", "--set", "hidden=4", "--dtype", "f16", "-o", "w.safetensors")
    assert result.exit_code == 0
    assert {x.dtype for x in read_arrays("w.safetensors").values()} == {np.dtype(np.float16)}


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return (open, ("harm.txt", "w"))


@pytest.mark.point("weights")
def test_code_in_a_checkpoint_never_runs() -> None:
    torch.save({"a": Hostile()}, "c.pt")
    Path("d.pt").write_bytes(pickle.dumps(Hostile()))
    np.savez("e.npz", a=np.array([Hostile()], dtype=object), allow_pickle=True)
    for name in ("c.pt", "d.pt", "e.npz"):
        Path("harm.txt").unlink(missing_ok=True)
        result = weights("--from", name, "-o", "w.safetensors")
        assert result.exit_code == 1 and name in result.output, result.output
        assert not Path("harm.txt").exists() and not Path("w.safetensors").exists()


def odd_tensors() -> dict[str, tuple[Any, str]]:
    """Tensors that NumPy has no array for, and what is told of them."""
    plain = torch.ones(8, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.quantize_per_tensor(plain, 0.1, 0, torch.qint8)
    return {
        "float8": (plain.to(torch.float8_e4m3fn), "NumPy has no dtype float8_e4m3fn"),
        "quantised": (small, "it is quantised, as qint8"),
        "meta": (plain.to("meta"), "saved from the device `meta`"),
        "conjugated": (plain.to(torch.complex64).conj(), "it is conjugated, as complex64"),
        "wide": (torch.ones(1).expand(375_000_000), "its arrays would take 15"),
    }


@pytest.mark.point("weights")
@pytest.mark.parametrize("kind", ["float8", "quantised", "meta", "conjugated", "wide"])
def test_a_tensor_that_cannot_be_read_is_named(kind: str) -> None:
    value, words = odd_tensors()[kind]
    torch.save({"fc.bias": torch.ones(8), "fc.weight": value}, "c.pt")
    result = weights("--from", "c.pt")
    assert result.exit_code == 1 and words in result.output
    assert kind == "wide" or "c.pt: cannot read the tensor `fc.weight`: " in result.output


@pytest.mark.point("weights")
def test_what_is_no_file_of_torch_is_told_in_words() -> None:
    torch.save(torch.nn.Linear(2, 2), "whole.pt")
    Path("empty.pt").touch()
    Path("text.bin").write_text("each line is text\n", encoding="utf-8")
    Path("cut.pt").write_bytes(Path("whole.pt").read_bytes()[:200])
    for name, words in {
        "whole.pt": "whole.pt cannot be read as weights alone: it needs the code of `torch.nn.modules.linear.Linear`",
        "empty.pt": "empty.pt is empty: expected what torch.save writes",
        "text.bin": "text.bin is no file of torch: expected what torch.save writes",
        "cut.pt": "cut.pt is damaged, or holds something else than weights: expected a state dict",
    }.items():
        result = weights("--from", name)
        assert result.exit_code == 1 and result.output.startswith(f"error: {words}"), result.output
        assert "\x1b" not in result.output and len(result.output) < 300


@pytest.mark.point("weights")
def test_without_torch_its_files_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({}, "c.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    result = weights("--from", "c.pt")
    assert result.exit_code == 1 and "c.pt is a file of torch, which is not installed" in result.output


@pytest.mark.point("weights")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.npz", "does not exist"),
        (".", "is a folder"),
        ("net.dsl", "expected a file that ends in .safetensors, .npz"),
    ],
)
def test_what_is_no_checkpoint_is_refused(name: str, words: str) -> None:
    result = weights("--from", name)
    assert result.exit_code == 1 and words in result.output


@pytest.mark.point("weights")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fc1.weight", "expected `prefix NAME`, `drop PATTERN` or `PATTERN -> NAME`"),
        ("fc1.weight ->", "expected names of parameters after `->`"),
        ("a b -> c", "expected `prefix NAME`"),
        ("a -> b: transpos", "expected transpose, or transpose and the old axes"),
        ("a -> b: reshape x", "expected reshape, or reshape and the new sizes"),
        ("a -> b: split", "expected split and an axis"),
        ("a -> b, c", "expected `split AXIS` with several names"),
        ("a -> b: split 0", "expected `split AXIS` with several names and only with them"),
        ("a.* -> b.$2", "`a.*` has 1 stars"),
        ("a** -> b", "none beside another"),
        ("*.*.*.*.*.*.*.x -> b", "at most 6 stars"),
    ],
)
def test_a_line_that_is_no_rule_is_named(line: str, words: str) -> None:
    with pytest.raises(MapError) as refused:
        parse_map(f"# a map\n{line}\n", "net.map")
    assert str(refused.value).startswith("net.map:2: ") and words in str(refused.value)


@pytest.mark.point("weights")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a -> dens.W", "line 1: there is no parameter `dens.W`; did you mean `dense.W`?"),
        ("* -> dense.W", "`dense.W` comes from `a` and from `b`"),
        ("a -> dense.W: transpose 0 2", "cannot `transpose 0 2` `a` of shape (2, 3)"),
        ("a -> dense.W: reshape 5", "cannot `reshape 5` `a` of shape (2, 3)"),
        ("a -> dense.W, dense.b: split 1", "cannot `split 1` `a` of shape (2, 3)"),
        ("a -> dense.W, dense.b: split 7", "cannot `split 7` `a`"),
        ("* -> dense.W: stack", "cannot `stack`"),
    ],
)
def test_a_rule_that_does_not_fit_is_named(line: str, words: str) -> None:
    found = {"a": np.ones((2, 3)), "b": np.ones(2)}
    with pytest.raises(MapError) as refused:
        apply_map(found, parse_map(line), {"dense.W": (3, 2), "dense.b": (2,)})
    assert words in str(refused.value)


@pytest.mark.point("weights")
def test_a_map_reads_as_it_prints() -> None:
    text = "prefix model.\ndrop *.mask\nh.*.c -> b.$1.q, b.$1.k: split 1, reshape 2 3\n"
    text += "w.* -> W: stack 1, transpose 0 2 1\n"
    assert str(parse_map(text)) == text
    found = {f"w.{k}": np.full((2, 3), k) for k in (10, 9, 0)}
    made = apply_map(found, parse_map(text), {"W": (2, 3, 3)}).arrays["W"]
    assert made[0].tolist() == [[0, 9, 10]] * 3


@pytest.mark.point("weights")
def test_a_shell_completes_the_command() -> None:
    shell = ShellComplete(cli, {}, "dslc", "_DSLC_COMPLETE")
    assert [c.value for c in shell.get_completions([], "wei")] == ["weights"]
    assert "--partial" in [c.value for c in shell.get_completions(["weights"], "--p")]
