"""Trainings with known results: `python tests/trainings.py` trains each and prints what was expected and what came out.

They take some minutes. `pytest -m long tests/test_trainings.py` runs them, too. What is expected comes from
scikit-learn, from torch, from a formula, or is an accuracy that others reach on the same data.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge

import dslc
from dslc.cli.main import cli

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "specs"
OWN = Path(__file__).parent / "trained"
DIGITS = SPECS / "data/digits.npz"
SEEDS = 5
#: of the torch programs beside them
TORCH_SEEDS = 5

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A claim about a training: what was expected, what was measured, and whether it holds."""

    what: str
    expected: str
    measured: str
    ok: bool
    seconds: float = 0.0


def command(*arguments: object) -> str:
    """What a command of dslc prints, which must succeed."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as errors:
        status = cli.main([str(x) for x in arguments], standalone_mode=False)
    if status:
        raise RuntimeError(errors.getvalue() or said.getvalue())
    return said.getvalue()


def train(folder: Path, spec: Path, data: Path, *options: object) -> dict[str, Any]:
    """The report of `dslc train` with C modules."""
    report: dict[str, Any] = json.loads(
        command("train", spec, "--data", data, "-o", folder, "--backend", "c", "--json", *options)
    )
    return report


def weights_of(folder: Path) -> Arrays:
    from dslc.weights.files import read_arrays

    return dict(read_arrays(folder / "weights.safetensors"))


def shown(values: list[float]) -> str:
    return f"{statistics.fmean(values):.4f} ± {statistics.stdev(values):.4f}"


def standard_error(values: list[float]) -> float:
    return statistics.stdev(values) / len(values) ** 0.5


# ---- models with one solution


def ridge(folder: Path) -> Iterator[Row]:
    x, y = load_diabetes(return_X_y=True, scaled=False)
    x = (x - x.mean(0)) / x.std(0)
    np.savez(folder / "data.npz", x=x, target=y)
    train(folder / "run", OWN / "ridge.dsl", folder / "data.npz", "--dtype", "f64")
    found, known = weights_of(folder / "run"), Ridge(alpha=1.0, tol=1e-14).fit(x, y)
    error = max(
        np.abs(found["w"] - known.coef_).max() / np.abs(known.coef_).max(), abs(found["b"] / known.intercept_ - 1)
    )
    yield Row("ridge by steps, f64", "coefficients of scikit-learn, to 1e-8", f"off by {error:.1e}", bool(error < 1e-8))

    # the strength of the penalty is trained, through the solution, on other rows
    x, y = np.hstack([x, np.ones((len(x), 1))]), y / y.std()
    parts = {"x": x[:300], "y": y[:300], "x_new": x[300:], "target": y[300:]}
    np.savez(folder / "solved.npz", **parts)
    spec = SPECS / "derivatives/ridge.dsl"
    train(folder / "solved", spec, folder / "solved.npz", "--dtype", "f64", "--backend", "numpy")
    ((name, strength),) = weights_of(folder / "solved").items()
    outputs = dslc.compile(spec, dtype="f64").forward({name: strength}, *list(parts.values())[:3])
    known = Ridge(alpha=float(np.exp(strength)), fit_intercept=False, tol=1e-14).fit(parts["x"], parts["y"])
    error = np.abs(outputs["w"] - known.coef_).max() / np.abs(known.coef_).max()
    what = f"ridge by its solution, strength trained to {np.exp(float(strength)):.2f}"
    yield Row(what, "coefficients of scikit-learn, to 1e-8", f"off by {error:.1e}", bool(error < 1e-8))


def logistic(folder: Path) -> Iterator[Row]:
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    own, test = order[:398], order[398:]
    x = (x - x[own].mean(0)) / x[own].std(0)
    np.savez(folder / "data.npz", x=x[own], target=y[own], test_x=x[test], test_target=y[test])
    # the spec adds 1e-3 of the sum of squares to the mean loss, scikit-learn half of it to C times the sum of losses
    known = LogisticRegression(C=1 / (2 * 1e-3 * len(own)), tol=1e-10, max_iter=10000).fit(x[own], y[own])
    spec = SPECS / "linear/logistic_regression.dsl"
    for name, options in (("as in its spec", ()), ("converged", ("--batch", len(own), "--epochs", 6000))):
        run = folder / name.split()[0]
        report = train(run, spec, folder / "data.npz", "--set", f"features={x.shape[1]}", *options)
        accuracy, expected = report["test"]["accuracy"], known.score(x[test], y[test])
        close = bool(abs(accuracy - expected) <= 0.005)
        measured = f"accuracy {accuracy:.4f}"
        if options:
            error = np.abs(weights_of(run)["w"] - known.coef_[0]).max() / np.abs(known.coef_).max()
            close, measured = close and bool(error < 1e-3), f"{measured}, coefficients off by {error:.1e}"
        limit = f"scikit-learn's accuracy {expected:.4f} to 0.005{', coefficients to 1e-3' if options else ''}"
        yield Row(f"logistic regression, {name}", limit, measured, close)


# ---- networks on the digits


def digits(folder: Path) -> Iterator[Row]:
    report = train(folder, SPECS / "convolution/cnn.dsl", DIGITS, "--set", "width=32", "--epochs", 40, "--seeds", SEEDS)
    found = [run["test"]["accuracy"] for run in report["runs"]]
    ok = statistics.fmean(found) >= 0.985
    yield Row(f"digits, convolutions, {SEEDS} seeds", "test accuracy at least 0.985", shown(found), ok)


def depth(folder: Path) -> Iterator[Row]:
    plain = ("--set", "skip=false")
    for name, low, high, options in (
        ("50 layers with skips", 0.9, 1.0, ()),
        ("50 plain layers", 0.0, 0.3, plain),
        ("4 plain layers", 0.9, 1.0, (*plain, "--set", "depth=4")),
    ):
        report = train(folder / name, OWN / "deep.dsl", DIGITS, "--seeds", 3, *options)
        found = [run["test"]["accuracy"] for run in report["runs"]]
        limit = f"test accuracy at {f'least {low}' if low else f'most {high}'} with each"
        yield Row(f"digits, {name}, 3 seeds", limit, shown(found), low <= min(found) and max(found) <= high)
    module = dslc.compile(SPECS / "derivatives/depth.dsl", dtype="f64")
    slopes = module.forward({}, np.float64(0), np.ones(50))
    for name, expected in (("by_sigmoid", 0.25**50), ("by_tanh", 1.0), ("by_doubled", 2.0**50)):
        measured = float(slopes[name])
        ok = abs(measured / expected - 1) < 1e-12
        yield Row(f"slope of 50 units {name.replace('_', ' ')}", f"{expected:.6e}", f"{measured:.6e}", ok)


# ---- what keeps a net from learning wrong labels by heart


def noisy_digits() -> Arrays:
    """600 digits, 180 of them with a wrong label, and the test rows as they are."""
    with np.load(DIGITS) as whole:
        chance = np.random.default_rng(0)
        label = whole["label"][:600].astype(np.int64)
        wrong = chance.permutation(600)[:180]
        label[wrong] = (label[wrong] + chance.integers(1, 10, 180)) % 10
        return {"x": whole["x"][:600], "label": label, "test_x": whole["test_x"], "test_label": whole["test_label"]}


def by_torch(data: Arrays, seed: int, drop: float, mix: bool) -> float:
    """The test accuracy of the same net, trained in the same way by torch."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # a net this small is slower with more
    nn = torch.nn
    sizes = ((64, 128), (128, 128), (128, 10))
    layers: list[Any] = []
    for a, b in sizes:
        layers += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(drop)]
        nn.init.xavier_uniform_(layers[-3].weight)
        nn.init.zeros_(layers[-3].bias)
    net = nn.Sequential(*layers[:-2])
    rule = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    x, label = torch.tensor(data["x"], dtype=torch.float32), torch.tensor(data["label"])
    hot = nn.functional.one_hot(label, 10).float()
    for _ in range(100):
        for rows in torch.randperm(len(x)).split(32):
            a, t = x[rows], hot[rows]
            if mix:
                share = torch.rand(len(rows), 1)
                a, t = share * a + (1 - share) * a.roll(-1, 0), share * t + (1 - share) * t.roll(-1, 0)
            rule.zero_grad()
            nn.functional.cross_entropy(net(a), t).backward()
            rule.step()
    net.eval()
    with torch.no_grad():
        choice = net(torch.tensor(data["test_x"], dtype=torch.float32)).argmax(1).numpy()
    return float((choice == data["test_label"]).mean())


