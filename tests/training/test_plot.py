"""`dslc plot`: what is in its pictures, and what it says about folders and names that do not fit."""

from __future__ import annotations

import json
import math
import re
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix
from small_runs import normed, run

from dslc.frontend import check_file
from dslc.plots.curves import curves_of, draw_curves, smoothed
from dslc.plots.diagrams import bins_of, draw_confusion, draw_reliability
from dslc.plots.distributions import draw_histograms, draw_images
from dslc.plots.figure import PALETTE, styled
from dslc.plots.predictions import Predictions
from dslc.plots.runs import runs_of, weights_of
from dslc.plots.values import named_values

NUMPY = ("--backend", "numpy")
SVG = {"svg": "http://www.w3.org/2000/svg"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Runs of the small spec: one with test rows, and one of three seeds; their reports."""
    folder = tmp_path_factory.mktemp("runs")
    spec, data = normed(folder)
    with np.load(data) as arrays:
        np.savez(folder / "more.npz", **arrays, test_x=arrays["x"][::2] + 0.5, test_label=arrays["label"][::2])
    common = ("--validation", "0.2", "--backend", "numpy", "--json")
    one = run("train", spec, "--data", folder / "more.npz", "-o", folder / "one", "--epochs", 5, "--norms", *common)
    many = run("train", spec, "--data", data, "-o", folder / "many", "--seeds", 3, "--epochs", 4, *common)
    return {"folder": folder, "spec": spec, "one": json.loads(one.stdout), "many": json.loads(many.stdout)}


def by_id(figure: Any) -> dict[str, Any]:
    """The lines, bands, bars and images of a figure that have a name."""
    return {x.get_gid(): x for x in figure.findobj() if x.get_gid()}


# ---- curves


def test_curves_are_the_history_of_a_run(trained: dict[str, Any]) -> None:
    curves = curves_of(runs_of([trained["folder"] / "one"]))
    with styled():
        figure = draw_curves(curves)
    lines = by_id(figure)
    history = trained["one"]["history"]
    for part in ("training", "validation"):
        for metric in ("loss", "accuracy"):
            line = lines[f"curve:{metric}:{part}:one"]
            assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
            assert line.get_ydata().tolist() == [entry[part][metric] for entry in history]
    for part in ("mean", "largest"):
        assert lines[f"curve:gradient:{part}:one"].get_ydata().tolist() == [e["gradient"][part] for e in history]
    assert [panel.get_title() for panel in figure.axes][:2] == ["loss", "accuracy"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["training", "validation"]


def test_several_seeds_are_their_mean_and_spread(trained: dict[str, Any]) -> None:
    with styled():
        figure = draw_curves(curves_of(runs_of([trained["folder"] / "many", trained["folder"] / "one"])))
    found = by_id(figure)
    rows = [[e["validation"]["loss"] for e in report["history"]] for report in trained["many"]["runs"]]
    mean = [statistics.fmean(x) for x in zip(*rows, strict=True)]
    spread = [statistics.stdev(x) for x in zip(*rows, strict=True)]
    name = "loss:validation:many (3 seeds)"
    np.testing.assert_allclose(found[f"curve:{name}"].get_ydata(), mean, rtol=1e-12)
    corners = found[f"spread:{name}"].get_paths()[0].vertices
    for epoch, (centre, by) in enumerate(zip(mean, spread, strict=True), 1):
        ends = corners[corners[:, 0] == epoch, 1]
        np.testing.assert_allclose([ends.min(), ends.max()], [centre - by, centre + by], rtol=1e-12)
    assert "spread:loss:validation:one" not in found
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["many (3 seeds)", "one", "training", "validation"]
    colours = {found[f"curve:loss:training:{label}"].get_color() for label in ("many (3 seeds)", "one")}
    assert colours == set(PALETTE[:2])


def test_a_smoothed_value_is_a_weighted_mean_of_those_before_it() -> None:
    values = np.random.default_rng(0).normal(size=7)
    expected = [np.average(values[: k + 1], weights=[0.7 ** (k - i) for i in range(k + 1)]) for k in range(7)]
    np.testing.assert_allclose(smoothed(values, 0.7), expected, rtol=1e-12)
    np.testing.assert_array_equal(smoothed(values, 0.0), values)


def test_a_logarithm_of_zero_is_refused(trained: dict[str, Any], tmp_path: Path) -> None:
    with styled():
        figure = draw_curves(curves_of(runs_of([trained["folder"] / "one"]), ["loss"]), logy=True, smooth=0.5)
    assert figure.axes[0].get_yscale() == "log" and "raw:loss:training:one" in by_id(figure)
    spec, data = normed(tmp_path)
    with np.load(data) as arrays:
        np.savez(data, x=arrays["x"] * 0, label=arrays["label"])
    spec.write_text(spec.read_text().replace("accuracy(logits, label)", "sum[n](x[n, 0])"), encoding="utf-8")
    run("train", spec, "--data", data, "-o", tmp_path / "zero", "--epochs", 1, "--backend", "numpy")
    done = run("plot", tmp_path / "zero", "--logy", "-o", tmp_path / "x.png")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: `accuracy` of zero is 0 at epoch 1: it has no logarithm\n")
    assert not (tmp_path / "x.png").exists()


def test_the_svg_has_the_values_and_the_same_bytes(trained: dict[str, Any], tmp_path: Path) -> None:
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    arguments = ("plot", trained["folder"] / "one", "--title", "one $ and <another>", "-o")
    assert run(*arguments, files[0]).exit_code == 0
    with matplotlib.rc_context({"lines.linewidth": 9, "svg.fonttype": "path", "font.size": 20}):
        assert run(*arguments, files[1]).exit_code == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    root = ET.parse(files[0]).getroot()
    texts = [text.text for text in root.iterfind(".//svg:text", SVG)]
    assert "one $ and <another>" in texts and "accuracy" in texts and "epoch" in texts
    line = root.find(".//svg:g[@id='curve:loss:validation:one']/svg:path", SVG)
    assert line is not None
    drawn = [float(y) for y in re.findall(r"[ML] \S+ (\S+)", line.get("d", ""))]
    values = [entry["validation"]["loss"] for entry in trained["one"]["history"]]
    slope, shift = np.polyfit(values, drawn, 1)
    np.testing.assert_allclose(np.multiply(values, slope) + shift, drawn, atol=1e-3)
    assert slope < 0  # up is more


@pytest.mark.parametrize(
    "options", [["--reliability"], ["--confusion"], ["--weights"], ["--images"], ["--activations"]]
)
def test_every_picture_is_a_file_of_its_kind(options: list[str], trained: dict[str, Any], tmp_path: Path) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("b.svg", b"<?xml")):
        done = run("plot", trained["folder"] / "one", *options, "-o", tmp_path / name, *NUMPY)
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-1] == str(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


# ---- diagrams


def drawn_bars(figure: Any, kind: str) -> dict[int, tuple[float, float]]:
    """Lower end and height of bars by their bin."""
    bars = {int(name.split(":")[1]): x for name, x in by_id(figure).items() if name.startswith(f"{kind}:")}
    return {k: (float(bar.get_y()), float(bar.get_height())) for k, bar in bars.items()}


def test_the_reliability_diagram_has_the_calibration_error() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([0.4] * 4, 300)
    label = rng.integers(0, 4, 300)
    found = Predictions("run", "rows", p, label, "")
    rows: list[list[tuple[float, bool]]] = [[] for _ in range(10)]
    for row, right in zip(p.tolist(), label.tolist(), strict=True):
        rows[min(int(max(row) * 10), 9)].append((max(row), row.index(max(row)) == right))
    error = sum(abs(sum(ok for _, ok in part) - math.fsum(sure for sure, _ in part)) for part in rows) / 300
    assert bins_of(found).ece == pytest.approx(error, rel=1e-12) and error > 0.1
    with styled():
        figure = draw_reliability([found])
    accuracy, gap, count = (drawn_bars(figure, kind) for kind in ("accuracy", "gap", "count"))
    for k, part in enumerate(rows):
        assert count[k] == (0, len(part))
        if part:
            share, sure = statistics.fmean(ok for _, ok in part), statistics.fmean(x for x, _ in part)
            assert accuracy[k] == (0, pytest.approx(share))
            assert gap[k] == (pytest.approx(min(share, sure)), pytest.approx(abs(share - sure)))
    assert f"ECE {error:.4f} over 300 rows" in figure.axes[0].get_title()


def test_zeros_and_ones_are_drawn_by_the_probability_of_one() -> None:
    rng = np.random.default_rng(4)
    p = rng.uniform(size=400)
    label = (rng.uniform(size=400) < p**2).astype(int)
    fraction, probability = calibration_curve(label, p, n_bins=10)
    bins = bins_of(Predictions("run", "rows", p, label, ""))
    np.testing.assert_allclose(bins.accuracy, fraction, rtol=1e-12)
    np.testing.assert_allclose(bins.confidence, probability, rtol=1e-12)


def test_the_confusion_matrix_counts_rows() -> None:
    rng = np.random.default_rng(5)
    found = Predictions("run", "rows", rng.dirichlet([1, 1, 1], 50), rng.integers(0, 3, 50), "", ("ant", "bee", "cat"))
    expected = confusion_matrix(found.label, found.p.argmax(1))
    with styled():
        figure = draw_confusion([found])
    panel = figure.axes[0]
    written = {tuple(map(int, text.get_position())): int(text.get_text()) for text in panel.texts}
    assert written == {(j, i): int(expected[i, j]) for i, j in np.argwhere(expected)}
    image = by_id(figure)["confusion:run"].get_array()
    np.testing.assert_allclose(image, expected / expected.sum(1, keepdims=True), rtol=1e-12)
    assert [label.get_text() for label in panel.get_yticklabels()] == ["ant", "bee", "cat"]


def test_what_is_told_is_the_accuracy_of_the_test(trained: dict[str, Any], tmp_path: Path) -> None:
    done = run("plot", trained["folder"] / "one", "--confusion", "-o", tmp_path / "x.svg", *NUMPY)
    accuracy = trained["one"]["test"]["accuracy"]
    assert done.stdout.startswith(f"one: accuracy {accuracy:.4f}, 30 test rows, softmax of `logits`\n")
    for part, count in (("training", 48), ("validation", 12)):
        done = run("plot", trained["folder"] / "one", "--confusion", "--part", part, "-o", tmp_path / "x.svg", *NUMPY)
        assert f", {count} {part} rows, " in done.stdout
    data = trained["folder"] / "more.npz"
    done = run(
        "plot", trained["folder"] / "one", "--confusion", "--data", data, "--part", "test", "-o", tmp_path / "x.svg"
    )
    assert done.stdout.startswith(f"one: accuracy {accuracy:.4f}, 30 rows of more.npz, ")


def test_the_error_of_the_library_is_that_of_the_diagram(tmp_path: Path) -> None:
    spec = tmp_path / "own.dsl"
    spec.write_text(
        "model own(x: f32[N, 2], K = 3) -> p: [N, K]:\n    z = x |> dense(K)\n    p[n, k] = softmax[k](z[n, k])\n\n"
        "train own(x, label: i32[N] < K, epochs = 3):\n    p = own(x)\n    minimize -mean[n](log(p[n, label[n]]))\n"
        "    metric error = calibration_error(p, label)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    rng = np.random.default_rng(6)
    x, label = rng.normal(size=(80, 2)), rng.integers(0, 3, 80)
    np.savez(tmp_path / "d.npz", x=x[:40], label=label[:40], test_x=x[40:], test_label=label[40:])
    report = run("train", spec, "--data", tmp_path / "d.npz", "-o", tmp_path / "own", "--json", "--backend", "numpy")
    done = run("plot", tmp_path / "own", "--reliability", "-o", tmp_path / "x.png", *NUMPY)
    assert f"ECE {json.loads(report.stdout)['test']['error']:.4f}, " in done.stdout
    assert done.stdout.splitlines()[0].endswith("40 test rows, `p` as probabilities")


# ---- weights and values


def test_histograms_and_images_are_those_of_the_weights(trained: dict[str, Any]) -> None:
    folder = trained["folder"] / "one"
    weights = load_file(folder / "weights.safetensors")
    with styled():
        found = by_id(draw_histograms({"one": weights_of(folder)}, [], "parameter"))
        images = by_id(draw_images({"one": weights_of(folder)}, ["dense.W"]))
    assert {name.split(":")[1] for name in found} == set(weights)
    for name, x in weights.items():
        drawn = found[f"histogram:{name}:one"].get_data()
        np.testing.assert_array_equal(drawn.values, np.histogram(x.astype(np.float64), drawn.edges)[0])
        assert drawn.values.sum() == x.size
    image = images["image:dense.W"]
    np.testing.assert_array_equal(image.get_array(), weights["dense.W"])
    assert image.norm.vmax == -image.norm.vmin == pytest.approx(np.abs(weights["dense.W"]).max())


def test_a_kernel_is_drawn_as_tiles() -> None:
    kernel = np.random.default_rng(7).normal(size=(3, 2, 4, 5))
    with styled():
        image = by_id(draw_images({"one": {"K": kernel}}, []))["image:K"].get_array().filled(np.nan)
    for c in range(4):
        for o in range(5):
            np.testing.assert_array_equal(image[4 * c : 4 * c + 3, 3 * o : 3 * o + 2], kernel[:, :, c, o])
    assert np.isnan(image).sum() == image.size - kernel.size


#: a loop over layers, and a recurrence
DEEP = """
layer block(x: [N, K]) -> y: [N, K]:
    param W: [K, K] ~ normal
    inner[n, j] = tanh(x[n, k] * W[k, j])
    y = x + inner

model deep(x: f64[N, 3]) -> y: [N, 3]:
    h = x
    for i in 0..4:
        h = h |> block
    scan k:
        more[n: N, k] = tanh(h[n, k])
        total[n: N, k] = 0.5 * total[n, k-1] + more[n, k] * total[n, k-1] + more[n, k]
    start total[n: N] = 0
    y = total
"""


def model_in(spec: Path) -> Any:
    checked = check_file(spec)
    assert checked.program is not None, checked.errors
    (model,) = checked.program.models.values()
    return model


def test_values_are_those_of_torch(trained: dict[str, Any]) -> None:
    weights = load_file(trained["folder"] / "one/weights.safetensors")
    x = np.random.default_rng(8).normal(size=(10, 4))
    found = named_values(model_in(trained["spec"]), weights, {"x": x})
    w = {name: torch.from_numpy(array.copy()).double() for name, array in weights.items()}
    linear = torch.from_numpy(x) @ w["dense.W"] + w["dense.b"]
    moments = (w["batch_norm.running_mean"], w["batch_norm.running_var"])
    normal = torch.nn.functional.batch_norm(linear, *moments, w["batch_norm.scale"], w["batch_norm.shift"])
    logits = torch.relu(normal) @ w["dense2.W"] + w["dense2.b"]
    for name, value in {"dense.y": linear, "batch_norm.y": normal, "logits": logits}.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)  # the spec has x in float32


def test_passes_of_a_loop_have_numbers_and_steps_are_stacked(tmp_path: Path) -> None:
    spec = tmp_path / "deep.dsl"
    spec.write_text(DEEP, encoding="utf-8")
    rng = np.random.default_rng(9)
    weights = {f"block.{i}.W": rng.normal(size=(3, 3)) for i in range(4)}
    x = rng.normal(size=(5, 3))
    found = named_values(model_in(spec), weights, {"x": x})
    h = x
    for i in range(4):
        inner = np.tanh(h @ weights[f"block.{i}.W"])
        np.testing.assert_allclose(found[f"block.inner.{i}"], inner, rtol=1e-12)
        h = h + inner
    more, total = np.tanh(h), np.zeros((4, 5))
    for k in range(3):
        total[k + 1] = (0.5 + more[:, k]) * total[k] + more[:, k]
    np.testing.assert_allclose(found["total"], total[1:].T, rtol=1e-12)
    np.testing.assert_allclose(found["more"], more.T, rtol=1e-12)


# ---- what does not fit


@pytest.mark.parametrize(
    ("arguments", "message", "help"),
    [
        (["nowhere"], "nowhere does not exist", "give the folder of a run"),
        (
            ["."],
            ". is not the folder of a run: it has no checkpoint.npz",
            "give folders in it: damaged, forgotten, one",
        ),
        (["one", "--only", "acuracy"], "--only acuracy: there is no such metric", "did you mean `accuracy`?"),
        (["one", "--weights", "--only", "x"], "--only x: there is no such parameter", "there are `dense.W`"),
        (["many", "--images"], "--images draws the weights of one run, not of 3", "give one run"),
        (["damaged"], "the checkpoint damaged/checkpoint.npz cannot be used: ", "`dslc train --fresh` starts anew"),
        (["one", "--confusion", "--labels", "y"], "--labels y: the `train` has no such input", "`label`: i32[N] < 3"),
        (["one", "--confusion", "--scores", "y"], "--scores y: the model has no such output", "`logits` [30, 3]"),
        (
            ["many/seed-0", "--confusion", "--part", "test"],
            "many/seed-0 has no rows for test",
            "there are those for vali",
        ),
        (["one", "--confusion", "--data", "no.npz"], "there is no file no.npz", "check the path"),
        (["forgotten", "--activations"], "forgotten has no run.json", "the same `dslc train` writes it again"),
        (["one", "-o", "no/x.svg"], "cannot write no/x.svg: no such file or directory", "then draw it again"),
    ],
)
def test_what_does_not_fit_is_told(
    arguments: list[str], message: str, help: str, trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained["folder"])
    for name in ("damaged", "forgotten"):
        Path(name).mkdir(exist_ok=True)
    whole = Path("one/checkpoint.npz").read_bytes()
    Path("damaged/checkpoint.npz").write_bytes(whole[: len(whole) // 2])
    Path("forgotten/checkpoint.npz").write_bytes(whole)
    done = run("plot", "-o", "out.svg", *arguments, *NUMPY)
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith(f"error: {message}") and help in done.stderr
    assert done.stdout == "" and not Path("out.svg").exists()


def test_a_spec_or_data_that_changed_are_refused(tmp_path: Path) -> None:
    spec, data = normed(tmp_path)
    run("train", spec, "--data", data, "-o", tmp_path / "run", "--epochs", 1, "--backend", "numpy")
    with np.load(data) as arrays:
        x, label = arrays["x"], arrays["label"]
    np.savez(data, x=x + 1, label=label)
    picture = ("plot", tmp_path / "run", "--confusion", "-o", tmp_path / "x.svg", *NUMPY)
    assert f"error: {data} has changed since {tmp_path / 'run'} was trained on it" in run(*picture).stderr
    assert run(*picture, "--data", data).exit_code == 0
    spec.write_text(spec.read_text().replace("relu", "tanh"), encoding="utf-8")
    assert f"error: {spec} has changed since {tmp_path / 'run'} was trained on it" in run(*picture).stderr
    spec.unlink()
    assert f"error: {spec}, the spec of {tmp_path / 'run'}, is no longer there" in run(*picture).stderr


def test_numbers_without_classes_have_no_diagram(tmp_path: Path) -> None:
    spec = tmp_path / "line.dsl"
    spec.write_text(
        "model line(x: f32[N]) -> y: [N]:\n    param w: [] = 0\n    y[n] = w * x[n]\n\n"
        "train line(x, t: f32[N]):\n    minimize mean((line(x) - t)^2)\n    using sgd(lr = 0.1)\n",
        encoding="utf-8",
    )
    np.savez(tmp_path / "d.npz", x=np.arange(4.0), t=np.arange(4.0))
    run("train", spec, "--data", tmp_path / "d.npz", "-o", tmp_path / "run", "--epochs", 1, "--backend", "numpy")
    done = run("plot", tmp_path / "run", "--reliability", "-o", tmp_path / "x.svg")
    assert done.exit_code == 1
    assert "error: the `train` has no input that holds labels\n" in done.stderr and "train line" in done.stderr


def test_other_options_do_not_go_together(trained: dict[str, Any]) -> None:
    one = trained["folder"] / "one"
    done = run("plot", one, "-o", "x.pdf")
    assert done.exit_code == 2 and "a picture is a .png or .svg file" in done.stderr
    done = run("plot", one, "--weights", "--images", "-o", "x.svg")
    assert done.exit_code == 2 and "two pictures" in done.stderr


def test_without_matplotlib_the_cure_is_told(trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("plot", trained["folder"] / "one", "-o", "x.svg")
    assert done.exit_code == 1
    assert done.stderr == (
        "error: pictures are drawn with matplotlib, which is not installed\n  = help: pip install 'dslc[plot]'\n"
    )


def test_only_this_command_imports_matplotlib(trained: dict[str, Any]) -> None:
    spec, data, folder = trained["spec"], trained["folder"] / "more.npz", trained["folder"] / "quiet"
    arguments = ["train", str(spec), "--data", str(data), "-o", str(folder), "--steps", "2", "--backend", "numpy"]
    script = (
        "import sys\nfrom dslc.cli.main import cli\n"
        f"cli.main({arguments!r}, standalone_mode=False)\nassert 'matplotlib' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_a_terminal_shows_curves_of_metrics_too(
    trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dslc.cli.results import show_curves

    history = trained["one"]["history"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    show_curves(history)
    shown = capsys.readouterr().out
    last = history[-1]
    for name in ("loss", "accuracy"):
        assert re.search(rf"^{name}$", shown, re.MULTILINE)
        assert f"a training {last['training'][name]:.3f}  b validation {last['validation'][name]:.3f}" in shown