def noise(folder: Path) -> Iterator[Row]:
    data = noisy_digits()
    np.savez(folder / "data.npz", **data)
    plain: list[float] = []
    for name, options, drop, mix in (
        ("neither", (), 0.0, False),
        ("dropout", ("--set", "drop=0.5"), 0.5, False),
        ("mixup", ("--set", "mix=true"), 0.0, True),
    ):
        report = train(folder / name, OWN / "noisy.dsl", folder / "data.npz", "--seeds", SEEDS, *options)
        found = [run["test"]["accuracy"] for run in report["runs"]]
        known = [by_torch(data, seed, drop, mix) for seed in range(TORCH_SEEDS)]
        away = abs(statistics.fmean(found) - statistics.fmean(known))
        ok = away <= 3 * (standard_error(found) ** 2 + standard_error(known) ** 2) ** 0.5
        expected, measured = f"torch: {shown(known)}", shown(found)
        plain = plain or found
        if found is not plain:
            gain = [a - b for a, b in zip(found, plain, strict=True)]
            ok = ok and statistics.fmean(gain) > 3 * standard_error(gain)
            expected, measured = f"{expected}; a gain", f"{measured}; gain {shown(gain)}"
        yield Row(f"digits, 30 % wrong labels, {name}, {SEEDS} seeds", expected, measured, ok)


# ---- calibration


def calibration_error(p: Any, label: Any) -> float:
    """The expected calibration error over ten bins, row by row."""
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(10)]
    for row, right in zip(p.tolist(), label.tolist(), strict=True):
        bins[min(int(max(row) * 10), 9)].append((max(row), row.index(max(row)) == right))
    return sum(abs(sum(sure for sure, _ in part) - sum(ok for _, ok in part)) for part in bins) / len(label)


def calibration(folder: Path) -> Iterator[Row]:
    """A net that learned wrong labels by heart is too sure of itself; a temperature for other rows mends that."""
    whole = noisy_digits()
    order = np.random.default_rng(1).permutation(360)
    held, test = (
        {"x": whole["test_x"][rows], "label": whole["test_label"][rows]} for rows in (order[:180], order[180:])
    )
    tests = {f"test_{name}": x for name, x in test.items()}
    np.savez(folder / "data.npz", x=whole["x"], label=whole["label"], **tests)
    train(folder / "before", OWN / "noisy.dsl", folder / "data.npz", "--epochs", 400)
    logits = {}
    for name, part in (("held", held), ("test", test)):
        np.savez(folder / f"{name}.npz", x=part["x"])
        command(
            "run", OWN / "noisy.dsl", "--weights", folder / "before/weights.safetensors", "--inputs",
            folder / f"{name}.npz", "-o", folder / f"{name}_logits.npz",
        )  # fmt: skip
        with np.load(folder / f"{name}_logits.npz") as outputs:
            logits[name] = outputs["logits"]
    scaled = {
        "logits": logits["held"],
        "label": held["label"],
        "test_logits": logits["test"],
        "test_label": test["label"],
    }
    np.savez(folder / "logits.npz", **scaled)
    spec = SPECS / "linear/calibration.dsl"
    report = train(folder / "after", spec, folder / "logits.npz", "--epochs", 500)
    temperature = float(np.exp(weights_of(folder / "after")["log_temperature"]))
    errors = [calibration_error(softmax(logits["test"] / t), test["label"]) for t in (1.0, temperature)]
    ok = errors[1] < errors[0] / 2 and abs(report["test"]["calibration_error"] - errors[1]) < 1e-5
    measured = f"{errors[0]:.4f} before, {errors[1]:.4f} after, at temperature {temperature:.2f}"
    yield Row("calibration error, one number fitted", "less than half of what it was", measured, ok)

    best = best_temperature(logits["held"], held["label"])
    measured, ok = f"temperature {temperature:.4f}", abs(temperature / best - 1) < 1e-3
    yield Row("the temperature itself", f"SciPy's minimum: {best:.4f}, to 0.001 of it", measured, ok)

    picture = folder / "calibration.svg"
    told = command("plot", folder / "before", folder / "after", "--reliability", "-o", picture).splitlines()
    drawn = [f"ECE {error:.4f}" for error in errors]
    ok = all(text in line for text, line in zip(drawn, told, strict=False)) and picture.exists()
    yield Row("both reliability diagrams", " and ".join(drawn), "; ".join(line.split(",")[0] for line in told[:2]), ok)


def softmax(z: Any) -> Any:
    e = np.exp(z - z.max(1, keepdims=True), dtype=np.float64)
    return e / e.sum(1, keepdims=True)


def best_temperature(z: Any, label: Any) -> float:
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return float(-np.log(softmax(z / np.exp(log_temperature))[np.arange(len(label)), label]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8}).x))


#: what is trained -> the claims about it
TRAININGS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "ridge": ridge, "logistic": logistic, "digits": digits, "depth": depth, "noise": noise, "calibration": calibration,
}  # fmt: skip


def rows_of(name: str, keep: Path | None = None) -> Iterator[Row]:
    """The claims of one training, with the time that each took; runs and pictures stay where a folder is given."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if keep is None else keep / name
        folder.mkdir(parents=True, exist_ok=True)
        before = time.perf_counter()
        for row in TRAININGS[name](folder):
            now = time.perf_counter()
            yield replace(row, seconds=now - before)
            before = now


def main() -> None:
    """Print a table of all claims, or of those of the trainings that are named; status 1 where one fails."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="TRAINING", choices=[*TRAININGS, []], help=", ".join(TRAININGS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave runs and pictures there")
    asked = parser.parse_args()
    print("| what | expected | measured | seconds | ok |\n|---|---|---|---|---|")
    failed = 0
    for name in asked.names or TRAININGS:
        for row in rows_of(name, asked.keep):
            ok = "yes" if row.ok else "NO"
            print(f"| {row.what} | {row.expected} | {row.measured} | {row.seconds:.1f} | {ok} |", flush=True)
            failed += not row.ok
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
